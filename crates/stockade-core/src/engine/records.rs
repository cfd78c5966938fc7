//! Writes the records of runs, in order, without making a run wait for the disk.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::store::{RunRecord, Store};

/// Records on their way to the store.
#[derive(Debug)]
pub(crate) struct Records {
    waiting: Mutex<Option<mpsc::UnboundedSender<RunRecord>>>,
    writer: Mutex<Option<JoinHandle<()>>>,
}

impl Records {
    /// Starts the writer. It ends with `flush`, or when this is dropped.
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        let (waiting, mut records) = mpsc::unbounded_channel::<RunRecord>();
        let writer = tokio::spawn(async move {
            while let Some(record) = records.recv().await {
                let store = store.clone();
                let written = tokio::task::spawn_blocking(move || store.put_run(&record)).await;
                if let Ok(Err(error)) = written {
                    tracing::error!(%error, source = ?error, "the record of a run could not be kept");
                }
            }
        });
        Self { waiting: Mutex::new(Some(waiting)), writer: Mutex::new(Some(writer)) }
    }

    /// Takes a record. Those of one run are written in the order they are taken.
    pub(crate) fn put(&self, record: RunRecord) {
        let waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(waiting) = &*waiting {
            // The writer ends after the sender only.
            let _ = waiting.send(record);
        }
    }

    /// Waits until everything is written. Nothing is taken afterwards.
    pub(crate) async fn flush(&self) {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner).take();
        let writer = self.writer.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(writer) = writer {
            // A writer that panicked has been reported by the runtime.
            let _ = writer.await;
        }
    }
}
