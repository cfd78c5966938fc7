//! The server's end of the agent's wire protocol.
//!
//! `Link` turns a connected stream into processes for the engine. It is the
//! same for every backend: they differ in how the stream comes about. Every
//! byte of the agent is hostile input: lengths are capped, decoding is strict,
//! a broken frame ends the link, and an agent that stops talking delays
//! nothing but its own runs.

mod convert;
mod inbound;
mod link;
mod outbound;
mod process;

pub use link::{Amend, Link, unamended};
