//! What must be out of reach, tried from inside. Effects, not calls.

use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener};

use stockade_core::backend::Backend;
use stockade_core::isolation::{Assurance, Enforcement, Layer};

use crate::place::{Place, host_has, output, run, shell};

#[tokio::test]
async fn the_report_names_every_layer_and_the_level() {
    if !host_has(&["userns", "landlock"]) {
        return;
    }
    let place = Place::new();
    let isolation = place.native.probe().await.unwrap();
    let full = |layer| matches!(isolation.layers[&layer], Enforcement::Full { .. });
    for layer in
        [Layer::Filesystem, Layer::Processes, Layer::Network, Layer::Syscalls, Layer::Privileges]
    {
        assert!(full(layer), "{layer:?}: {isolation:#?}");
    }
    let grouped = host_has(&["cgroup"]);
    assert_eq!(full(Layer::Memory) && full(Layer::Pids) && full(Layer::Cpu), grouped);
    let level = if grouped { Assurance::L2 } else { Assurance::L1 };
    assert_eq!(isolation.level, level, "{isolation:#?}");
    assert_eq!(isolation.satisfies(&Layer::ALL).is_ok(), grouped);
}

#[tokio::test]
async fn a_missing_layer_is_a_refusal() {
    if !host_has(&["userns"]) || std::env::var("STOCKADE_TEST_HOST").unwrap().contains("cgroup") {
        println!("skipped: needs a host without resource groups");
        return;
    }
    let place = Place::new();
    let mut spec = place.spec();
    spec.required = vec![Layer::Memory];
    let id = stockade_core::id::SandboxId::random();
    let error = place.native.create(&id, &spec).await.unwrap_err();
    assert_eq!(error.code(), "unenforceable");
    assert!(error.to_string().contains("systemd-run"), "{error}");
}

#[tokio::test]
async fn files_of_the_machine_are_out_of_sight() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    std::fs::write(place.dir.path().join("canary"), "hush-5d1f").unwrap();
    let sandbox = place.sandbox().await;
    let canary = place.dir.path().join("canary").display().to_string();
    let script = format!(
        "for f in {canary} /etc/shadow /etc/machine-id /root /boot /mnt /srv /var/lib /var/log \
         /workspace/../../{canary} /proc/1/root/etc /proc/1/cwd /proc/1/environ; do \
         cat $f >/dev/null 2>&1 && echo read $f; ls $f/ >/dev/null 2>&1 && echo listed $f; done; \
         grep -rl hush-5d1f /workspace /tmp /etc 2>/dev/null; wc -l </etc/passwd; hostname"
    );
    assert_eq!(output(&sandbox, &script).await, "3\nsandbox\n");
}

#[tokio::test]
async fn nothing_but_its_own_places_can_be_written() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let script = "for d in / /usr /usr/lib /etc /etc/ssl /dev /proc /sys /run /var /home /opt; do \
         touch $d/x 2>/dev/null && echo wrote $d; done; \
         echo 1 2>/dev/null >/proc/sys/kernel/hostname && echo wrote sysctl; \
         for d in /workspace /data /tmp /dev/shm /var/tmp /home/sandbox; do \
         touch $d/y || echo cannot write $d; done; \
         echo x >/dev/null; head -c 1 /dev/urandom | wc -c; ls -A /workspace";
    assert_eq!(output(&sandbox, script).await, "1\ny\n");
}

#[tokio::test]
async fn programs_have_no_privilege_and_can_gain_none() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let status = output(&sandbox, "cat /proc/self/status").await;
    let field = |name: &str| {
        let line = status.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("no {name} in {status}")).trim().to_owned()
    };
    for set in ["CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:"] {
        assert_eq!(field(set), "0000000000000000", "{set}");
    }
    assert_eq!(field("Seccomp:"), "2");
    assert_eq!(field("NoNewPrivs:"), "1");
    assert!(field("Uid:").split_whitespace().all(|uid| uid == "1000"), "{}", field("Uid:"));
    let refused = "unshare -r true 2>/dev/null && echo namespace; \
         mount -t tmpfs x /tmp 2>/dev/null && echo mount; \
         chroot / true 2>/dev/null && echo chroot; umount /proc 2>/dev/null && echo umount; true";
    assert_eq!(output(&sandbox, refused).await, "");
}

