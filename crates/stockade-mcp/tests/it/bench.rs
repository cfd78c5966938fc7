//! An engine on the fake backend, and clients of its MCP server.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rmcp::model::{
    CallToolRequestParams, CallToolResult, ClientConfig, ClientRequest, ContentBlock,
    ProgressNotificationParam, ProtocolVersion, Request,
};
use rmcp::service::{NotificationContext, PeerRequestOptions, RequestHandle, RunningService};
use rmcp::{ClientHandler, RoleClient, ServiceExt as _};
use serde_json::Value;
use stockade_core::engine::{Engine, Settings};
use stockade_core::fake::{FakeBackend, MemoryStore};
use stockade_core::limits::Limits;
use stockade_core::request::NetworkRequest;
use stockade_core::runtime::{Place, Runtime};
use stockade_mcp::{LinkMaker, McpOptions};
use tempfile::TempDir;

/// Links that can be told apart.
#[derive(Debug)]
pub(crate) struct TestLinks;

impl LinkMaker for TestLinks {
    fn link(&self, workspace_dir: &str, path: &str) -> Option<String> {
        Some(format!("http://files.example/{workspace_dir}/{path}"))
    }
}

/// An engine with everything in memory but its workspaces.
pub(crate) struct Bench {
    pub(crate) engine: Arc<Engine>,
    pub(crate) backend: Arc<FakeBackend>,
    _data: TempDir,
}

impl Bench {
    pub(crate) async fn new() -> Self {
        Self::answering_within(Duration::from_secs(25)).await
    }

    pub(crate) async fn answering_within(answer_within: Duration) -> Self {
        let data = TempDir::new().unwrap();
        let backend = FakeBackend::new();
        let store = Arc::new(MemoryStore::default());
        let settings = settings(data.path(), answer_within);
        let engine = Engine::start(settings, backend.clone(), store).await.unwrap();
        Self { engine, backend, _data: data }
    }

    pub(crate) fn options() -> McpOptions {
        McpOptions { links: Some(Arc::new(TestLinks)), ..McpOptions::default() }
    }

    /// A client of the newest version with `initialize`.
    pub(crate) async fn client(&self) -> Client {
        self.client_of(ProtocolVersion::V_2025_11_25, Self::options()).await
    }

    pub(crate) async fn client_of(&self, version: ProtocolVersion, options: McpOptions) -> Client {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let (reader, writer) = tokio::io::split(theirs);
        let engine = Arc::clone(&self.engine);
        tokio::spawn(async move { stockade_mcp::serve(engine, options, reader, writer).await });
        let progress = Arc::default();
        let handler = Handler { version, progress: Arc::clone(&progress) };
        Client { service: handler.serve(ours).await.unwrap(), progress }
    }
}

fn settings(data: &std::path::Path, answer_within: Duration) -> Settings {
    Settings {
        data_dir: data.to_owned(),
        default_limits: Limits::DEFAULT,
        ceiling: Limits::CEILING,
        required_layers: Vec::new(),
        networks: vec![NetworkRequest::None, NetworkRequest::Open],
        host_mounts: BTreeMap::new(),
        image_roots: Vec::new(),
        runtimes: vec![Runtime {
            id: "fake".to_owned(),
            aliases: vec!["fk".to_owned()],
            extension: "fake".to_owned(),
            run: vec!["{tool}".to_owned(), "{program}".to_owned(), "{args}".to_owned()],
            build: Vec::new(),
            tools: vec!["fake-lang".to_owned()],
            version_args: vec!["--version".to_owned()],
            env: BTreeMap::new(),
            place: Place::Private,
            min_memory_mb: 0,
            notes: String::new(),
        }],
        packages: BTreeMap::from([("fake".to_owned(), vec!["tables 1.2".to_owned()])]),
        base_env: BTreeMap::new(),
        fixed_env: BTreeMap::new(),
        max_concurrent: 4,
        max_queued: 16,
        answer_within,
        sandbox_idle: Duration::from_secs(1800),
        sandbox_life: Duration::from_secs(86_400),
        max_sandboxes_per_owner: 50,
        workspace_idle: None,
        run_retention: Duration::from_secs(3600),
        workspace_bytes: 1 << 30,
    }
}

/// Remembers the progress that it was told.
#[derive(Debug, Clone)]
pub(crate) struct Handler {
    version: ProtocolVersion,
    progress: Arc<Mutex<Vec<f64>>>,
}

impl ClientHandler for Handler {
    fn get_info(&self) -> ClientConfig {
        let mut config = ClientConfig::default();
        config.protocol_version = self.version.clone();
        config
    }

    async fn on_progress(
        &self,
        params: ProgressNotificationParam,
        _context: NotificationContext<RoleClient>,
    ) {
        self.progress.lock().unwrap().push(params.progress);
    }
}

/// A connected client.
pub(crate) struct Client {
    pub(crate) service: RunningService<RoleClient, Handler>,
    pub(crate) progress: Arc<Mutex<Vec<f64>>>,
}

impl Client {
    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> CallToolResult {
        self.service.call_tool(params(tool, arguments)).await.unwrap()
    }

    /// The text of a result that is no error.
    pub(crate) async fn text(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        let text = text_of(&result);
        assert_ne!(result.is_error, Some(true), "{text}");
        text
    }

    /// The text of a result that is an error.
    pub(crate) async fn refusal(&self, tool: &str, arguments: Value) -> String {
        let result = self.call(tool, arguments).await;
        let text = text_of(&result);
        assert_eq!(result.is_error, Some(true), "{text}");
        text
    }

    /// A call that can be cancelled.
    pub(crate) async fn start(&self, tool: &str, arguments: Value) -> RequestHandle<RoleClient> {
        let request = ClientRequest::CallToolRequest(Request::new(params(tool, arguments)));
        let options = PeerRequestOptions::default();
        self.service.send_cancellable_request(request, options).await.unwrap()
    }
}

fn params(tool: &str, arguments: Value) -> CallToolRequestParams {
    let Value::Object(arguments) = arguments else { panic!("arguments are an object") };
    CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments)
}

/// The first block, which has to be text.
pub(crate) fn text_of(result: &CallToolResult) -> String {
    assert!(result.structured_content.is_none());
    result.content[0].as_text().unwrap().text.clone()
}

/// The kinds of blocks of a result.
pub(crate) fn kinds(result: &CallToolResult) -> Vec<&'static str> {
    let kind = |block: &ContentBlock| match block {
        ContentBlock::Text(_) => "text",
        ContentBlock::Image(_) => "image",
        ContentBlock::ResourceLink(_) => "link",
        _ => "other",
    };
    result.content.iter().map(kind).collect()
}

/// The word after a label: `run run-…`.
pub(crate) fn after(text: &str, label: &str) -> String {
    let (_, rest) = text.split_once(label).unwrap_or_else(|| panic!("no {label:?} in {text}"));
    rest.split_whitespace().next().unwrap_or_default().to_owned()
}
