//! The thread that applies.

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
};

use helve_proto::command::v1::Outcome;
use tokio::sync::oneshot;

use super::{
    apply_queue::{ApplyQueue, Work},
    chunk::Chunk,
    progress::Report,
    rows::Rows,
};

/// The way to the thread. Dropping it waits for the thread: one that outlived the node would close the database while the process ends,
/// and crash it.
pub(crate) struct Applier {
    pub(crate) queue: Arc<ApplyQueue>,
    thread: Option<JoinHandle<()>>,
}

/// Says that the thread has ended, also if it panicked.
struct Ending(Arc<ApplyQueue>);

impl Applier {
    pub(crate) fn start(rows: Arc<Rows>, report: Arc<Report>) -> io::Result<Self> {
        let queue = Arc::new(ApplyQueue::new());
        let ending = Ending(Arc::clone(&queue));
        let thread = thread::Builder::new().name("helve-apply".to_owned());
        let thread = thread.spawn(move || {
            if let Err(error) = run(&ending.0, &rows, &report) {
                ending.0.end(error.to_string());
            }
        })?;
        Ok(Self {
            queue,
            thread: Some(thread),
        })
    }

    /// Has entries applied. Their rows are written by the time somebody who wants them has waited for them.
    ///
    /// # Errors
    /// If nothing is applied any more: rows could not be written, or an entry was none that this version may apply.
    pub(crate) async fn apply(&self, chunk: Chunk) -> io::Result<Vec<Outcome>> {
        let (done, outcomes) = oneshot::channel();
        self.queue.push(Work { chunk, done })?;
        let gone = |_| io::Error::other("the apply thread stopped");
        outcomes.await.map_err(gone)?
    }

    /// Has all rows written that were not yet.
    ///
    /// # Errors
    /// If they cannot be.
    pub(crate) async fn settle(&self) -> io::Result<()> {
        self.apply(Chunk::default()).await.map(drop)
    }
}

fn run(queue: &ApplyQueue, rows: &Rows, report: &Report) -> io::Result<()> {
    while let Some(work) = queue.next() {
        rows.apply(work, report, queue.linger(report.last().index))?;
    }
    Ok(())
}

impl Drop for Ending {
    fn drop(&mut self) {
        self.0.end("the apply thread stopped".to_owned());
    }
}

impl Drop for Applier {
    fn drop(&mut self) {
        self.queue.close();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!("the apply thread panicked");
        }
    }
}
