//! How the audit log is opened: what may not be, is refused before the node serves anybody.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    thread,
    time::{Duration, Instant},
};

use super::{
    Audit, Desk,
    apart::{Apart, Counted},
    budget::Budget,
    chain::{Head, Seal, hex},
    file::{self, Found, LogFile},
    head_file::{self, HeadFile},
    health::Health,
    key::{AuditKey, KeyError},
    kinds::Kinds,
    names::Names,
    record::{self, Record},
    settings::{Destination, Settings},
    sink::{Files, Place, Sink},
    writer::Writer,
};
use crate::stamp::{self, EntropyError};

/// Why the audit log cannot be opened. Nothing was changed, but that an empty file may have been made.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file cannot be written.
    #[error(
        "--audit-log {}: {error}; name a file that helve may write, in a directory that exists", .path.display()
    )]
    File {
        /// The file.
        path: PathBuf,
        /// What the operating system said.
        error: io::Error,
    },
    /// Others could remove or replace the file.
    #[error(
        "--audit-log {}: any user of this machine may write {}: chmod o-w it, or choose another place", .path.display(), .exposed.display()
    )]
    Exposed {
        /// The file.
        path: PathBuf,
        /// What is open to others: it, or its directory.
        exposed: PathBuf,
    },
    /// Another node writes the file.
    #[error(
        "--audit-log {}: another process writes it; give each node a file of its own", .0.display()
    )]
    InUse(PathBuf),
    /// The key is none.
    #[error("--audit-key-file {}: {error}", .path.display())]
    Key {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        error: KeyError,
    },
    /// The head cannot be kept.
    #[error("--data-dir: the head of the audit log cannot be kept there: {0}")]
    Head(io::Error),
    /// There is no salt.
    #[error(transparent)]
    Entropy(#[from] EntropyError),
    /// There is no thread.
    #[error("the operating system gives no thread for the audit log: {0}")]
    Thread(io::Error),
}

impl Audit {
    /// Opens the audit log of the node with this name, and keeps its head in the data directory.
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(settings: &Settings, data_dir: &Path, node: &str) -> Result<Self, OpenError> {
        let key = settings.key_file.as_deref().map(read_key).transpose()?;
        let salt = stamp::random_bytes()?;
        let head_file = |name| HeadFile::open(data_dir, name).map_err(OpenError::Head);
        let (kept, kept_head) = head_file(head_file::CALLS)?;
        let beginning = Beginning {
            settings: settings.clone(),
            seal: Seal::new(key.as_ref()),
            node,
            salt: hex(&salt),
            kept: kept_head.unwrap_or_default(),
            log: None,
        };
        let sink = beginning.sink()?;
        let apart = match &settings.destination {
            Destination::Tracing => None,
            Destination::File(path) => {
                let (kept, kept_head) = head_file(head_file::DENIED)?;
                let beginning = Beginning {
                    settings: Settings {
                        destination: Destination::File(denied_path(path)),
                        size_bytes: settings.denied_size_bytes,
                        keep: settings.denied_keep,
                        ..beginning.settings
                    },
                    kept: kept_head.unwrap_or_default(),
                    log: Some(record::DENIED),
                    ..beginning
                };
                Some(Apart {
                    sink: beginning.sink()?,
                    kept,
                    is_failing: false,
                })
            }
        };
        let denied = Arc::new(Mutex::new(Kinds::default()));
        let health = Arc::new(Health::new());
        let (queue, received) = mpsc::channel();
        let writer = Writer {
            queue: received,
            budget: budget(settings, &sink)?,
            sink,
            names: Names::new(settings.ids, key.as_ref(), &salt),
            kept,
            health: Arc::clone(&health),
            undurable: Vec::new(),
            apart,
            counted: Counted {
                denied: Arc::clone(&denied),
                over: Kinds::default(),
                tell_at: None,
            },
            look: false,
        };
        let thread = thread::Builder::new().name("helve-audit".into());
        let thread = thread.spawn(|| writer.run()).map_err(OpenError::Thread)?;
        Ok(Self(Some(Arc::new(Desk {
            classes: settings.classes.clone(),
            on_failure: settings.on_failure,
            has_file: matches!(settings.destination, Destination::File(_)),
            queue,
            health,
            denied,
            thread: Mutex::new(Some(thread)),
        }))))
    }
}

