//! Requests to the agent, in order, written by one task.

use stockade_agent::wire::{self, Request};
use tokio::io::AsyncWriteExt;
use tokio::net::unix::OwnedWriteHalf;
use tokio::sync::mpsc;

/// Writes requests until the link is dropped or the agent is gone.
pub(crate) async fn write(mut socket: OwnedWriteHalf, mut requests: mpsc::Receiver<Request>) {
    let mut frame = Vec::new();
    while let Some(request) = requests.recv().await {
        frame.clear();
        wire::encode(&request, &mut frame);
        if socket.write_all(&frame).await.is_err() {
            break;
        }
        if frame.capacity() > 1 << 20 {
            frame = Vec::new();
        }
    }
    // The agent ends, and the sandbox with it, when its stream does.
    let _ = socket.shutdown().await;
}
