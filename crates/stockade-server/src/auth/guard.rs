//! The gate in front of everything that is not public.

use std::sync::Arc;

use axum::extract::{Request, State};
use axum::middleware::Next;
use axum::response::{IntoResponse as _, Response};

use super::{Keys, credential};
use crate::problem::Problem;

/// Lets a request with a valid key pass, with its caller among the extensions.
/// The body is not touched.
pub(crate) async fn require_key(
    State(keys): State<Arc<Keys>>,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = match credential::secret(request.headers()) {
        Some(secret) => keys.authenticate(secret).await,
        None => Ok(None),
    };
    match caller {
        Ok(Some(caller)) => {
            request.extensions_mut().insert(caller);
            next.run(request).await
        }
        Ok(None) => Problem::unauthorized().into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}
