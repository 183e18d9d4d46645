//! What processes use, as the kernel counts it.

use std::{fs, io, process};

use anyhow::{Context as _, Result};

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
