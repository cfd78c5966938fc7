//! The sockets: HTTP/1.1, bounded in number, patience and farewell.
//!
//! TLS and HTTP/2 are a reverse proxy's. A connection has ten seconds for the
//! head of each request, so an idle one is closed after that too.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use axum::Router;
use axum::body::Body;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt as _;

use super::HttpOptions;

/// Time for the head of a request.
const HEAD_WITHIN: Duration = Duration::from_secs(10);
/// Time for answers to get out after the grace of what makes them.
const FAREWELL: Duration = Duration::from_secs(2);
/// Pause when no connection can be taken, for want of descriptors mostly.
const ACCEPT_PAUSE: Duration = Duration::from_millis(500);

/// Among the extensions of a request: fires when the server is told to stop.
#[derive(Debug, Clone)]
pub(super) struct Stop(pub(super) CancellationToken);

/// Serves until `stop` fires. Then takes no more connections, lets requests end
/// within the grace and two seconds, and cuts what is left. Dropping it cuts everything.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    options: &HttpOptions,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let places = Arc::new(Semaphore::new(options.max_connections));
    let connections = TaskTracker::new();
    let cut = CancellationToken::new();
    let cut_on_drop = cut.clone().drop_guard();
    loop {
        // The place comes first: without one, connections wait in the kernel.
        let next = async {
            let place = places.clone().acquire_owned().await.context("counting connections")?;
            anyhow::Ok((place, accept(&listener).await))
        };
        let (place, stream) = tokio::select! {
            () = stop.cancelled() => break,
            next = next => next?,
        };
        let connection =
            Connection { router: router.clone(), stop: stop.clone(), cut: cut.clone() };
        connections.spawn(connection.serve(stream, place));
    }
    drop(listener);
    connections.close();
    let within = options.shutdown_grace + FAREWELL;
    if tokio::time::timeout(within, connections.wait()).await.is_err() {
        tracing::warn!(left = connections.len(), "connections did not end in time and are cut");
    }
    drop(cut_on_drop);
    connections.wait().await;
    Ok(())
}

/// The next connection. What fails here passes: a client that has gone, or too many open files.
async fn accept(listener: &TcpListener) -> TcpStream {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return stream,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
            }
        }
    }
}

struct Connection {
    router: Router,
    stop: CancellationToken,
    cut: CancellationToken,
}

impl Connection {
    async fn serve(self, stream: TcpStream, _place: OwnedSemaphorePermit) {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "a connection keeps its delay");
        }
        let Self { router, stop, cut } = self;
        let told = Stop(stop.clone());
        let service = service_fn(move |mut request: hyper::Request<Incoming>| {
            request.extensions_mut().insert(told.clone());
            router.clone().oneshot(request.map(Body::new))
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_WITHIN)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = pin!(connection);
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            () = stop.cancelled() => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = cut.cancelled() => return,
                }
            }
            () = cut.cancelled() => return,
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke off");
        }
    }
}
