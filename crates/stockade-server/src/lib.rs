//! The binary `stockade`: configuration, keys, HTTP, command line, state.
//!
//! The composition root. The library exists so that tests can build the router
//! and the parts; nothing else uses it.

pub mod assembly;
pub mod auth;
pub mod cli;
pub mod config;
pub mod data_dir;
pub mod hosts;
pub mod http;
pub mod links;
pub mod logs;
pub mod problem;
mod recent;
pub mod rest;
pub mod state;