#[tokio::test]
async fn other_processes_cannot_be_seen() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let sleeper = sandbox.spawn(shell("sleep 60")).await.unwrap();
    let seen = output(&sandbox, "cat /proc/[0-9]*/cmdline | tr '\\0' ' '").await;
    assert!(!seen.contains("sleep"), "{seen}");
    let pids = output(&sandbox, "ls -d /proc/[0-9]* | wc -l").await;
    assert!(pids.trim().parse::<u32>().unwrap() <= 5, "{pids}");
    drop(sleeper);
}

#[tokio::test]
async fn no_packet_leaves() {
    if !host_has(&["userns"]) {
        return;
    }
    let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
    let name = format!("stockade-test-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(&name).unwrap();
    let _unix = UnixListener::bind_addr(&address).unwrap();
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let port = tcp.local_addr().unwrap().port();
    let script = format!(
        "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; \
         for to in 127.0.0.1/{port} 169.254.169.254/80 1.1.1.1/53; do \
         bash -c \"echo >/dev/tcp/$to\" 2>/dev/null && echo reached $to; done; \
         perl -MSocket -e 'socket(S, AF_UNIX, SOCK_STREAM, 0); \
         connect(S, pack(\"S a*\", AF_UNIX, \"\\0{name}\")) and print \"reached abstract\\n\"'; true"
    );
    assert_eq!(output(&sandbox, &script).await, "lo\n");
}

#[tokio::test]
async fn loopback_works_inside() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let script = "perl -MSocket -e 'socket(S, AF_INET, SOCK_STREAM, 0) or die; \
         bind(S, pack_sockaddr_in(8080, INADDR_LOOPBACK)) or die; listen(S, 1) or die; \
         socket(C, AF_INET, SOCK_STREAM, 0); \
         connect(C, pack_sockaddr_in(8080, INADDR_LOOPBACK)) or die; print \"up\"'";
    assert_eq!(output(&sandbox, script).await, "up");
}

#[tokio::test]
async fn every_mount_is_as_narrow_as_it_can_be() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let mounts = output(&sandbox, "cat /proc/self/mountinfo").await;
    assert!(mounts.lines().count() > 10, "{mounts}");
    for line in mounts.lines() {
        let fields: Vec<_> = line.split(' ').collect();
        let (point, options) = (fields[4], fields[5].split(',').collect::<Vec<_>>());
        let own = ["/tmp", "/dev/shm", "/workspace", "/proc"].contains(&point);
        assert_eq!(options.contains(&"ro"), !own, "{line}");
        assert!(options.contains(&"nosuid"), "{line}");
        assert!(options.contains(&"nodev") || point.starts_with("/dev/"), "{line}");
        assert!(!line.contains("shared:") && !line.contains("master:"), "{line}");
    }
}

#[tokio::test]
async fn no_descriptor_is_inherited() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    // The listing itself holds one descriptor while it reads.
    assert_eq!(output(&sandbox, "ls /proc/self/fd").await, "0\n1\n2\n3\n");
}

#[tokio::test]
async fn files_belong_to_the_server_outside_and_to_the_program_inside() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let given = place.workspace().join("given");
    std::fs::write(&given, "in").unwrap();
    std::fs::set_permissions(&given, std::fs::Permissions::from_mode(0o600)).unwrap();
    let sandbox = place.sandbox().await;
    let script = "cat given && stat -c %u:%g given && echo out >made && mkdir -p a/b && rm given";
    assert_eq!(output(&sandbox, script).await, "in1000:1000\n");
    let own = std::fs::metadata(place.workspace()).unwrap();
    for path in ["made", "a/b"] {
        let made = std::fs::metadata(place.workspace().join(path)).unwrap();
        assert_eq!((made.uid(), made.gid()), (own.uid(), own.gid()), "{path}");
    }
    assert!(!given.exists());
}

#[tokio::test]
async fn a_set_user_id_file_in_the_workspace_is_harmless() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let sandbox = place.sandbox().await;
    let ran = run(&sandbox, shell("cp /usr/bin/id . && chmod 4755 id && ./id -u")).await;
    assert_eq!(ran.stdout, "1000\n", "{ran:?}");
}
