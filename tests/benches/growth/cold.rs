//! Rows that come from the disk: the operating system's copies of the nodes' tables are dropped, again and again, while callers call.
//! What a node caches itself it keeps.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    sync::mpsc::{self, RecvTimeoutError},
    thread,
    time::Duration,
};

use anyhow::{Context as _, Result, anyhow};
use rustix::fs::{Advice, fadvise};

/// Between two times: callers read little of millions of rows meanwhile.
const DROPPED_EVERY: Duration = Duration::from_millis(100);

/// A thread that keeps files cold. It ends with this.
pub(crate) struct Cold {
    ended: mpsc::Sender<()>,
    thread: thread::JoinHandle<io::Result<()>>,
}

impl Cold {
    /// Drops the copies of all tables below these directories, and goes on to.
    pub(crate) fn start(directories: Vec<PathBuf>) -> Result<Self> {
        let (ended, end) = mpsc::channel();
        let drop_all = move || directories.iter().try_for_each(|path| drop_below(path));
        drop_all().context("cannot drop the operating system's copies of tables")?;
        let thread = thread::spawn(move || {
            while end.recv_timeout(DROPPED_EVERY) == Err(RecvTimeoutError::Timeout) {
                drop_all()?;
            }
            Ok(())
        });
        Ok(Self { ended, thread })
    }

    pub(crate) fn end(self) -> Result<()> {
        drop(self.ended);
        let ended = self.thread.join();
        ended
            .map_err(|_| anyhow!("the thread that drops copies of tables broke"))?
            .context("cannot drop the operating system's copies of tables")
    }
}

fn drop_below(path: &Path) -> io::Result<()> {
    // Files come and go meanwhile.
    let is_gone = |error: &io::Error| error.kind() == io::ErrorKind::NotFound;
    let entries = match fs::read_dir(path) {
        Err(error) if is_gone(&error) => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let path = entry?.path();
        if path.is_dir() {
            drop_below(&path)?;
        } else if path.extension().is_some_and(|kind| kind == "sst") {
            match File::open(&path) {
                Ok(table) => fadvise(&table, 0, None, Advice::DontNeed)?,
                Err(error) if is_gone(&error) => {}
                Err(error) => return Err(error),
            }
        }
    }
    Ok(())
}
