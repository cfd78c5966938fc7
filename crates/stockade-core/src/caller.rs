//! Who is calling, and what that caller may do.
//!
//! One check, `Caller::may`, stands in front of every engine method.

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::id::OwnerId;

/// What a key is good for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// Looks at its own things.
    ReadOnly,
    /// Runs code and changes its own things.
    User,
    /// Everything, other people's things included.
    Admin,
}

/// One kind of action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Action {
    /// Look at own things.
    Read,
    /// Change own files, sandboxes and workspaces.
    Write,
    /// Start code.
    Run,
    /// Keys, other owners, configuration.
    Administer,
}

/// An authenticated caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Caller {
    /// Whose things are touched.
    pub owner: OwnerId,
    /// What it may do.
    pub role: Role,
}

impl Caller {
    /// The machine's own user, on the command line and over stdio.
    pub fn local() -> Self {
        Self { owner: OwnerId::local(), role: Role::Admin }
    }

    /// Refuses what the role does not cover. The only authorisation check.
    pub fn may(&self, action: Action) -> Result<()> {
        let needed = match action {
            Action::Read => Role::ReadOnly,
            Action::Write | Action::Run => Role::User,
            Action::Administer => Role::Admin,
        };
        if self.role >= needed {
            return Ok(());
        }
        Err(Error::denied(format!(
            "{action:?} needs a key of role {needed:?}; ask the operator for one"
        )))
    }
}
