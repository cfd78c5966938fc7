#!/bin/sh
# Makes a root like a sandbox's and runs a command in it: for tests only, no wall.
# Usage: inside.sh ROOT MOUNTS WORKSPACE TMP COMMAND...   (MOUNTS: lines "from<TAB>to")
set -e
PATH=$PATH:/usr/sbin:/sbin
root=$1 mounts=$2 workspace=$3 tmp=$4
shift 4
mount -t tmpfs tmpfs "$root"
for dir in bin sbin lib lib32 lib64 libx32; do
    if [ -L "/$dir" ]; then cp -P "/$dir" "$root/$dir"; fi
done
place() {
    mkdir -p "$root$2"
    mount --rbind "$1" "$root$2"
}
place /usr /usr
place "$workspace" /workspace
place "$tmp" /tmp
mkdir -p "$root/proc" "$root/dev/shm" "$root/etc"
echo 'sandbox:x:0:0::/tmp/home:/bin/sh' >"$root/etc/passwd"
for dir in /etc/alternatives /etc/java-*; do
    if [ -d "$dir" ]; then place "$dir" "$dir"; fi
done
mount -t proc proc "$root/proc"
mount -t tmpfs tmpfs "$root/dev/shm"
for device in null zero full random urandom; do
    : >"$root/dev/$device"
    mount --bind "/dev/$device" "$root/dev/$device"
done
ln -s /proc/self/fd "$root/dev/fd"
while IFS='	' read -r from to; do
    place "$from" "$to"
    mount -o remount,bind,ro "$root$to" 2>/dev/null || true
done <"$mounts"
exec chroot "$root" /usr/bin/env -i -C /workspace "$@"
