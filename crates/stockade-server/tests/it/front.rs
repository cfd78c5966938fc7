//! The whole router over the fake backend, with one key of each role.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, HeaderValue, Method, Request, StatusCode, Uri};
use serde_json::Value;
use stockade_core::caller::{Caller, Role};
use stockade_core::engine::{Engine, FileWrite, Settings};
use stockade_core::fake::{FakeBackend, MemoryStore};
use stockade_core::id::{OwnerId, WorkspaceName};
use stockade_core::limits::Limits;
use stockade_core::request::{FilePlace, WriteMode};
use stockade_core::store::Store;
use stockade_mcp::LinkMaker as _;
use stockade_server::auth::{Keys, new_key};
use stockade_server::http::{HttpOptions, router};
use stockade_server::links::Links;
use tempfile::TempDir;
use tower::ServiceExt as _;

pub(crate) const HOST: &str = "localhost:8080";
/// Most that the server of these tests takes.
pub(crate) const MAX_BODY: usize = 4096;
pub(crate) const MAX_UPLOAD: u64 = 64 << 10;

/// Who sends a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Who {
    Nobody,
    Stranger,
    ReadOnly,
    User,
    Admin,
    /// A second user.
    Other,
}

impl Who {
    pub(crate) const WITH_KEY: [Self; 4] = [Self::ReadOnly, Self::User, Self::Admin, Self::Other];

    fn role(self) -> Role {
        match self {
            Self::ReadOnly => Role::ReadOnly,
            Self::Admin => Role::Admin,
            Self::Nobody | Self::Stranger | Self::User | Self::Other => Role::User,
        }
    }
}

/// A server without its sockets.
pub(crate) struct Front {
    pub(crate) router: Router,
    pub(crate) store: Arc<MemoryStore>,
    pub(crate) links: Arc<Links>,
    pub(crate) engine: Arc<Engine>,
    pub(crate) options: HttpOptions,
    keys: BTreeMap<Who, (String, String)>,
    outside: TempDir,
}

/// What came back.
#[derive(Debug, PartialEq)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Vec<u8>,
}

impl Answer {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {}", self.text()))
    }

    /// A header that is there at most once, as text.
    #[track_caller]
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let mut all = self.headers.get_all(name).iter();
        let value = all.next().map(|value| value.to_str().unwrap());
        assert!(all.next().is_none(), "{name} is there twice");
        value
    }

    pub(crate) fn code(&self) -> String {
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }
}

impl Front {
    pub(crate) async fn new() -> Self {
        Self::with(|_| {}).await
    }

    pub(crate) async fn with(change: impl FnOnce(&mut HttpOptions)) -> Self {
        let outside = TempDir::new().unwrap();
        let data_dir = outside.path().join("data");
        std::fs::create_dir(&data_dir).unwrap();
        let store = MemoryStore::new();
        let engine = Engine::start(settings(data_dir.clone()), FakeBackend::new(), store.clone());
        let engine = engine.await.unwrap();
        let mut options = options();
        change(&mut options);
        let links =
            Links::open(&data_dir, &options.public_base_url, options.link_ttl, store.clone());
        let links = Arc::new(links.unwrap());
        let keys = Arc::new(Keys::new(store.clone()));
        let router = router(engine.clone(), keys, links.clone(), &options);
        let made = Who::WITH_KEY.map(|who| {
            let (record, secret) = new_key(&*store, "test", who.role(), None).unwrap();
            (who, (record.id, secret))
        });
        Self { router, store, links, engine, options, keys: made.into(), outside }
    }

    /// The directory around everything: nothing but the data directory is in it.
    pub(crate) fn outside(&self) -> &Path {
        self.outside.path()
    }

    pub(crate) fn key(&self, who: Who) -> &str {
        &self.keys[&who].1
    }

    pub(crate) fn key_id(&self, who: Who) -> &str {
        &self.keys[&who].0
    }

    /// Puts a file into a workspace, also of those who may not do so themselves.
    pub(crate) async fn put(&self, who: Who, workspace: &str, path: &str, content: &[u8]) {
        let caller = Caller { owner: OwnerId::of_key(self.key_id(who)), role: Role::User };
        let content = content.to_vec();
        let write = FileWrite { content, mode: WriteMode::Overwrite, old: None };
        self.engine.write_file(&caller, &place(workspace), path, write).await.unwrap();
    }

