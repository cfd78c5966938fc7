//! Tests of the binary and its parts, as one program.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "helpers of tests fail the test that uses them"
)]

mod auth;
mod cli;
mod config;
mod front;
mod http;
mod links;
mod state;
mod tidy;
