//! Workspaces.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{StatusCode, Uri};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use stockade_core::caller::{Action, Caller};
use stockade_core::request::WorkspaceView;

use super::{Api, body, target};
use crate::problem::Problem;

#[derive(Debug, Serialize)]
pub(super) struct Workspaces {
    workspaces: Vec<WorkspaceView>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Create {
    name: String,
}

pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
) -> Result<Json<Workspaces>, Problem> {
    Ok(Json(Workspaces { workspaces: api.engine.workspaces(&caller).await? }))
}

pub(super) async fn create(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<(StatusCode, Json<WorkspaceView>), Problem> {
    // Before the body, which is held in memory.
    caller.may(Action::Write)?;
    let Create { name } = body::json(request, api.max_body_bytes).await?;
    let made = api.engine.create_workspace(&caller, &name).await?;
    Ok((StatusCode::CREATED, Json(made)))
}

pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let name = target::last(&uri, "/api/workspaces/")?;
    api.engine.remove_workspace(&caller, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}