/// The file of calls that were turned away, beside that of all others.
pub(super) fn denied_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".denied");
    name.into()
}

/// What the files may take within the time for which they are kept. Nothing is bounded where the node's own log takes the lines.
fn budget(settings: &Settings, sink: &Sink) -> Result<Budget, OpenError> {
    let now = Instant::now();
    let Place::File(files) = &sink.place else {
        return Ok(Budget::new(0, Duration::ZERO, 0, now));
    };
    let young = files.young_bytes();
    let young = young.map_err(|error| refusal(&files.path, error))?;
    let files_max = (settings.keep as u64).saturating_add(1);
    let all = settings.size_bytes.saturating_mul(files_max);
    Ok(Budget::new(all, settings.keep_for, young, now))
}

fn read_key(path: &Path) -> Result<AuditKey, OpenError> {
    AuditKey::read(path).map_err(|error| OpenError::Key {
        path: path.to_owned(),
        error,
    })
}

/// What a log begins with.
struct Beginning<'a> {
    settings: Settings,
    seal: Seal,
    node: &'a str,
    salt: String,
    kept: Head,
    /// What the chain is of; `None`: of calls.
    log: Option<&'static str>,
}

impl Beginning<'_> {
    fn sink(&self) -> Result<Sink, OpenError> {
        let Self { settings, kept, .. } = self;
        let mut sink = Sink {
            seal: self.seal.clone(),
            head: *kept,
            place: Place::Tracing,
            node: self.node.to_owned(),
            ids: settings.ids,
            salt: self.salt.clone(),
            log: self.log,
        };
        match &settings.destination {
            Destination::Tracing => sink.open(None),
            Destination::File(path) => {
                check_exposure(path, file::parent(path))?;
                let found = self.take_up(&mut sink, path);
                let found = found.map_err(|error| refusal(path, error))?;
                check_exposure(path, path)?;
                let begun = self.go_on(&mut sink, found);
                begun.map_err(|error| refusal(path, error))?;
            }
        }
        Ok(sink)
    }

    fn take_up(&self, sink: &mut Sink, path: &Path) -> io::Result<Found> {
        let (current, found) = LogFile::open(path)?;
        file::sync_parent(path)?;
        file::close_put_aside(path)?;
        sink.place = Place::File(Files {
            current,
            path: path.to_owned(),
            size_bytes: self.settings.size_bytes,
            keep: self.settings.keep,
            keep_for: self.settings.keep_for,
        });
        Ok(found)
    }

    /// Goes on where the file ends, or where the node's own head says that it ended, if that is further: then the missing lines show.
    fn go_on(&self, sink: &mut Sink, found: Found) -> io::Result<()> {
        let Found {
            first, last, torn, ..
        } = found;
        if let Some(last) = last.filter(|last| last.seq >= self.kept.seq) {
            sink.head = last;
        }
        match first.and_then(|first| first.seal) {
            None => sink.open(torn),
            // A file is hashed in one way from its first line to its last.
            Some(seal) if seal != self.seal.name() => {
                sink.sync()?;
                sink.begin_file(torn)?;
            }
            Some(_) => {
                let (ids, salt) = (self.settings.ids, &*self.salt);
                sink.append(stamp::wall_ms(), &Record::Resumed { ids, salt, torn });
            }
        }
        sink.sync()
    }
}

fn check_exposure(path: &Path, exposed: &Path) -> Result<(), OpenError> {
    let metadata = fs::metadata(exposed).map_err(|error| refusal(path, error))?;
    if metadata.mode() & file::OTHERS_WRITE == 0 {
        return Ok(());
    }
    Err(OpenError::Exposed {
        path: path.to_owned(),
        exposed: exposed.to_owned(),
    })
}

fn refusal(path: &Path, error: io::Error) -> OpenError {
    let path = path.to_owned();
    if error.kind() == io::ErrorKind::WouldBlock {
        return OpenError::InUse(path);
    }
    OpenError::File { path, error }
}
