//! All of it again as an ordinary user, who has no resource groups and one id.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown};
use std::process::Command;

use crate::place::host_has;

/// `nobody`: an id that owns nothing.
const USER: u32 = 65534;

#[test]
fn everything_holds_for_an_ordinary_user() {
    if !host_has(&["root", "userns"]) {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let program = dir.path().join("it");
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let mode = |mode| fs::Permissions::from_mode(mode);
    fs::set_permissions(&program, mode(0o755)).unwrap();
    fs::set_permissions(dir.path(), mode(0o755)).unwrap();
    let tmp = dir.path().join("tmp");
    fs::create_dir(&tmp).unwrap();
    chown(&tmp, Some(USER), Some(USER)).unwrap();

    let declared = std::env::var("STOCKADE_TEST_HOST").unwrap();
    let kept = declared.split(',').filter(|has| !["root", "cgroup"].contains(has));
    let declared = kept.chain(["user"]).collect::<Vec<_>>().join(",");
    #[expect(clippy::disallowed_methods, reason = "the test program again, as another user")]
    let output = Command::new("setpriv")
        .args(["--reuid", "65534", "--regid", "65534", "--clear-groups"])
        .arg(&program)
        .arg("--test-threads=4")
        .env("STOCKADE_TEST_HOST", declared)
        .env("TMPDIR", &tmp)
        .current_dir(&tmp)
        .output()
        .unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(text.contains("walls::no_packet_leaves ... ok"), "{text}");
}
