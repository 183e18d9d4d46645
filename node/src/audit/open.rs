//! How the audit log is opened: what may not be, is refused before the node serves anybody.

use std::{
    fs, io,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, mpsc},
    thread,
};

use super::{
    Audit, Desk,
    chain::{Head, Seal, hex},
    file::{self, Found, LogFile},
    head_file::HeadFile,
    health::Health,
    key::{AuditKey, KeyError},
    names::Names,
    record::Record,
    settings::{Destination, Settings},
    sink::{Files, Place, Sink},
    writer::Writer,
};
use crate::stamp::{self, EntropyError};

/// Others may write.
const WORLD_WRITABLE: u32 = 0o002;

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
        let (kept, kept_head) = HeadFile::open(data_dir).map_err(OpenError::Head)?;
        let beginning = Beginning {
            settings,
            seal: Seal::new(key.as_ref()),
            node,
            salt: hex(&salt),
            kept: kept_head.unwrap_or_default(),
        };
        let health = Arc::new(Health::new());
        let (queue, received) = mpsc::channel();
        let writer = Writer {
            queue: received,
            sink: beginning.sink()?,
            names: Names::new(settings.ids, key.as_ref(), &salt),
            kept,
            health: Arc::clone(&health),
            undurable: Vec::new(),
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
            thread: Mutex::new(Some(thread)),
        }))))
    }
}

fn read_key(path: &Path) -> Result<AuditKey, OpenError> {
    AuditKey::read(path).map_err(|error| OpenError::Key {
        path: path.to_owned(),
        error,
    })
}

/// What a log begins with.
struct Beginning<'a> {
    settings: &'a Settings,
    seal: Seal,
    node: &'a str,
    salt: String,
    kept: Head,
}

impl Beginning<'_> {
    fn sink(self) -> Result<Sink, OpenError> {
        let Self { settings, kept, .. } = &self;
        let mut sink = Sink {
            seal: self.seal.clone(),
            head: *kept,
            place: Place::Tracing,
            node: self.node.to_owned(),
            ids: settings.ids,
            salt: self.salt.clone(),
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
        sink.place = Place::File(Files {
            current,
            path: path.to_owned(),
            size_bytes: self.settings.size_bytes,
            keep: self.settings.keep,
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
    if metadata.mode() & WORLD_WRITABLE == 0 {
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
