//! How each language runs, and what this machine has ready for it.
//!
//! | part | what it is |
//! |---|---|
//! | `table` | the runtimes: built-in entries, extended by the config file |
//! | `base_env` | the environment every program starts with |
//! | `installed` | mounts, packages and problems as they are now; installs nothing |
//! | `prepare` | installs the standard package set below the data directory |
//!
//! Nothing here starts code of a user. The drivers are programs that run inside
//! a sandbox, started by its agent like any other.

mod clients;
mod drivers;
mod environment;
mod go_cache;
mod host_tools;
mod inside;
mod installed;
mod prepare;
mod set_dir;
mod standard_set;
mod table;

pub use environment::base_env;
pub use installed::{Prepared, Problem, installed};
pub use prepare::{Options, Progress, SystemPackages, prepare};
pub use table::table;
