//! The end of download links.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::http::{StatusCode, Uri};
use stockade_core::caller::Caller;

use super::{Api, target};
use crate::problem::Problem;

pub(super) async fn revoke(
    State(api): State<Arc<Api>>,
    Extension(caller): Extension<Caller>,
    uri: Uri,
) -> Result<StatusCode, Problem> {
    let token = target::last(&uri, "/api/links/")?;
    api.links.revoke(&caller, &token).await?;
    Ok(StatusCode::NO_CONTENT)
}