    /// The name of the directory of a workspace.
    pub(crate) fn dir(&self, who: Who, workspace: &str) -> String {
        let name = WorkspaceName::parse(workspace).unwrap();
        self.store.workspace(&OwnerId::of_key(self.key_id(who)), &name).unwrap().unwrap().dir
    }

    /// Where a workspace is on the disk.
    pub(crate) fn on_disk(&self, who: Who, workspace: &str) -> PathBuf {
        self.outside().join("data/workspaces").join(self.dir(who, workspace))
    }

    /// The path of a link to a file, without scheme and host.
    pub(crate) fn link(&self, who: Who, workspace: &str, path: &str) -> String {
        let url = self.links.link(&self.dir(who, workspace), path).unwrap();
        url.strip_prefix(&self.options.public_base_url).unwrap().to_owned()
    }

    /// A request in the making, with a good `Host` and the key of `who`.
    pub(crate) fn ask(&self, who: Who, method: Method, uri: &str) -> Ask<'_> {
        let uri: Uri = uri.parse().unwrap_or_else(|e| panic!("{e}: {uri:?}"));
        let mut request = Request::builder().method(method).uri(uri);
        request = request.header("host", HOST).header("x-request-id", "the-same");
        let stranger = "stk_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
        let secret = match who {
            Who::Nobody => None,
            Who::Stranger => Some(stranger),
            _ => Some(self.key(who)),
        };
        if let Some(secret) = secret {
            request = request.header("authorization", format!("Bearer {secret}"));
        }
        Ask { front: self, request: request.body(Body::empty()).unwrap() }
    }

    pub(crate) async fn get(&self, who: Who, uri: &str) -> Answer {
        self.ask(who, Method::GET, uri).send().await
    }
}

/// One request in the making.
pub(crate) struct Ask<'a> {
    front: &'a Front,
    request: Request<Body>,
}

impl Ask<'_> {
    /// Adds a header beside those of the same name.
    pub(crate) fn header(mut self, name: &'static str, value: impl AsRef<[u8]>) -> Self {
        let value = HeaderValue::from_bytes(value.as_ref()).unwrap();
        self.request.headers_mut().append(name, value);
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.request.headers_mut().remove(name);
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Body>) -> Self {
        *self.request.body_mut() = body.into();
        self
    }

    pub(crate) async fn send(self) -> Answer {
        let response = self.front.router.clone().oneshot(self.request).await.unwrap();
        let (head, body) = response.into_parts();
        let body = to_bytes(body, 1 << 24).await.unwrap().to_vec();
        Answer { status: head.status, headers: head.headers, body }
    }
}

pub(crate) fn place(workspace: &str) -> FilePlace {
    FilePlace { workspace: Some(workspace.to_owned()), ..FilePlace::default() }
}

fn options() -> HttpOptions {
    HttpOptions {
        listen: "127.0.0.1:8080".parse().unwrap(),
        public_base_url: "https://files.example.org".to_owned(),
        allowed_hosts: Vec::new(),
        allowed_origins: vec!["https://app.example".to_owned()],
        max_body_bytes: MAX_BODY,
        max_upload_bytes: MAX_UPLOAD,
        shutdown_grace: Duration::from_secs(1),
        link_ttl: Duration::from_secs(600),
        max_connections: 32,
    }
}

fn settings(data_dir: PathBuf) -> Settings {
    Settings {
        data_dir,
        default_limits: Limits { file_bytes: 1 << 20, ..Limits::DEFAULT },
        ceiling: Limits::CEILING,
        required_layers: Vec::new(),
        networks: Vec::new(),
        host_mounts: BTreeMap::new(),
        image_roots: Vec::new(),
        runtimes: Vec::new(),
        packages: BTreeMap::new(),
        base_env: BTreeMap::new(),
        fixed_env: BTreeMap::new(),
        max_concurrent: 2,
        max_queued: 2,
        answer_within: Duration::from_secs(5),
        sandbox_idle: Duration::from_secs(600),
        sandbox_life: Duration::from_secs(7200),
        max_sandboxes_per_owner: 4,
        workspace_idle: None,
        run_retention: Duration::from_secs(60),
        workspace_bytes: 1 << 20,
    }
}
