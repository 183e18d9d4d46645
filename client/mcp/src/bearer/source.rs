//! Where one issuer's keys come from, and how they are kept up to date while the server runs.

mod on_time;
mod pace;
mod read_now;
#[cfg(test)]
mod tests;
mod together;

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use sha2::{Digest as _, Sha256};
use tokio::{
    runtime::Handle,
    sync::{Notify, watch},
    time::{Instant, sleep_until, timeout},
};

pub use self::pace::KEYS_KEPT_MAX;
use self::pace::{LOOK_EVERY, Pace};
pub use self::read_now::KeysRead;
use self::together::Together;
use super::{
    jwks_url::{FetchError, Fetched, JwksUrl},
    key::Key,
    key_file::{self, KeyFileError, Said},
};

/// How long a request with an unknown key waits for a fetch.
const AWAIT_MAX: Duration = Duration::from_secs(5);
/// Entries of a set that are reported in one log line.
const REPORTED_MAX: usize = 16;

/// A place that keys come from.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum KeySource {
    /// A file with a JWK set or with public keys in PEM.
    File(PathBuf),
    /// A file that is said to hold a shared secret for HS256, in a form that
    /// [`Verifier::of_secret`](super::Verifier::of_secret) takes.
    SecretFile(PathBuf),
    /// A URL that serves a JWK set.
    Url(JwksUrl),
}

/// Why there are no keys. Each means that the server must not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeysError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] KeyFileError),
    /// A set cannot be fetched.
    #[error(transparent)]
    Fetch(#[from] FetchError),
}

/// A source, with the keys that were read from it last.
#[derive(Debug)]
pub(super) struct Source {
    from: From,
    pace: Pace,
    known: ArcSwap<Known>,
    /// How long after the start the source is read again.
    first_look: Duration,
    /// Whether a task keeps the keys up to date. Until then they cannot be too old.
    is_watched: AtomicBool,
    /// Whether the look that is due has kept a request waiting for nothing. Others do not wait.
    is_stuck: AtomicBool,
    /// Wakes the task.
    wanted: Arc<Notify>,
    fetching: Mutex<Fetching>,
    /// When the last look ended.
    looked: watch::Sender<Instant>,
    /// What was last said to be wrong, so that it is said once.
    trouble: Mutex<String>,
    /// The other sources of its issuer.
    together: Together,
}

#[derive(Debug)]
enum From {
    File {
        path: PathBuf,
        said: Said,
        is_regular: bool,
    },
    Url(JwksUrl),
}

/// Keys, and SHA-256 of what they were read from.
type Read = (Vec<Key>, [u8; 32]);

#[derive(Debug)]
struct Fetching {
    /// When the last fetch began.
    began: Instant,
    /// Whether it is under way, or is about to be.
    is_running: bool,
}

#[derive(Debug)]
struct Known {
    keys: Arc<[Key]>,
    digest: [u8; 32],
    /// When the source last said that these are the keys.
    confirmed: Instant,
}

impl Known {
    fn new(keys: Vec<Key>, digest: [u8; 32]) -> Self {
        Self {
            keys: keys.into(),
            digest,
            confirmed: Instant::now(),
        }
    }
}

impl Source {
    /// Reads a file.
    pub(super) fn of_file(path: &Path, said: Said) -> Result<Arc<Self>, KeyFileError> {
        let content = key_file::read(path)?;
        let keys = key_file::parse(&content, said, path)?.some(path)?;
        report(&path.display().to_string(), &keys.skipped);
        let from = From::File {
            path: path.to_owned(),
            said,
            is_regular: content.is_regular,
        };
        let digest = Sha256::digest(&content.bytes).into();
        let known = Known::new(keys.keys, digest);
        Ok(Self::new(from, known, Pace::USUAL, LOOK_EVERY))
    }

    /// Reads a file, or fetches a set.
    pub(super) async fn open(from: KeySource) -> Result<Arc<Self>, KeysError> {
        Self::open_at(from, Pace::USUAL).await
    }

