//! The protocol's side of a server: what it is, which tools it has, how a call is carried out.

use std::sync::Arc;
use std::time::Instant;

use axum::http::request::Parts;
use rmcp::model::{
    CacheScope, CallToolRequestParams, CallToolResponse, CallToolResult, CustomRequest,
    CustomResult, ErrorCode, Implementation, ListToolsResult, PaginatedRequestParams,
    ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler};
use stockade_core::caller::Caller;
use stockade_core::engine::Engine;

use crate::McpOptions;
use crate::args::Args;
use crate::call::{Call, request_id, takes_links};
use crate::catalog::Catalog;
use crate::progress::Progress;
use crate::tools;

/// How long a client may keep the list of tools.
const LIST_TTL_MS: u64 = 300_000;

/// One server; clones share everything.
#[derive(Debug, Clone)]
pub(crate) struct Server(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    engine: Arc<Engine>,
    options: McpOptions,
    catalog: Catalog,
    access: Access,
}

/// Where callers come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Access {
    /// The machine's own user, over stdio.
    Local,
    /// Whoever the authentication in front found.
    Http,
}

impl Server {
    pub(crate) fn new(engine: Arc<Engine>, options: McpOptions, access: Access) -> Self {
        let catalog = Catalog::new(engine.settings());
        Self(Arc::new(Shared { engine, options, catalog, access }))
    }

    fn caller(&self, context: &RequestContext<RoleServer>) -> Result<Caller, ErrorData> {
        if self.0.access == Access::Local {
            return Ok(Caller::local());
        }
        let parts = context.extensions.get::<Parts>();
        parts.and_then(|parts| parts.extensions.get::<Caller>()).cloned().ok_or_else(|| {
            tracing::error!("a request reached the MCP server without an authenticated caller");
            ErrorData::internal_error("the server did not authenticate this request", None)
        })
    }

    async fn carry_out(
        &self,
        request: CallToolRequestParams,
        context: &RequestContext<RoleServer>,
    ) -> Result<CallToolResult, ErrorData> {
        let Shared { engine, options, catalog, .. } = &*self.0;
        let name = request.name.as_ref();
        let Some(schema) = catalog.schema(name) else {
            let names = catalog.names();
            let name: String = name.chars().take(100).collect();
            return Err(ErrorData::invalid_params(
                format!("no tool is called `{name}`; there are {}", names.join(", ")),
                None,
            ));
        };
        let mut call = Call {
            engine,
            options,
            caller: self.caller(context)?,
            request_id: request_id(context),
            cancelled: context.ct.clone(),
            progress: Progress::new(context),
            takes_links: takes_links(context),
        };
        let started = Instant::now();
        let outcome = match Args::new(name, schema, request.arguments) {
            Ok(args) => tools::run(name, &mut call, args).await,
            Err(failure) => Err(failure),
        };
        let millis = started.elapsed().as_millis();
        let refused = outcome.is_err();
        tracing::info!(request_id = call.request_id, tool = name, owner = %call.caller.owner, millis, refused, "tool call");
        Ok(outcome.unwrap_or_else(|failure| failure.into_result(&call.request_id)))
    }
}

impl ServerHandler for Server {
    fn get_info(&self) -> ServerConfig {
        let implementation =
            Implementation::new("stockade", env!("CARGO_PKG_VERSION")).with_title("Stockade");
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(implementation)
            .with_instructions(self.0.catalog.instructions())
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let caller = self.caller(&context)?;
        let tools = self.0.catalog.tools(&self.0.engine, &caller).await;
        Ok(ListToolsResult::with_all_items(tools.to_vec())
            .with_ttl_ms(LIST_TTL_MS)
            .with_cache_scope(CacheScope::Public))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.0.catalog.tool(name).cloned()
    }

    /// What is no request of the protocol, or one that lacks what it must have.
    async fn on_custom_request(
        &self,
        request: CustomRequest,
        _context: RequestContext<RoleServer>,
    ) -> Result<CustomResult, ErrorData> {
        let method: String = request.method.chars().take(100).collect();
        if method == "tools/call" {
            let text = "params: must be an object with `name`, a text, and `arguments`, an object";
            return Err(ErrorData::invalid_params(text, None));
        }
        let text = format!(
            "no method is called `{method}`, or not with these params; there are initialize, ping, \
             tools/list and tools/call"
        );
        Err(ErrorData::new(ErrorCode::METHOD_NOT_FOUND, text, None))
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        self.carry_out(request, &context).await.map(CallToolResponse::from)
    }
}
