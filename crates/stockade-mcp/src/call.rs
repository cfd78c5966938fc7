//! One tool call on its way: who calls, what it may use, how its answer is shaped.

use std::sync::Arc;

use axum::http::request::Parts;
use rmcp::RoleServer;
use rmcp::model::ProtocolVersion;
use rmcp::service::RequestContext;
use stockade_core::caller::Caller;
use stockade_core::engine::Engine;
use stockade_core::path::RelPath;
use stockade_core::request::{FilePlace, RunView};
use tokio_util::sync::CancellationToken;

use crate::McpOptions;
use crate::error::Outcome;
use crate::progress::Progress;
use crate::render::files::file_url;

/// One tool call.
pub(crate) struct Call<'a> {
    /// Does the work.
    pub(crate) engine: &'a Arc<Engine>,
    /// How the server is set up.
    pub(crate) options: &'a McpOptions,
    /// On whose behalf.
    pub(crate) caller: Caller,
    /// Names this call in answers and in the log.
    pub(crate) request_id: String,
    /// Fires when the client gives the call up.
    pub(crate) cancelled: CancellationToken,
    /// Tells the client how it goes, if it asked for that.
    pub(crate) progress: Option<Progress>,
    /// Whether the client's protocol has links as content.
    pub(crate) takes_links: bool,
}

impl Call<'_> {
    /// Makes links for the files of one workspace.
    pub(crate) async fn links(&self, place: &FilePlace) -> Outcome<Links<'_>> {
        let wanted = self.options.links.is_some() || self.options.workspace_root.is_some();
        let dir = match wanted {
            true => Some(self.engine.workspace_dir(&self.caller, place).await?),
            false => None,
        };
        Ok(Links { options: self.options, dir })
    }
}

/// Where the files of a run are; `None` when they went away with its sandbox.
pub(crate) fn place_of(view: &RunView) -> Option<FilePlace> {
    let place = FilePlace { sandbox: view.sandbox.clone(), workspace: None };
    match (&view.sandbox, &view.workspace) {
        (Some(_), _) => Some(place),
        (None, Some(name)) => Some(FilePlace { workspace: Some(name.clone()), ..place }),
        (None, None) => None,
    }
}

/// Makes links for the files of one workspace.
#[derive(Debug)]
pub(crate) struct Links<'a> {
    options: &'a McpOptions,
    dir: Option<String>,
}

impl Links<'_> {
    /// The address of a file, if it has one.
    pub(crate) fn of(&self, path: &str) -> Option<String> {
        let dir = self.dir.as_ref()?;
        if let Some(maker) = &self.options.links {
            return maker.link(dir, path);
        }
        let path = RelPath::from_text(path).ok()?;
        Some(file_url(&self.options.workspace_root.as_ref()?.join(dir).join(path.as_path())))
    }
}

/// Whether links may stand among the content of a result.
pub(crate) fn takes_links(context: &RequestContext<RoleServer>) -> bool {
    let version = context.protocol_version();
    version.is_some_and(|version| version.as_str() >= ProtocolVersion::V_2025_06_18.as_str())
}

/// The id under which the log knows a call: the HTTP request's own, or a new one.
pub(crate) fn request_id(context: &RequestContext<RoleServer>) -> String {
    let given = context
        .extensions
        .get::<Parts>()
        .and_then(|parts| parts.headers.get("x-request-id"))
        .and_then(|id| id.to_str().ok())
        .filter(|id| id.len() <= 64 && !id.is_empty());
    match given {
        Some(id) => id.to_owned(),
        None => new_id(),
    }
}

fn new_id() -> String {
    match getrandom::u64() {
        Ok(number) => format!("{number:016x}"),
        // An id only joins an answer with a line of the log; a call need not fail over it.
        Err(_) => "unnamed".to_owned(),
    }
}
