//! The directory. Every call here is made under the lock, where the runtime may block.

use std::{
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Mutex,
    time::Duration,
};

use helve_client::{Error, ErrorKind, Listing, StoreOutcome};
use serde_json::Value;
use tokio::time::Instant;

use super::failures::{after, before};
use crate::{
    private_files,
    tools::{
        names,
        options::Lifespan,
        row::{self, Row, now_ms},
    },
};

/// The tool's own directory: no key's path begins with a dot.
const OWN: &str = ".helve";
const ENDING: &str = ".json";
const SWEEP_INTERVAL: Duration = Duration::from_secs(3600);

#[derive(Debug)]
pub(super) struct Disk {
    root: PathBuf,
    swept: Mutex<Option<Instant>>,
}

impl Disk {
    pub(super) fn open(root: PathBuf) -> Result<Self, Error> {
        let own = root.join(OWN);
        private_files::create_directories(&own).map_err(|error| before(&own, error))?;
        sync_directory(&root).map_err(|error| before(&root, error))?;
        Ok(Self {
            root,
            swept: Mutex::new(None),
        })
    }

    pub(super) fn own(&self, name: &str) -> PathBuf {
        self.root.join(OWN).join(name)
    }

    pub(super) fn lock_path(&self) -> PathBuf {
        self.own("lock")
    }

    pub(super) fn live(&self, key: &str) -> Result<Option<Row>, Error> {
        let row = read(&self.path(key))?;
        Ok(row.filter(|row| row.is_live(now_ms())))
    }

    pub(super) fn store(
        &self,
        key: String,
        value: Value,
        lifespan: Lifespan,
        if_revision: Option<u64>,
    ) -> Result<StoreOutcome, Error> {
        self.sweep_if_due();
        let found = self.live(&key)?;
        let current = found.as_ref().map_or(0, |row| row.revision);
        if if_revision.is_some_and(|wanted| wanted != current) {
            return Ok(StoreOutcome::Conflict { revision: current });
        }
        let row = renewed(found.as_ref(), key, value, lifespan, self.next_revision()?);
        self.write(&row)?;
        Ok(match found {
            Some(_) => StoreOutcome::Replaced(row.info()),
            None => StoreOutcome::Created(row.info()),
        })
    }

