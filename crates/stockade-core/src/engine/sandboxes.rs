//! Brings sandboxes up and takes them down: the only place that asks a backend
//! to make one or destroys one.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_util::task::TaskTracker;

use super::registry::{Begun, Entry, Live, Registry, State};
use super::workspaces::{Workspace, Workspaces};
use crate::backend::{Backend, Sandbox};
use crate::error::{Error, Result};
use crate::id::SandboxId;
use crate::isolation::Layer;
use crate::request::NetworkRequest;
use crate::spec::{Network, SandboxSpec};

/// How long a backend may take to make a sandbox.
const CREATE_WITHIN: Duration = Duration::from_secs(60);
/// How long a caller waits until nothing of a sandbox is left.
const GONE_WITHIN: Duration = Duration::from_secs(20);

/// How often an owner who has all it may have is looked at again.
const LOOK_AGAIN: Duration = Duration::from_millis(50);

/// Live sandboxes and the means to make and end them.
#[derive(Debug)]
pub(crate) struct Sandboxes {
    pub(crate) registry: Registry,
    backend: Arc<dyn Backend>,
    workspaces: Arc<Workspaces>,
    required: Vec<Layer>,
    /// What is being made or taken down at the moment.
    at_work: TaskTracker,
}

impl Sandboxes {
    pub(crate) fn new(
        registry: Registry,
        backend: Arc<dyn Backend>,
        workspaces: Arc<Workspaces>,
        required: Vec<Layer>,
    ) -> Arc<Self> {
        let at_work = TaskTracker::new();
        Arc::new(Self { registry, backend, workspaces, required, at_work })
    }

    /// The sandbox behind a handle, made now if it is only planned. Dropping
    /// the future does not stop the making.
    pub(crate) async fn live(self: &Arc<Self>, entry: &Arc<Entry>) -> Result<Live> {
        loop {
            match self.registry.begin(entry)? {
                Begun::Now(evicted) => {
                    if let Some(evicted) = evicted {
                        tracing::info!(sandbox = %evicted.id, "removed to make room for its owner");
                        self.begin_end(&evicted);
                    }
                    let (sandboxes, entry) = (self.clone(), entry.clone());
                    self.at_work.spawn(async move { sandboxes.bring_up(&entry).await });
                    break;
                }
                Begun::ByOthers => break,
                Begun::Later => tokio::time::sleep(LOOK_AGAIN).await,
            }
        }
        entry.live().await
    }

    async fn bring_up(self: &Arc<Self>, entry: &Arc<Entry>) {
        match self.make(entry).await {
            Ok(live) => {
                let ready = State::Ready(live.clone());
                let wanted = entry.advance(|state| match state {
                    State::Creating => Some(ready),
                    _ => None,
                });
                if wanted {
                    self.watch_over(entry, &live);
                } else {
                    self.take_down(entry, live).await;
                }
            }
            Err(error) => {
                tracing::warn!(sandbox = %entry.id, %error, source = ?error, "a sandbox could not be made");
                self.registry.forget(entry);
                let why = Arc::new(error);
                entry.advance(|_| Some(State::Gone(Some(why))));
            }
        }
    }

    async fn make(&self, entry: &Entry) -> Result<Live> {
        let network = network_of(entry.network)?;
        let workspace = Arc::new(self.workspace_of(entry).await?);
        let spec = SandboxSpec {
            image: entry.image.clone(),
            workspace: workspace.path.clone(),
            limits: entry.limits,
            network,
            required: self.required.clone(),
        };
        match self.create(entry.id.clone(), spec).await {
            Ok(sandbox) => Ok(Live { sandbox, workspace }),
            Err(error) => {
                leave(workspace).await;
                Err(error)
            }
        }
    }

    /// Asks the backend. A sandbox that comes too late is destroyed when it comes.
    async fn create(&self, id: SandboxId, spec: SandboxSpec) -> Result<Arc<dyn Sandbox>> {
        let backend = self.backend.clone();
        let name = backend.name();
        let mut creating = tokio::spawn(async move { backend.create(&id, &spec).await });
        match timeout(CREATE_WITHIN, &mut creating).await {
            Ok(Ok(created)) => created,
            Ok(Err(panicked)) => Err(Error::backend(name, "making a sandbox", panicked)),
            Err(late) => {
                self.at_work.spawn(async move {
                    if let Ok(Ok(sandbox)) = creating.await
                        && let Err(error) = sandbox.destroy().await
                    {
                        tracing::error!(%error, "a sandbox that came too late could not be removed");
                    }
                });
                Err(Error::backend(name, "making a sandbox in time", late))
            }
        }
    }

