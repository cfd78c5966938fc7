//! Upload, list and remove.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use axum::extract::rejection::QueryRejection;
use axum::extract::{Query, Request, State};
use axum::http::header::{CONTENT_ENCODING, CONTENT_RANGE};
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::{Extension, Json};
use serde::{Deserialize, Serialize};
use stockade_core::Error;
use stockade_core::caller::{Action, Caller};
use stockade_core::engine::ListFiles;
use stockade_core::path::RelPath;
use stockade_core::request::{FilePlace, Listing};
use stockade_mcp::LinkMaker as _;

use super::{Api, body, target};
use crate::problem::Problem;

/// A file that arrived.
#[derive(Debug, Serialize)]
pub(super) struct Uploaded {
    path: String,
    size: u64,
    /// From where it can be fetched without a key.
    url: Option<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Which {
    path: Option<String>,
    glob: Option<String>,
    depth: Option<u32>,
}

pub(super) async fn upload(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    request: Request,
) -> Result<(StatusCode, Json<Uploaded>), Problem> {
    caller.may(Action::Write)?;
    let (workspace, path) = target::file(request.uri())?;
    body::check_length(request.headers(), api.max_upload_bytes)?;
    check_is_raw(request.headers())?;
    let place = place(workspace);
    let (content, too_large) = body::stream(request.into_body(), api.max_upload_bytes);
    let size = match api.engine.upload(&caller, &place, &path, content).await {
        Err(_) if too_large.load(Ordering::Relaxed) => {
            return Err(Problem::too_large(api.max_upload_bytes));
        }
        other => other?,
    };
    let path = RelPath::from_text(&path)?.to_text();
    let dir = api.engine.workspace_dir(&caller, &place).await?;
    let url = api.links.link(&dir, &path);
    Ok((StatusCode::CREATED, Json(Uploaded { path, size, url })))
}

/// The body becomes the file byte for byte, so it must be nothing that stands for another content.
fn check_is_raw(headers: &HeaderMap) -> Result<(), Problem> {
    if headers.contains_key(CONTENT_RANGE) {
        return Err(Error::invalid("Content-Range", "is not taken; send the whole file").into());
    }
    let encoded = headers.contains_key(CONTENT_ENCODING);
    let form = body::media_type(headers).is_some_and(|kind| kind == "multipart/form-data");
    if !encoded && !form {
        return Ok(());
    }
    let detail = match encoded {
        true => "Content-Encoding: is not taken; send the bytes as they shall be in the file",
        false => "Content-Type: a form is not taken; send the bytes of the file alone",
    };
    Err(Problem::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_raw", detail)
        .next("for example: curl -T FILE URL"))
}

pub(super) async fn list(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
    which: Result<Query<Which>, QueryRejection>,
) -> Result<Json<Listing>, Problem> {
    let workspace = target::last(&uri, "/api/workspaces/")?;
    let Query(Which { path, glob, depth }) = which.map_err(|error| unreadable(&error))?;
    let request = ListFiles { path, glob, depth };
    Ok(Json(api.engine.list_files(&caller, &place(workspace), request).await?))
}

pub(super) async fn remove(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let (workspace, path) = target::file(&uri)?;
    api.engine.remove_file(&caller, &place(workspace), &path).await?;
    Ok(StatusCode::NO_CONTENT)
}

pub(super) fn place(workspace: String) -> FilePlace {
    FilePlace { workspace: Some(workspace), ..FilePlace::default() }
}

fn unreadable(error: &QueryRejection) -> Error {
    let known = "`path`, `glob` and `depth` (a whole number) are known";
    Error::invalid("query", format!("{}; {known}", error.body_text()))
}