    pub(super) fn delete(&self, key: &str) -> Result<(), Error> {
        let path = self.path(key);
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if is_absent(&error) => return Ok(()),
            Err(error) => return Err(before(&path, error)),
        }
        let mut directory = parent(&path);
        sync_directory(directory).map_err(|error| after(directory, error))?;
        // A directory that holds other keys is not empty, and stays.
        while directory != self.root && fs::remove_dir(directory).is_ok() {
            directory = parent(directory);
        }
        Ok(())
    }

    /// What is made of all rows with the prefix, in the order of their keys.
    pub(super) fn list<I>(
        &self,
        prefix: &str,
        mut item: impl FnMut(Row) -> Result<I, Error>,
    ) -> Result<Listing<I>, Error> {
        let now_ms = now_ms();
        let mut items = Vec::new();
        self.visit(prefix, &mut |row| {
            let row = row?;
            if row.key.starts_with(prefix) && row.is_live(now_ms) {
                items.push((row.key.clone(), item(row)?));
            }
            Ok(())
        })?;
        items.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        Ok(Listing {
            revision: self.revision()?,
            clock_ms: now_ms,
            items: items.into_iter().map(|(_, item)| item).collect(),
        })
    }

    pub(super) fn sweep(&self) -> Result<usize, Error> {
        *self
            .swept
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner) = Some(Instant::now());
        let now_ms = now_ms();
        let mut due = Vec::new();
        self.visit("", &mut |row| {
            match row {
                Ok(row) if !row.is_live(now_ms) => due.push(row.key),
                Ok(_) => {}
                Err(error) => tracing::warn!(%error, "a file is left as it is"),
            }
            Ok(())
        })?;
        due.iter().try_for_each(|key| self.delete(key))?;
        Ok(due.len())
    }

    /// What blocks a sweep does not block a write.
    pub(super) fn sweep_if_due(&self) {
        let swept = *self
            .swept
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        if swept.is_none_or(|swept| swept.elapsed() >= SWEEP_INTERVAL)
            && let Err(error) = self.sweep()
        {
            tracing::warn!(%error, "expired files were not all removed");
        }
    }

    /// Higher than every one before, and on disk before anything bears it.
    pub(super) fn next_revision(&self) -> Result<u64, Error> {
        let next = self.revision()? + 1;
        let path = self.own("revision");
        self.replace(&path, next.to_string().as_bytes())?;
        Ok(next)
    }

    /// Puts a row in the place of the one before: wholly, or not at all.
    pub(super) fn write(&self, row: &Row) -> Result<(), Error> {
        let json = serde_json::to_vec(row).map_err(|error| {
            Error::new(ErrorKind::Codec, "the value has no JSON form").with_source(error)
        })?;
        let path = self.path(&row.key);
        self.make_directories(parent(&path))
            .map_err(|error| before(&path, error))?;
        self.replace(&path, &json)
    }

    pub(super) fn replace(&self, path: &Path, bytes: &[u8]) -> Result<(), Error> {
        let draft = self.own("draft");
        let mut file = private_files::create(&draft).map_err(|error| before(&draft, error))?;
        file.write_all(bytes)
            .map_err(|error| before(&draft, error))?;
        file.sync_all().map_err(|error| before(&draft, error))?;
        fs::rename(&draft, path).map_err(|error| before(path, error))?;
        let directory = parent(path);
        sync_directory(directory).map_err(|error| after(directory, error))
    }

    fn path(&self, key: &str) -> PathBuf {
        self.root.join(names::path(key) + ENDING)
    }

    fn revision(&self) -> Result<u64, Error> {
        let path = self.own("revision");
        match fs::read_to_string(&path) {
            Ok(text) => text.parse().map_err(|error| corrupt(&path, error)),
            Err(error) if is_absent(&error) => Ok(0),
            Err(error) => Err(before(&path, error)),
        }
    }

    /// Makes what is missing, each synced into what was there before.
    fn make_directories(&self, directory: &Path) -> io::Result<()> {
        if directory.is_dir() {
            return Ok(());
        }
        let above = parent(directory);
        self.make_directories(above)?;
        private_files::create_directories(directory)?;
        sync_directory(above)
    }

    /// Every row in the narrowest directory that holds all keys with the prefix.
    fn visit(
        &self,
        prefix: &str,
        visit: &mut dyn FnMut(Result<Row, Error>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let begin = names::directory(prefix);
        let mut open = vec![begin.map_or_else(|| self.root.clone(), |path| self.root.join(path))];
        while let Some(directory) = open.pop() {
            let entries = match fs::read_dir(&directory) {
                Ok(entries) => entries,
                Err(error) if is_absent(&error) => continue,
                Err(error) => return Err(before(&directory, error)),
            };
            for entry in entries {
                let path = entry.map_err(|error| before(&directory, error))?.path();
                let name = path
                    .file_name()
                    .and_then(|name| name.to_str())
                    .unwrap_or(".");
                if name.ends_with(ENDING) {
                    if let Some(row) = read(&path).transpose() {
                        visit(row.and_then(|row| self.check_place(&path, row)))?;
                    }
                } else if !name.starts_with('.') && path.is_dir() {
                    open.push(path);
                }
            }
        }
        Ok(())
    }

    /// A file that was moved by hand would answer for another key.
    fn check_place(&self, path: &Path, row: Row) -> Result<Row, Error> {
        let inside = path.strip_prefix(&self.root).ok().and_then(Path::to_str);
        let key = inside.and_then(|inside| names::key(inside.strip_suffix(ENDING)?));
        if key.as_ref() == Some(&row.key) {
            return Ok(row);
        }
        let message = format!("{} holds the key {:?}", path.display(), row.key);
        Err(Error::new(ErrorKind::Codec, message))
    }
}

/// The row that takes the place of another.
pub(super) fn renewed(
    found: Option<&Row>,
    key: String,
    value: Value,
    lifespan: Lifespan,
    revision: u64,
) -> Row {
    let now_ms = now_ms();
    Row {
        key,
        revision,
        created_at_ms: found.map_or(now_ms, |row| row.created_at_ms),
        updated_at_ms: found.map_or(now_ms, |row| now_ms.max(row.updated_at_ms)),
        expires_at_ms: match lifespan {
            Lifespan::Never => None,
            Lifespan::AfterMs(ms) => Some(now_ms + ms),
            Lifespan::Keep => found.and_then(|row| row.expires_at_ms),
        },
        value,
        write: None,
    }
}

fn read(path: &Path) -> Result<Option<Row>, Error> {
    match fs::read(path) {
        Ok(json) => row::read(&json)
            .map(Some)
            .map_err(|error| corrupt(path, error)),
        Err(error) if is_absent(&error) => Ok(None),
        Err(error) => Err(before(path, error)),
    }
}

pub(super) fn corrupt(path: &Path, error: impl std::error::Error + Send + Sync + 'static) -> Error {
    let message = format!("{} holds no row of this tool: {error}", path.display());
    Error::new(ErrorKind::Codec, message).with_source(error)
}

pub(super) fn is_absent(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.kind() == io::ErrorKind::NotADirectory
}

pub(super) fn sync_directory(directory: &Path) -> io::Result<()> {
    File::open(directory)?.sync_all()
}

pub(super) fn parent(path: &Path) -> &Path {
    path.parent().expect("every path here is below the root")
}