    async fn workspace_of(&self, entry: &Entry) -> Result<Workspace> {
        let workspaces = self.workspaces.clone();
        let (owner, name) = (entry.owner.clone(), entry.workspace_name.clone());
        blocking(move || workspaces.take(&owner, name.as_ref())).await
    }

    /// Ends the entry when the sandbox dies by itself.
    fn watch_over(self: &Arc<Self>, entry: &Arc<Entry>, live: &Live) {
        let (sandboxes, entry, sandbox) = (self.clone(), entry.clone(), live.sandbox.clone());
        tokio::spawn(async move {
            tokio::select! {
                () = sandbox.gone() => {
                    tracing::warn!(sandbox = %entry.id, "a sandbox died by itself");
                    sandboxes.begin_end(&entry);
                }
                () = entry.died() => {}
            }
        });
    }

    /// Ends a sandbox and waits until nothing of it is left.
    pub(crate) async fn end(self: &Arc<Self>, entry: &Arc<Entry>) -> Result<()> {
        self.begin_end(entry);
        timeout(GONE_WITHIN, entry.gone()).await.map_err(|e| {
            Error::backend(self.backend.name(), "removing a sandbox; it is still being tried", e)
        })
    }

    /// Ends a sandbox in the background.
    pub(crate) fn begin_end(self: &Arc<Self>, entry: &Arc<Entry>) {
        self.registry.forget(entry);
        let mut taken = None;
        entry.advance(|state| match state {
            State::Planned => Some(State::Gone(None)),
            // Whoever makes it sees this and takes it down.
            State::Creating => Some(State::Ending),
            State::Ready(live) => {
                taken = Some(live.clone());
                Some(State::Ending)
            }
            State::Ending | State::Gone(_) => None,
        });
        if let Some(live) = taken {
            let (sandboxes, entry) = (self.clone(), entry.clone());
            self.at_work.spawn(async move { sandboxes.take_down(&entry, live).await });
        }
    }

    async fn take_down(&self, entry: &Entry, live: Live) {
        if let Err(error) = live.sandbox.destroy().await {
            tracing::error!(sandbox = %entry.id, %error, source = ?error, "a sandbox could not be removed");
        }
        leave(live.workspace).await;
        entry.advance(|_| Some(State::Gone(None)));
    }

    /// Removes what an earlier process of this server left running.
    pub(crate) async fn remove_old(&self) -> Result<()> {
        for (id, sandbox) in self.backend.recover().await? {
            tracing::info!(sandbox = %id, "removing a sandbox of an earlier process");
            sandbox.destroy().await?;
        }
        Ok(())
    }

    /// Ends everything and waits until nothing is left, at most for a while.
    pub(crate) async fn shutdown(self: &Arc<Self>) {
        for entry in self.registry.all() {
            self.begin_end(&entry);
        }
        self.at_work.close();
        if timeout(GONE_WITHIN, self.at_work.wait()).await.is_err() {
            tracing::error!("some sandboxes could not be removed in time");
        }
        self.backend.shutdown().await;
    }
}

async fn leave(workspace: Arc<Workspace>) {
    if let Err(error) = blocking(move || workspace.leave()).await {
        tracing::warn!(%error, "a private workspace could not be removed; the next start tries again");
    }
}

/// The network a backend is told to give.
pub(crate) fn network_of(asked: NetworkRequest) -> Result<Network> {
    match asked {
        NetworkRequest::None => Ok(Network::None),
        NetworkRequest::Open => Ok(Network::Open),
        NetworkRequest::Packages | NetworkRequest::Allowlist => Err(Error::Unsupported {
            feature: "a network with an allow list",
            hint: "use `none`, or `open` where the operator allows it".to_owned(),
        }),
    }
}

/// Does blocking work off the async threads.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|e| Error::backend("server", "doing blocking work", e))?
}

/// What a backend gave for a sandbox that is in use.
pub(crate) type AnySandbox = Arc<dyn Sandbox>;