    async fn open_at(from: KeySource, pace: Pace) -> Result<Arc<Self>, KeysError> {
        let url = match from {
            KeySource::File(path) => return Ok(Self::of_file(&path, Said::Keys)?),
            KeySource::SecretFile(path) => return Ok(Self::of_file(&path, Said::Secret)?),
            KeySource::Url(url) => url,
        };
        let fetched = url.fetch().await?;
        if fetched.found.keys.is_empty() {
            return Err(url.no_key(fetched.found.skipped).into());
        }
        report(&url.to_string(), &fetched.found.skipped);
        let known = Known::new(fetched.found.keys, fetched.digest);
        let (least, most) = pace.fresh;
        let fresh = fetched.fresh.clamp(least, most);
        Ok(Self::new(From::Url(url), known, pace, fresh))
    }

    fn new(from: From, known: Known, pace: Pace, first_look: Duration) -> Arc<Self> {
        Arc::new(Self {
            from,
            pace,
            known: ArcSwap::from_pointee(known),
            first_look,
            is_watched: AtomicBool::new(false),
            is_stuck: AtomicBool::new(false),
            wanted: Arc::default(),
            fetching: Mutex::new(Fetching {
                began: Instant::now(),
                is_running: false,
            }),
            looked: watch::Sender::new(Instant::now()),
            trouble: Mutex::new(String::new()),
            together: Together::default(),
        })
    }

    /// The keys; `None` if it has not been possible to read them again for [`KEYS_KEPT_MAX`], or
    /// if they are to be read again first.
    pub(super) fn keys(&self) -> Option<Arc<[Key]>> {
        let is_bad = self.are_old() || self.is_overdue();
        (!is_bad).then(|| Arc::clone(&self.known.load().keys))
    }

    fn are_old(&self) -> bool {
        let confirmed = self.known.load().confirmed;
        self.is_watched.load(Ordering::Relaxed) && confirmed.elapsed() > self.pace.kept_max
    }

    /// Keeps the keys up to date from now on, if there is a runtime to do it on. A pipe, which
    /// can be read once, is left alone.
    pub(super) fn watch(self: &Arc<Self>) {
        if self.is_watched.load(Ordering::Relaxed) || self.is_once() {
            return;
        }
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        // The keys are as old as they are: they may have been read long before there was a runtime.
        if !self.is_watched.swap(true, Ordering::Relaxed) {
            let first = *self.looked.borrow() + self.first_look;
            let wanted = Arc::clone(&self.wanted);
            runtime.spawn(follow(Arc::downgrade(self), wanted, first));
        }
    }

    fn is_once(&self) -> bool {
        let is_pipe = |from: &From| matches!(from, From::File { is_regular, .. } if !is_regular);
        is_pipe(&self.from)
    }

    /// Fetches the set soon and waits for it, if it is time to: for a token that names a key which
    /// may have been added. Returns whether the keys may have changed.
    pub(super) async fn refreshed(&self) -> bool {
        if !matches!(self.from, From::Url(_)) || !self.is_watched.load(Ordering::Relaxed) {
            return false;
        }
        let mut looked = self.looked.subscribe();
        if !self.wants_fetch() {
            return false;
        }
        matches!(timeout(AWAIT_MAX, looked.changed()).await, Ok(Ok(())))
    }

    /// Whether a fetch is under way, or was asked for with this.
    fn wants_fetch(&self) -> bool {
        let mut fetching = self.lock(&self.fetching);
        if !fetching.is_running && fetching.began.elapsed() >= self.pace.fetch_pause {
            fetching.is_running = true;
            self.wanted.notify_one();
        }
        fetching.is_running
    }

