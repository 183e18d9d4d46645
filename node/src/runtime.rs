//! The node's two runtimes: one for consensus and peer traffic, one for client service, so that no read, list or slow disk delays
//! a heartbeat.

use std::{io, thread};

use tokio::{runtime, sync::oneshot};

/// A tokio runtime that lives on threads of its own until it is dropped.
#[derive(Debug)]
pub struct OwnRuntime {
    handle: runtime::Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<()>>,
}

impl OwnRuntime {
    /// Starts a runtime: one thread that does everything for `workers` of at most 1, else a pool of that many.
    ///
    /// # Errors
    /// If the operating system gives no thread.
    pub fn start(name: &'static str, workers: usize) -> io::Result<Self> {
        let runtime = if workers <= 1 {
            runtime::Builder::new_current_thread()
                .enable_all()
                .build()?
        } else {
            let mut builder = runtime::Builder::new_multi_thread();
            builder
                .worker_threads(workers)
                .thread_name(name)
                .enable_all()
                .build()?
        };
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel();
        let thread = thread::Builder::new()
            .name(name.to_owned())
            .spawn(move || {
                // An error means that the owner is gone, which is the same request.
                runtime.block_on(async { stopped.await.unwrap_or(()) });
                runtime.shutdown_background();
            })?;
        Ok(Self {
            handle,
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    /// Where tasks of this runtime are spawned.
    #[must_use]
    pub fn handle(&self) -> &runtime::Handle {
        &self.handle
    }
}

impl Drop for OwnRuntime {
    fn drop(&mut self) {
        drop(self.stop.take());
        let own = self
            .thread
            .as_ref()
            .is_some_and(|t| t.thread().id() == thread::current().id());
        if let Some(thread) = self.thread.take().filter(|_| !own)
            && thread.join().is_err()
        {
            tracing::error!("a runtime's thread had panicked");
        }
    }
}
