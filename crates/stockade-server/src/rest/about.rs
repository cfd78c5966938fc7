//! Whether it is there, who you are, how busy it is.

use std::sync::Arc;

use axum::extract::State;
use axum::{Extension, Json};
use serde::Serialize;
use serde_json::{Value, json};
use stockade_core::caller::{Caller, Role};
use stockade_core::request::Health;

use super::Api;

/// The key of this request.
#[derive(Debug, Serialize)]
pub(super) struct KeyView {
    owner: String,
    role: Role,
}

pub(super) async fn alive() -> Json<Value> {
    Json(json!({ "status": "ok" }))
}

pub(super) async fn verify(Extension(caller): Extension<Caller>) -> Json<KeyView> {
    Json(KeyView { owner: caller.owner.to_string(), role: caller.role })
}

pub(super) async fn stats(State(api): State<Arc<Api>>) -> Json<Health> {
    Json(api.engine.health().await)
}
