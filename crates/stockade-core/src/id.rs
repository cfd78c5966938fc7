//! Names of things: short, readable, and never reused.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// A sandbox's handle, for example `calm-otter-7f3k9q`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SandboxId(String);

/// A run's handle, for example `run-4k7wq2m9zt`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct RunId(String);

/// The name of a workspace: `[A-Za-z0-9_-]{1,64}`, unique per owner.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct WorkspaceName(String);

/// Who owns something: the id of a key, or `local` for the machine's own user.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OwnerId(String);

const ADJECTIVES: [&str; 16] = [
    "amber", "brave", "calm", "dusty", "eager", "fair", "gentle", "happy", "ivory", "jolly",
    "keen", "lucky", "misty", "noble", "quiet", "swift",
];
const ANIMALS: [&str; 16] = [
    "badger", "crane", "dingo", "eagle", "ferret", "gecko", "heron", "ibis", "jackal", "koala",
    "lemur", "marten", "otter", "puffin", "raven", "tapir",
];
/// Crockford's base 32 without letters that look like digits.
const ALPHABET: &[u8; 32] = b"0123456789abcdefghjkmnpqrstvwxyz";

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).expect("the kernel's random source is always there after boot");
    bytes
}

fn base32(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| char::from(ALPHABET[usize::from(byte & 31)])).collect()
}

impl SandboxId {
    /// A new random handle.
    pub fn random() -> Self {
        let [adjective, animal, rest @ ..] = random::<10>();
        let adjective = ADJECTIVES[usize::from(adjective & 15)];
        let animal = ANIMALS[usize::from(animal & 15)];
        Self(format!("{adjective}-{animal}-{}", base32(&rest)))
    }

    /// Takes a handle that a caller sent. It may name nothing.
    pub fn parse(raw: &str) -> Result<Self> {
        handle("sandbox", raw).map(Self)
    }
}

impl RunId {
    /// A new random handle.
    pub fn random() -> Self {
        Self(format!("run-{}", base32(&random::<12>())))
    }

    /// Takes a handle that a caller sent. It may name nothing.
    pub fn parse(raw: &str) -> Result<Self> {
        handle("run", raw).map(Self)
    }
}

impl WorkspaceName {
    /// Takes a name that a caller sent.
    pub fn parse(raw: &str) -> Result<Self> {
        let good = |c: char| c.is_ascii_alphanumeric() || c == '_' || c == '-';
        if (1..=64).contains(&raw.len()) && raw.chars().all(good) {
            return Ok(Self(raw.to_owned()));
        }
        Err(Error::invalid("workspace", "must be 1 to 64 characters of A-Z, a-z, 0-9, _ and -"))
    }
}

impl OwnerId {
    /// The machine's own user: command line and stdio.
    pub fn local() -> Self {
        Self("local".to_owned())
    }

    /// The owner that a key stands for.
    pub fn of_key(key_id: &str) -> Self {
        Self(key_id.to_owned())
    }
}

fn handle(field: &'static str, raw: &str) -> Result<String> {
    let good = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    if (1..=64).contains(&raw.len()) && raw.chars().all(good) {
        return Ok(raw.to_owned());
    }
    Err(Error::invalid(field, "must be 1 to 64 characters of A-Z, a-z, 0-9, _ and -"))
}

macro_rules! text {
    ($($name:ident),*) => {$(
        impl $name {
            /// The name as text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    )*};
}

text!(SandboxId, RunId, WorkspaceName, OwnerId);
