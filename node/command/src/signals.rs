//! The signals of a command that runs until it is stopped: SIGTERM and SIGINT stop it, SIGHUP has it read its files again.
//!
//! Nodes and MCP servers share this module, so that SIGHUP means the same to all of them and ends none. A command registers
//! what can be read again with [`Signals::on_hangup`]; its log says what was, and why the rest was not.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::logging::Logging;

/// The signals, from now on: none of them ends the process by itself any more.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    /// Of a command that is to outlive it.
    hangup: Option<(Signal, Logging)>,
    parts: Vec<Part>,
    /// Two hangups in a row are answered one after the other.
    reading: Arc<Mutex<()>>,
}

/// Something that SIGHUP reads again.
#[derive(Clone)]
struct Part {
    what: String,
    read: Arc<Read>,
}

/// Reads something again, and says in a few words what is in use now. It may block. After an error, what was read before must
/// stay in use.
type Read = dyn Fn() -> anyhow::Result<String> + Send + Sync;

impl Signals {
    /// Begins to listen. SIGHUP reads the log's directives again, and whatever is registered later.
    ///
    /// # Errors
    /// If the operating system does not let it.
    pub fn listen(logging: &Logging) -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: Some((signal(SignalKind::hangup())?, logging.clone())),
            parts: Vec::new(),
            reading: Arc::default(),
        })
    }

    /// Begins to listen for SIGTERM and SIGINT alone, for a command that ends with its terminal.
    ///
    /// # Errors
    /// If the operating system does not let it.
    pub fn to_stop() -> std::io::Result<Self> {
        Ok(Self {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            hangup: None,
            parts: Vec::new(),
            reading: Arc::default(),
        })
    }

    /// Has SIGHUP read something again, which `what` names as the operator does: by its flag. `read` runs on a thread that may
    /// block, and returns what is in use now. After an error, what was read before must stay in use.
    pub fn on_hangup(
        &mut self,
        what: impl Into<String>,
        read: impl Fn() -> anyhow::Result<String> + Send + Sync + 'static,
    ) {
        self.parts.push(Part {
            what: what.into(),
            read: Arc::new(read),
        });
    }

    /// Waits for the next signal that asks to stop, and names it. Answers hangups meanwhile.
    pub async fn recv(&mut self) -> &'static str {
        loop {
            let hangup = async {
                match &mut self.hangup {
                    Some((hangup, logging)) => {
                        hangup.recv().await;
                        logging.clone()
                    }
                    None => std::future::pending().await,
                }
            };
            let logging = tokio::select! {
                _ = self.terminate.recv() => return "SIGTERM",
                _ = self.interrupt.recv() => return "SIGINT",
                logging = hangup => logging,
            };
            self.read_again(logging);
        }
    }

    /// Waits for a step of a start, unless a signal asks to stop first: then the step is dropped, and `None` returned. For steps that
    /// wait for others, such as an issuer of tokens or a cluster.
    pub async fn unless_stopped<T>(&mut self, step: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = step => Some(done),
            signal = self.recv() => {
                tracing::info!(signal, "stopping before the start has ended");
                None
            }
        }
    }

    /// Begins to read everything again, on a thread of its own: files may lie on a network.
    fn read_again(&self, logging: Logging) {
        let (mut parts, reading) = (self.parts.clone(), Arc::clone(&self.reading));
        // The last of all: it may hide what the others say.
        parts.push(Part {
            what: "--log".to_owned(),
            read: Arc::new(move || logging.read_again()),
        });
        tokio::task::spawn_blocking(move || {
            let _turn = reading.lock().unwrap_or_else(PoisonError::into_inner);
            tracing::info!("SIGHUP: reading files again");
            for Part { what, read } in &parts {
                match read() {
                    Ok(now) => tracing::info!(%what, %now, "read again"),
                    Err(error) => {
                        let error = format!("{error:#}");
                        tracing::warn!(%what, %error, "not read again: what was read before stays in use");
                    }
                }
            }
        });
    }
}
