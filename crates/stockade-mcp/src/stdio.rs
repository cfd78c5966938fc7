//! MCP over standard input and output. Nothing else is ever written there.

mod opening;

use std::sync::Arc;

use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use rmcp::transport::io::stdio_pipes;
use stockade_core::engine::Engine;
use tokio::io::{AsyncRead, AsyncWrite};

pub(crate) use self::opening::complete_initialize;
use crate::McpOptions;
use crate::server::{Access, Server};

/// Serves the machine's own user over standard input and output, until the input ends or
/// `options.shutdown` fires. What it started is the engine's: shut that down afterwards.
pub async fn serve_stdio(engine: Arc<Engine>, options: McpOptions) -> anyhow::Result<()> {
    let (reader, writer) = stdio_pipes();
    serve(engine, options, reader, writer).await
}

/// Like [`serve_stdio`], over any pair of streams.
pub async fn serve<R, W>(
    engine: Arc<Engine>,
    options: McpOptions,
    reader: R,
    writer: W,
) -> anyhow::Result<()>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let shutdown = options.shutdown.clone();
    let most = options.max_message_bytes;
    let server = Server::new(engine, options, Access::Local);
    let opened = tokio::select! {
        opened = opening::first_request(reader, most) => opened?,
        () = shutdown.cancelled() => return Ok(()),
    };
    let Some(reader) = opened else { return Ok(()) };
    match server.serve_with_ct((reader, writer), shutdown).await {
        Ok(running) => {
            running.waiting().await?;
            Ok(())
        }
        // The client went away between two lines; that is how a client says good-bye.
        Err(ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled) => {
            Ok(())
        }
        Err(error) => Err(error.into()),
    }
}
