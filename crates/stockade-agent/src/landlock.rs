//! The second wall around files: a Landlock rule set that stands even if a mount is wrong.
//!
//! Built once per sandbox after all mounts, installed on every run. It also
//! keeps signals and abstract Unix sockets inside the run, where the kernel can.

use std::os::fd::OwnedFd;

use landlock::{
    ABI, Access, AccessFs, CompatLevel, Compatible, PathBeneath, PathFd, Ruleset, RulesetAttr,
    RulesetCreatedAttr, RulesetError, Scope,
};

/// The newest interface this code was written for.
const NEWEST: ABI = ABI::V6;

/// The rule set of a sandbox, ready to be installed. `None` where the kernel has no Landlock.
///
/// A path that is not there grants nothing and is passed over.
pub(crate) fn ruleset(
    readable: &[String],
    writable: &[String],
) -> Result<Option<OwnedFd>, RulesetError> {
    let read = AccessFs::from_read(NEWEST);
    let full = AccessFs::from_all(NEWEST);
    let mut rules = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(full)?
        .scope(Scope::from_all(NEWEST))?
        .create()?;
    for (paths, access) in [(readable, read), (writable, full)] {
        for path in paths {
            let Ok(fd) = PathFd::new(path) else { continue };
            // Rules on single files (device nodes) may name file rights only.
            let access = if is_dir(path) { access } else { access & AccessFs::from_file(NEWEST) };
            rules = rules.add_rule(PathBeneath::new(fd, access))?;
        }
    }
    Ok(rules.into())
}

fn is_dir(path: &str) -> bool {
    std::fs::metadata(path).is_ok_and(|metadata| metadata.is_dir())
}
