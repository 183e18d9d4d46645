//! Where a disk is mounted, and the threads that answer for it.

use std::{
    fs::{self, File, OpenOptions},
    io,
    path::{Path, PathBuf},
    process::{self, Command, Stdio},
    sync::{
        Arc, Once,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::{Context as _, Result, anyhow, bail, ensure};

use super::serve::Server;
use crate::{
    process::run_within,
    wait::{Look, block_until},
};

const DEVICE: &str = "/dev/fuse";
/// Threads that answer the kernel: a sync that dawdles delays no read.
const THREADS: usize = 4;
/// Begins the name under which the kernel lists our mounts; the process that made it follows.
const SOURCE: &str = "helve-test-disk-";
/// How long a mount may be in use by a process that is on its way out.
const BUSY_LIMIT: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(10);
/// How long `mount` and `umount` may take.
const KERNEL_LIMIT: Duration = Duration::from_secs(20);
/// How long the threads of a disk are waited for that is unmounted. They go on for as long as a
/// process holds a copy of this process's mounts, as containers do while they start; no test looks
/// at those.
const COPY_LIMIT: Duration = Duration::from_secs(2);

/// A place to mount at. Dropping it unmounts.
#[derive(Debug)]
pub(super) struct Mount {
    at: PathBuf,
    /// Whether it is mounted, or about to be.
    wanted: Arc<AtomicBool>,
    /// Those of a mounted disk.
    threads: Vec<JoinHandle<io::Result<()>>>,
}

impl Mount {
    /// What this machine lacks to mount one.
    pub(super) fn missing() -> Option<String> {
        if !rustix::process::geteuid().is_root() {
            return Some("only the superuser may mount a disk".to_owned());
        }
        let error = open_device().err()?;
        Some(format!("{DEVICE} cannot be opened: {error}"))
    }

    pub(super) fn at(path: &Path) -> Self {
        static SWEPT: Once = Once::new();
        SWEPT.call_once(|| {
            if let Err(error) = sweep() {
                eprintln!("what an earlier run left mounted stays so: {error:#}");
            }
        });
        Self {
            at: path.to_owned(),
            wanted: Arc::default(),
            threads: Vec::new(),
        }
    }

    /// Mounts what the server has.
    pub(super) fn attach(&mut self, server: &Server) -> Result<()> {
        let device = open_device().with_context(|| format!("cannot open {DEVICE}"))?;
        // The kernel takes the device by its number: the standard input of the process that mounts.
        let stdin = Stdio::from(device.try_clone()?);
        let device = Arc::new(device);
        self.wanted.store(true, Ordering::Relaxed);
        for _ in 0..THREADS {
            let (server, device) = (server.clone(), Arc::clone(&device));
            let wanted = Arc::clone(&self.wanted);
            let thread = thread::Builder::new().name("fault-disk".to_owned());
            let thread = thread.spawn(move || server.run(&device, &wanted))?;
            self.threads.push(thread);
        }
        let (user, group) = (
            rustix::process::geteuid().as_raw(),
            rustix::process::getegid().as_raw(),
        );
        let options = format!("fd=0,rootmode=40000,user_id={user},group_id={group}");
        let mut mount = Command::new("mount");
        mount
            .args(["-i", "-n", "-t", "fuse", "-o", &options])
            .arg(format!("{SOURCE}{}", process::id()))
            .arg(&self.at)
            .stdin(stdin);
        let mounted = run_within(KERNEL_LIMIT, &mut mount)?;
        if mounted.status.success() {
            return Ok(());
        }
        self.wanted.store(false, Ordering::Relaxed);
        self.join()?;
        let error = String::from_utf8_lossy(&mounted.stderr);
        bail!("cannot mount a disk at {}: {error}", self.at.display());
    }

    /// Unmounts it, and waits for its threads for a while. Does nothing if it is not mounted.
    pub(super) fn detach(&mut self) -> Result<()> {
        if self.threads.is_empty() {
            return Ok(());
        }
        let deadline = Instant::now() + BUSY_LIMIT;
        while let Err(error) = unmount(&self.at, &[]) {
            if Instant::now() >= deadline {
                bail!(error);
            }
            // A process that was just killed may not have let go of its files yet.
            thread::sleep(PAUSE);
        }
        self.join()
    }

    fn join(&mut self) -> Result<()> {
        let ended = block_until(COPY_LIMIT, "the threads of a disk to end", || {
            match self.threads.iter().filter(|t| !t.is_finished()).count() {
                0 => Look::Done(()),
                busy => Look::NotYet(format!("{busy} go on")),
            }
        });
        if ended.is_err() {
            self.threads.clear();
            return Ok(());
        }
        for thread in self.threads.drain(..) {
            let ended = thread.join();
            ended.map_err(|_| anyhow!("a thread of the disk panicked"))??;
        }
        Ok(())
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        if let Err(error) = self.detach() {
            eprintln!("{error:#}");
            if let Err(error) = unmount(&self.at, &["-l"]) {
                eprintln!("{error:#}");
            }
        }
    }
}

fn open_device() -> io::Result<File> {
    OpenOptions::new().read(true).write(true).open(DEVICE)
}

fn unmount(at: &Path, options: &[&str]) -> Result<()> {
    let mut umount = Command::new("umount");
    umount.args(["-i", "-n"]).args(options).arg(at);
    let unmounted = run_within(KERNEL_LIMIT, umount.stdin(Stdio::null()))?;
    let error = String::from_utf8_lossy(&unmounted.stderr);
    ensure!(
        unmounted.status.success(),
        "{} cannot be unmounted: {error}",
        at.display()
    );
    Ok(())
}

/// Unmounts what a process left that was killed before it could.
fn sweep() -> Result<()> {
    for line in fs::read_to_string("/proc/self/mounts")?.lines() {
        let mut fields = line.split(' ');
        let (source, at) = (fields.next(), fields.next());
        let owner = source.and_then(|source| source.strip_prefix(SOURCE));
        let (Some(owner), Some(at)) = (owner, at) else {
            continue;
        };
        if !fs::exists(format!("/proc/{owner}"))? {
            unmount(Path::new(at), &["-l"])?;
        }
    }
    Ok(())
}
