//! Rivals as processes: found, started in a temporary directory, awaited, and stopped with whoever holds them.

use std::{
    env, fs, io,
    path::{Path, PathBuf},
    process,
};

use anyhow::{Context as _, Result, bail};
use helve_tests::{
    process::{Process, Start},
    wait::{Look, until},
};
use tempfile::TempDir;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

/// A product's temporary directory.
pub(crate) struct Home(TempDir);

impl Home {
    pub(crate) fn new(product: &str) -> Result<Self> {
        let prefix = format!("helve-bench-{product}-");
        Ok(Self(tempfile::Builder::new().prefix(&prefix).tempdir()?))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }
}

/// A process that is killed when this is dropped.
pub(crate) struct Daemon(Process);

impl Daemon {
    /// `member` tells the logs of one product's processes apart.
    pub(crate) fn start(
        binary: &Path,
        arguments: impl IntoIterator<Item = impl AsRef<str>>,
        home: &Home,
        member: u16,
    ) -> Result<Self> {
        let start = Start {
            binary: binary.to_owned(),
            arguments: arguments
                .into_iter()
                .map(|argument| argument.as_ref().into())
                .collect(),
            environment: Vec::new(),
        };
        let log = home.path().join(format!("{member}.log"));
        let mut process = Process::new(start, log);
        process.start()?;
        Ok(Self(process))
    }

    pub(crate) fn pid(&self) -> u32 {
        self.0.pid().expect("it was started, and is never stopped")
    }
}

/// The binary of this name on the path, or in one of these directories.
pub(crate) fn find(name: &str, elsewhere: &[&str]) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let directories = env::split_paths(&path).chain(elsewhere.iter().map(PathBuf::from));
    let mut candidates = directories.map(|directory| directory.join(name));
    candidates.find(|candidate| candidate.is_file())
}

/// Tries until it succeeds, or a product had time enough to become ready.
pub(crate) async fn patiently<T>(
    product: &str,
    mut attempt: impl AsyncFnMut() -> Result<T>,
) -> Result<T> {
    until(&format!("{product} to become ready"), async || {
        Look::of(attempt().await.map_err(|error| format!("{error:#}")))
    })
    .await
}

/// A page of metrics, from `http://HOST:PORT/PATH`.
pub(crate) async fn scrape(url: &str) -> Result<String> {
    let rest = url.strip_prefix("http://").context("plain HTTP")?;
    let (host, path) = rest.split_once('/').context("a path")?;
    let mut stream = TcpStream::connect(host).await?;
    let request = format!("GET /{path} HTTP/1.0\r\nHost: {host}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut page = String::new();
    stream.read_to_string(&mut page).await?;
    if !page.starts_with("HTTP/1.0 200") && !page.starts_with("HTTP/1.1 200") {
        bail!("{url}: {}", page.lines().next().unwrap_or_default());
    }
    Ok(page)
}

/// What processes have used since they started.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Usage {
    pub(crate) cpu_seconds: f64,
    pub(crate) written_bytes: u64,
}

impl Usage {
    /// Of these processes, and of all that they started and that still run.
    pub(crate) fn of(pids: &[u32]) -> Result<Self> {
        let family = family(pids)?;
        let mut usage = Self::default();
        for pid in family {
            // One that has just ended has used nothing more.
            let (Ok(stat), Ok(io)) = (read(pid, "stat"), read(pid, "io")) else {
                continue;
            };
            usage.cpu_seconds += cpu_seconds(&stat)?;
            let written = io
                .lines()
                .find_map(|line| line.strip_prefix("write_bytes: "));
            usage.written_bytes += written
                .context("the kernel counts writes")?
                .parse::<u64>()?;
        }
        Ok(usage)
    }

    /// Of the process that makes the load.
    pub(crate) fn own() -> Result<Self> {
        let stat = read(process::id(), "stat")?;
        Ok(Self {
            cpu_seconds: cpu_seconds(&stat)?,
            written_bytes: 0,
        })
    }

    pub(crate) fn since(self, before: Self) -> Self {
        Self {
            cpu_seconds: self.cpu_seconds - before.cpu_seconds,
            written_bytes: self.written_bytes.saturating_sub(before.written_bytes),
        }
    }
}

fn read(pid: u32, file: &str) -> io::Result<String> {
    fs::read_to_string(format!("/proc/{pid}/{file}"))
}

/// What follows the name in `/proc/PID/stat`, which may hold blanks itself.
fn fields(stat: &str) -> Result<Vec<&str>> {
    let (_, rest) = stat.rsplit_once(')').context("a name in brackets")?;
    Ok(rest.split_whitespace().collect())
}

fn cpu_seconds(stat: &str) -> Result<f64> {
    let fields = fields(stat)?;
    let ticks = |place: usize| -> Result<u32> {
        let field = fields.get(place).context("a field for CPU time")?;
        Ok(field.parse()?)
    };
    // User and system time are fields 14 and 15 of the whole line, in hundredths on every Linux (USER_HZ).
    Ok((f64::from(ticks(11)?) + f64::from(ticks(12)?)) / 100.0)
}

/// These processes and all their descendants.
fn family(pids: &[u32]) -> Result<Vec<u32>> {
    let mut parents = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let name = entry?.file_name();
        let Some(pid) = name.to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(stat) = read(pid, "stat") else {
            continue;
        };
        let parent = fields(&stat)?.get(1).context("a parent")?.parse::<u32>()?;
        parents.push((pid, parent));
    }
    let mut family = pids.to_vec();
    let mut next = 0;
    while next < family.len() {
        let parent = family[next];
        let children = parents.iter().filter(|&&(_, of)| of == parent);
        family.extend(children.map(|&(pid, _)| pid));
        next += 1;
    }
    Ok(family)
}