    fn lock<'a, T>(&self, mutex: &'a Mutex<T>) -> std::sync::MutexGuard<'a, T> {
        // Nothing panics while it holds a lock half-way, so a poisoned one is still right.
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads again; returns how long to wait until the next time.
    async fn look(self: &Arc<Self>) -> Duration {
        let pause = self.read().await;
        self.is_stuck.store(false, Ordering::Relaxed);
        self.looked.send_replace(Instant::now());
        pause
    }

    async fn read(self: &Arc<Self>) -> Duration {
        match &self.from {
            From::File { .. } => {
                let source = Arc::clone(self);
                // Files are read off the runtime: they may lie on a network.
                let read = tokio::task::spawn_blocking(move || source.read_again()).await;
                self.settle(match read {
                    Ok(read) => read.map_err(|error| error.to_string()),
                    Err(error) => Err(error.to_string()),
                });
                self.pace.look_every
            }
            From::Url(url) => {
                *self.lock(&self.fetching) = Fetching {
                    began: Instant::now(),
                    is_running: true,
                };
                let fresh = self.fetch_again(url).await;
                self.lock(&self.fetching).is_running = false;
                fresh
            }
        }
    }

    async fn fetch_again(&self, url: &JwksUrl) -> Duration {
        match url.fetch().await {
            Ok(Fetched {
                found,
                fresh,
                digest,
            }) => {
                if digest != self.known.load().digest {
                    report(&url.to_string(), &found.skipped);
                }
                self.settle(Ok(Some((found.keys, digest))));
                let (least, most) = self.pace.fresh;
                fresh.clamp(least, most)
            }
            Err(error) => {
                self.settle(Err(error.to_string()));
                self.pace.fetch_pause
            }
        }
    }

    /// Reads a file again; `None` if it has not changed.
    fn read_again(&self) -> Result<Option<Read>, KeyFileError> {
        let From::File { path, said, .. } = &self.from else {
            return Ok(None);
        };
        let content = key_file::read(path)?;
        let digest = Sha256::digest(&content.bytes).into();
        if digest == self.known.load().digest {
            return Ok(None);
        }
        let keys = key_file::parse(&content, *said, path)?;
        // A whole set without a usable key is what the issuer says: it has withdrawn all keys.
        report(&path.display().to_string(), &keys.skipped);
        Ok(Some((keys.keys, digest)))
    }

    /// Takes in what was read.
    fn settle(&self, read: Result<Option<Read>, String>) {
        let trouble = match read {
            Ok(None) => {
                self.confirm();
                String::new()
            }
            Ok(Some((keys, digest))) => {
                if digest != self.known.load().digest {
                    let ids: Vec<_> = keys.iter().map(|key| key.id.as_deref()).collect();
                    tracing::info!(from = %self.name(), ?ids, "the keys of tokens have changed");
                }
                self.known.store(Arc::new(Known::new(keys, digest)));
                self.check_together();
                String::new()
            }
            Err(trouble) if self.are_old() => format!(
                "{trouble}; for {} s the keys could not be read again, and tokens under them are refused",
                self.pace.kept_max.as_secs()
            ),
            Err(trouble) => format!(
                "{trouble}; the keys that were read before are used for up to {} s",
                self.pace.kept_max.as_secs()
            ),
        };
        let mut said = self.lock(&self.trouble);
        if *said != trouble && !trouble.is_empty() {
            tracing::error!(%trouble, "the keys of tokens cannot be read again");
        }
        *said = trouble;
    }

    /// Notes that the keys are still those.
    fn confirm(&self) {
        let known = self.known.load();
        self.known.store(Arc::new(Known {
            keys: Arc::clone(&known.keys),
            digest: known.digest,
            confirmed: Instant::now(),
        }));
    }

    fn name(&self) -> String {
        match &self.from {
            From::File { path, .. } => path.display().to_string(),
            From::Url(url) => url.to_string(),
        }
    }
}

/// Reads a source again and again, as long as a verifier uses it.
async fn follow(source: Weak<Source>, wanted: Arc<Notify>, mut next: Instant) {
    loop {
        let is_wanted = tokio::select! {
            () = sleep_until(next) => false,
            () = wanted.notified() => true,
        };
        let Some(source) = source.upgrade() else {
            return;
        };
        // What was wanted while another fetch was under way has been fetched by it.
        if !is_wanted || source.lock(&source.fetching).is_running {
            let pause = source.look().await;
            next = Instant::now() + pause;
        }
    }
}

/// Logs the entries of a set that cannot be used.
fn report(from: &str, skipped: &[String]) {
    for why in skipped.iter().take(REPORTED_MAX) {
        tracing::warn!(%from, %why, "a key of the set is not used");
    }
    let more = skipped.len().saturating_sub(REPORTED_MAX);
    if more > 0 {
        tracing::warn!(%from, more, "other keys of the set are not used");
    }
}
