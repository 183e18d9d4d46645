//! The signals of a command that runs until it is stopped: SIGTERM and SIGINT stop it, SIGHUP has it read its files again, or stops
//! it as well.
//!
//! Nodes and MCP servers share this module, so that SIGHUP means the same to all of them and ends none. A command registers
//! what can be read again with [`Signals::on_hangup`]; its log says what was, and why the rest was not.

use std::{
    fmt, fs,
    sync::{Arc, Mutex, PoisonError},
};

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::logging::Logging;

/// A signal that asks to stop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopSignal {
    /// The terminal is gone.
    Hangup,
    /// Somebody at the terminal asks.
    Interrupt,
    /// A program asks.
    Terminate,
}

impl StopSignal {
    /// Its name (POSIX.1-2017, `signal.h`).
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Hangup => "SIGHUP",
            Self::Interrupt => "SIGINT",
            Self::Terminate => "SIGTERM",
        }
    }

    /// Its number, the same on all systems (POSIX.1-2017, `kill`).
    #[must_use]
    pub const fn number(self) -> u8 {
        match self {
            Self::Hangup => 1,
            Self::Interrupt => 2,
            Self::Terminate => 15,
        }
    }
}

impl fmt::Display for StopSignal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The signals, from now on: none of them ends the process by itself any more.
pub struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Hangup,
    parts: Vec<Part>,
    /// Two hangups in a row are answered one after the other.
    reading: Arc<Mutex<()>>,
}

/// What SIGHUP does.
enum Hangup {
    /// It ends the process, or nothing where the process was started so.
    Unheard,
    ReadsAgain(Signal, Logging),
    Stops(Signal),
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
            hangup: Hangup::ReadsAgain(signal(SignalKind::hangup())?, logging.clone()),
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
            hangup: Hangup::Unheard,
            parts: Vec::new(),
            reading: Arc::default(),
        })
    }

    /// Has SIGHUP ask to stop, too, for a command that would leave something behind if it were killed. Not so where it is ignored:
    /// `nohup` has a command outlive its terminal.
    ///
    /// # Errors
    /// If the operating system does not let it.
    pub fn and_hangup(mut self) -> std::io::Result<Self> {
        if !is_hangup_ignored() {
            self.hangup = Hangup::Stops(signal(SignalKind::hangup())?);
        }
        Ok(self)
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

    /// Waits for the next signal that asks to stop. Answers hangups meanwhile that do not.
    pub async fn recv(&mut self) -> StopSignal {
        loop {
            let hangup = async {
                match &mut self.hangup {
                    Hangup::ReadsAgain(hangup, logging) => {
                        hangup.recv().await;
                        Some(logging.clone())
                    }
                    Hangup::Stops(hangup) => {
                        hangup.recv().await;
                        None
                    }
                    Hangup::Unheard => std::future::pending().await,
                }
            };
            let read_again = tokio::select! {
                _ = self.terminate.recv() => return StopSignal::Terminate,
                _ = self.interrupt.recv() => return StopSignal::Interrupt,
                logging = hangup => logging,
            };
            match read_again {
                Some(logging) => self.read_again(logging),
                None => return StopSignal::Hangup,
            }
        }
    }

    /// Waits for a step of a start, unless a signal asks to stop first: then the step is dropped, and `None` returned. For steps that
    /// wait for others, such as an issuer of tokens or a cluster.
    pub async fn unless_stopped<T>(&mut self, step: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            done = step => Some(done),
            signal = self.recv() => {
                tracing::info!(%signal, "stopping before the start has ended");
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

/// Whether SIGHUP is ignored, as far as the system says it.
fn is_hangup_ignored() -> bool {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    ignores_hangup(&status)
}

/// Whether the mask of ignored signals in this status of a process has the first bit (`proc_pid_status(5)`).
fn ignores_hangup(status: &str) -> bool {
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask & 1 == 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hangup_is_ignored_where_the_system_says_so() {
        let status = |mask| format!("Name:\thelve\nSigBlk:\t0000000000000001\nSigIgn:\t{mask}\n");
        assert!(ignores_hangup(&status("0000000000000001")));
        assert!(ignores_hangup(&status("0000000000001001")));
        assert!(!ignores_hangup(&status("0000000000001000")));
        assert!(!ignores_hangup(&status("none")));
        assert!(!ignores_hangup("Name:\thelve\n"));
    }
}
