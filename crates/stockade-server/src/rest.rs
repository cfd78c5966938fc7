//! The REST routes: parse, make one engine call, render.
//!
//! Which routes there are is said once, in the two tables below.

use std::sync::Arc;

use axum::handler::Handler;
use axum::http::Method;
use axum::routing::{MethodFilter, MethodRouter, on};
use stockade_core::engine::Engine;

use crate::links::Links;

mod about;
mod body;
mod disposition;
mod download;
mod files;
mod links;
mod marks;
mod range;
mod target;
mod workspaces;

pub(crate) use body::check_length;

/// What the handlers work with.
#[derive(Debug)]
pub(crate) struct Api {
    pub(crate) engine: Arc<Engine>,
    pub(crate) links: Arc<Links>,
    pub(crate) max_body_bytes: usize,
    pub(crate) max_upload_bytes: u64,
}

/// One method of one route.
#[derive(Debug)]
pub(crate) struct Endpoint {
    pub(crate) method: Method,
    pub(crate) path: &'static str,
    pub(crate) handler: MethodRouter<Arc<Api>>,
}

const WORKSPACES: &str = "/api/workspaces";
const WORKSPACE: &str = "/api/workspaces/{workspace}";
const FILES: &str = "/api/workspaces/{workspace}/files";
const FILE: &str = "/api/workspaces/{workspace}/files/{*path}";

/// What anybody may ask for. The token of a link is its key.
pub(crate) fn public() -> Vec<Endpoint> {
    vec![
        at(Method::GET, "/healthz", about::alive),
        at(Method::GET, "/files/{*rest}", download::linked),
    ]
}

/// What needs a key.
pub(crate) fn keyed() -> Vec<Endpoint> {
    vec![
        at(Method::GET, "/api/auth/verify", about::verify),
        at(Method::GET, "/api/stats", about::stats),
        at(Method::GET, WORKSPACES, workspaces::list),
        at(Method::POST, WORKSPACES, workspaces::create),
        at(Method::DELETE, WORKSPACE, workspaces::remove),
        at(Method::GET, FILES, files::list),
        at(Method::GET, FILE, download::own),
        at(Method::POST, FILE, files::upload),
        at(Method::PUT, FILE, files::upload),
        at(Method::DELETE, FILE, files::remove),
        at(Method::DELETE, "/api/links/{token}", links::revoke),
    ]
}

/// `GET` answers `HEAD` as well.
fn at<H, T>(method: Method, path: &'static str, handler: H) -> Endpoint
where
    H: Handler<T, Arc<Api>>,
    T: 'static,
{
    let filter = MethodFilter::try_from(method.clone()).expect("the tables hold common methods");
    Endpoint { method, path, handler: on(filter, handler) }
}
