//! The synthetic /etc: what programs need to find names, certificates, fonts and
//! libraries; nothing that tells about the machine or its users.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use crate::launcher::failure::Doing;
use crate::launcher::mounts::{READ_ONLY, detach};
use crate::launcher::protocol::{Failure, Network};

const FILES: [(&str, &str); 5] = [
    (
        "passwd",
        "root:x:0:0:root:/root:/usr/sbin/nologin\n\
         sandbox:x:1000:1000:sandbox:/tmp/home:/bin/sh\n\
         nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    ),
    ("group", "root:x:0:\nsandbox:x:1000:\nnogroup:x:65534:\n"),
    (
        "nsswitch.conf",
        "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n",
    ),
    ("hostname", "sandbox\n"),
    ("host.conf", "multi on\n"),
];

/// Public files that are copied: the same on every machine with the same packages.
const COPIED: [&str; 9] = [
    "ld.so.cache",
    "ld.so.conf",
    "mime.types",
    "services",
    "protocols",
    "os-release",
    "debian_version",
    "inputrc",
    "ssl/openssl.cnf",
];

/// Public directories that are shown as they are.
const SHOWN: [&str; 17] = [
    "alternatives",
    "ca-certificates",
    "crypto-policies",
    "fonts",
    "ImageMagick-6",
    "ImageMagick-7",
    "ld.so.conf.d",
    "maven",
    "perl",
    "php",
    "pki/ca-trust",
    "pki/tls/certs",
    "python3",
    "R",
    "ruby",
    "ssl/certs",
    "texmf",
];
/// Further ones, whose names carry a version.
const SHOWN_PREFIXES: [&str; 3] = ["java", "python3.", "php"];

const NO_HOSTS: &str = "127.0.0.1 localhost sandbox\n::1 localhost sandbox\n";
/// More than any name-server file is long.
const RESOLV_MOST: usize = 64 << 10;

/// How names are resolved inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Resolving {
    servers: Vec<u8>,
    hosts: Vec<u8>,
}

impl Resolving {
    /// The machine's present settings, where the sandbox may use its network.
    pub(super) fn now(network: Network) -> Self {
        let read = |path: &str| {
            let mut bytes = fs::read(path).unwrap_or_default();
            bytes.truncate(RESOLV_MOST);
            bytes
        };
        match network {
            Network::None => Self { servers: Vec::new(), hosts: NO_HOSTS.into() },
            Network::Open => Self { servers: read("/etc/resolv.conf"), hosts: NO_HOSTS.into() },
        }
    }
}

/// The directories to show, taken while they are in sight.
pub(super) fn take() -> Result<Vec<(PathBuf, OwnedFd)>, Failure> {
    let mut names: Vec<PathBuf> = SHOWN.iter().map(PathBuf::from).collect();
    for entry in fs::read_dir("/etc").into_iter().flatten().flatten() {
        let name = entry.file_name();
        let versioned = name
            .to_str()
            .is_some_and(|name| SHOWN_PREFIXES.iter().any(|prefix| name.starts_with(prefix)));
        if versioned && !names.iter().any(|known| known.as_os_str() == name) {
            names.push(name.into());
        }
    }
    names
        .into_iter()
        .filter(|name| fs::symlink_metadata(Path::new("/etc").join(name)).is_ok_and(|m| m.is_dir()))
        .map(|name| detach(&Path::new("/etc").join(&name), READ_ONLY).map(|tree| (name, tree)))
        .collect()
}

/// The contents of the files to copy, read while they are in sight.
pub(super) fn read() -> Vec<(&'static str, Vec<u8>)> {
    let read = |name| fs::read(Path::new("/etc").join(name)).ok().map(|bytes| (name, bytes));
    COPIED.iter().copied().filter_map(read).collect()
}

/// Fills an empty directory.
pub(super) fn fill(
    etc: &Path,
    shown: &[(PathBuf, OwnedFd)],
    copied: &[(&str, Vec<u8>)],
    resolving: &Resolving,
) -> Result<(), Failure> {
    let write = |name: &str, content: &[u8]| {
        let path = etc.join(name);
        super::make_dir(path.parent().unwrap_or(etc))?;
        fs::write(path, content).doing("writing a file in /etc of the root")
    };
    for (name, content) in FILES {
        write(name, content.as_bytes())?;
    }
    for (name, content) in copied {
        write(name, content)?;
    }
    write("resolv.conf", &resolving.servers)?;
    write("hosts", &resolving.hosts)?;
    for (name, tree) in shown {
        let place = etc.join(name);
        super::make_dir(&place)?;
        super::put(tree, &place)?;
    }
    Ok(())
}
