//! Root file systems other than the plain one.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

use stockade_core::backend::Backend;
use stockade_core::id::SandboxId;
use stockade_core::spec::{Image, Network};

use crate::place::{Place, host_has, output};

#[tokio::test]
async fn further_directories_are_shown_read_only() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let packages = place.dir.path().join("packages");
    fs::create_dir(&packages).unwrap();
    fs::write(packages.join("one"), "1").unwrap();
    let modules = place.dir.path().join("modules");
    fs::create_dir(&modules).unwrap();
    fs::write(modules.join("two"), "2").unwrap();
    let mut spec = place.spec();
    spec.image = Image::Host {
        mounts: BTreeMap::from([
            (packages.clone(), "/opt/stockade/packages".into()),
            (modules, "/node_modules".into()),
        ]),
    };
    let sandbox = place.native.create(&SandboxId::random(), &spec).await.unwrap();
    let script = "cat /opt/stockade/packages/one /node_modules/two; touch /node_modules/x 2>&1";
    let ran = crate::place::run(&sandbox, crate::place::shell(script)).await;
    assert!(ran.stdout.starts_with("12"), "{ran:?}");
    assert!(ran.stdout.contains("Read-only") || ran.stdout.contains("Permission"), "{ran:?}");
}

#[tokio::test]
async fn an_open_network_is_the_machines() {
    if !host_has(&["userns"]) {
        return;
    }
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let place = Place::new();
    let mut spec = place.spec();
    spec.network = Network::Open;
    let sandbox = place.native.create(&SandboxId::random(), &spec).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let script = format!("bash -c 'echo >/dev/tcp/127.0.0.1/{port}' && cat /etc/resolv.conf");
    let servers = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
    assert_eq!(output(&sandbox, &script).await, servers);
}

#[tokio::test]
async fn an_unpacked_root_is_used_as_it_is() {
    if !host_has(&["userns"]) {
        return;
    }
    let place = Place::new();
    let root = place.dir.path().join("root");
    for dir in ["proc", "dev", "tmp", "workspace", "bin", "lib64", "lib/x86_64-linux-gnu"] {
        fs::create_dir_all(root.join(dir)).unwrap();
    }
    for file in
        ["bin/sh", "bin/cat", "lib64/ld-linux-x86-64.so.2", "lib/x86_64-linux-gnu/libc.so.6"]
    {
        fs::copy(Path::new("/").join(file), root.join(file)).unwrap();
    }
    fs::write(root.join("hello"), "from the image\n").unwrap();
    let mut spec = place.spec();
    spec.image = Image::Root(root.clone());
    let sandbox = place.native.create(&SandboxId::random(), &spec).await.unwrap();
    let script = "cat /hello; echo x >/workspace/made; echo y 2>/dev/null >/bin/y || echo refused";
    assert_eq!(output(&sandbox, script).await, "from the image\nrefused\n");
    assert!(place.workspace().join("made").exists());

    // A link where something is to be mounted would lead the mount elsewhere.
    let hostile = place.dir.path().join("hostile");
    for dir in ["proc", "dev", "tmp"] {
        fs::create_dir_all(hostile.join(dir)).unwrap();
    }
    symlink("/tmp", hostile.join("workspace")).unwrap();
    spec.image = Image::Root(hostile);
    let error = place.native.create(&SandboxId::random(), &spec).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert!(source.contains("no plain directory workspace"), "{source}");
}
