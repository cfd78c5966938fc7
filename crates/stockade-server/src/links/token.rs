//! What a link carries: workspace, expiry, nonce, and the MAC that binds them to a path.

use std::fmt;
use std::os::unix::ffi::OsStrExt as _;

use base64::Engine as _;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use stockade_core::path::RelPath;

use super::key_file::Key;

/// Keeps these MACs apart from whatever else may be made with the key one day.
const CONTEXT: &[u8] = b"stockade download link, version 1\0";
const TICKET: usize = 32;
const MAC: usize = 32;

/// What is signed, besides the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ticket {
    dir: [u8; 16],
    pub(super) expires_at: u64,
    nonce: [u8; 8],
}

/// A ticket with its MAC, which was not looked at yet.
#[derive(Debug)]
pub(super) struct Token {
    pub(super) ticket: Ticket,
    mac: [u8; MAC],
}

impl Ticket {
    /// A ticket for the workspace in that directory (32 hexadecimal digits).
    pub(super) fn new(dir: &str, expires_at: u64, nonce: [u8; 8]) -> Option<Self> {
        let good =
            dir.len() == 32 && dir.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let dir = good.then(|| u128::from_str_radix(dir, 16).ok())??.to_be_bytes();
        Some(Self { dir, expires_at, nonce })
    }

    pub(super) fn sign(self, key: &Key, path: &RelPath) -> Token {
        Token { ticket: self, mac: self.mac(key, path).finalize().into_bytes().into() }
    }

    /// The directory of the workspace.
    pub(super) fn dir(&self) -> String {
        format!("{:032x}", u128::from_be_bytes(self.dir))
    }

    /// What a revoked link is known by. It contains the workspace, so that nobody
    /// can revoke a link of another one by putting its nonce into a token.
    pub(super) fn id(&self) -> String {
        format!("{}-{:016x}", self.dir(), u64::from_be_bytes(self.nonce))
    }

    fn bytes(&self) -> [u8; TICKET] {
        let mut bytes = [0; TICKET];
        bytes[..16].copy_from_slice(&self.dir);
        bytes[16..24].copy_from_slice(&self.expires_at.to_be_bytes());
        bytes[24..].copy_from_slice(&self.nonce);
        bytes
    }

    /// Everything before the path has a fixed length, so that no two inputs meet.
    fn mac(&self, key: &Key, path: &RelPath) -> Hmac<Sha256> {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(key.bytes()).expect("HMAC takes keys of any length");
        mac.update(CONTEXT);
        mac.update(&self.bytes());
        mac.update(path.as_path().as_os_str().as_bytes());
        mac
    }
}

impl Token {
    /// Takes a token apart. Says nothing about whether it is genuine.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let bytes = BASE64_URL_SAFE_NO_PAD.decode(text).ok()?;
        let bytes: [u8; TICKET + MAC] = bytes.try_into().ok()?;
        let ticket = Ticket {
            dir: bytes[..16].try_into().ok()?,
            expires_at: u64::from_be_bytes(bytes[16..24].try_into().ok()?),
            nonce: bytes[24..TICKET].try_into().ok()?,
        };
        Some(Self { ticket, mac: bytes[TICKET..].try_into().ok()? })
    }

    /// Whether it was made here, for that path. Takes the same time for each wrong one.
    pub(super) fn verify(&self, key: &Key, path: &RelPath) -> bool {
        self.ticket.mac(key, path).verify_slice(&self.mac).is_ok()
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = [self.ticket.bytes(), self.mac].concat();
        f.write_str(&BASE64_URL_SAFE_NO_PAD.encode(bytes))
    }
}
