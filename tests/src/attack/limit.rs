//! A limit on a process's memory, as a container has one.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

/// Where the first version of cgroups keeps its memory controller.
const V1: &str = "/sys/fs/cgroup/memory";
/// Where the second version is mounted.
const V2: &str = "/sys/fs/cgroup";

/// A limit that one process is under until this is dropped, when the process must have ended.
#[derive(Debug)]
pub enum MemoryLimit {
    /// A cgroup, whose page cache counts as well; the kernel kills the process over the limit.
    Group(PathBuf),
    /// No cgroup can be made: the process gets no more private memory than this, and ends if it asks for more.
    Private,
}

impl MemoryLimit {
    /// Puts a process that has just started under a limit.
    ///
    /// # Errors
    ///
    /// If the kernel allows neither form of it.
    pub fn apply(pid: u32, bytes: u64) -> Result<Self> {
        match group(pid, bytes) {
            Ok(group) => Ok(Self::Group(group)),
            Err(error) => {
                tracing::info!(%error, "no cgroup: the limit is on private memory");
                let limit = Rlimit {
                    current: Some(bytes),
                    maximum: Some(bytes),
                };
                let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
                prlimit(pid, Resource::Data, limit).context("cannot limit a process's memory")?;
                Ok(Self::Private)
            }
        }
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        if let Self::Group(path) = self
            && let Err(error) = fs::remove_dir(&*path)
        {
            eprintln!("cannot remove {}: {error}", path.display());
        }
    }
}

fn group(pid: u32, bytes: u64) -> io::Result<PathBuf> {
    static LAST: AtomicU32 = AtomicU32::new(0);
    let number = LAST.fetch_add(1, Ordering::Relaxed);
    let name = format!("helve-{}-{number}", std::process::id());
    let (root, limit) = if Path::new(V1).is_dir() {
        (V1, "memory.limit_in_bytes")
    } else {
        (V2, "memory.max")
    };
    let group = Path::new(root).join(name);
    fs::create_dir(&group)?;
    let limited = fs::write(group.join(limit), bytes.to_string())
        .and_then(|()| fs::write(group.join("cgroup.procs"), pid.to_string()));
    if let Err(error) = limited {
        // Nothing is in it.
        fs::remove_dir(&group)?;
        return Err(error);
    }
    Ok(group)
}
