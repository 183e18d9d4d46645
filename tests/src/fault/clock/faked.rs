//! One node's clock, faked by a preloaded library.

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
    time::{SystemTime, UNIX_EPOCH},
};

use anyhow::{Context as _, Result, ensure};

/// Where distributions put the library for programs with several threads.
const LIBRARIES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib/aarch64-linux-gnu/faketime/libfaketimeMT.so.1",
    "/usr/lib64/faketime/libfaketimeMT.so.1",
    "/usr/lib/faketime/libfaketimeMT.so.1",
];

/// What a clock says.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Reading {
    /// The time.
    True,
    /// The time plus this many seconds.
    Offset(i64),
    /// A time that runs so much faster since the node started.
    Rate(f64),
}

/// Whether the monotonic clock is faked along with the wall clock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Monotonic {
    /// It is not.
    True,
    /// It is.
    Faked,
}

/// The clock of one node.
#[derive(Debug, Clone)]
pub struct Clock {
    file: PathBuf,
}

impl Clock {
    /// What this machine lacks to fake one.
    #[must_use]
    pub fn missing() -> Option<String> {
        match library() {
            Some(_) => None,
            None => Some("libfaketime is not installed (package faketime)".to_owned()),
        }
    }

    /// A true one, which is set by this file.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn new(file: PathBuf) -> Result<Self> {
        let clock = Self { file };
        clock.set(Reading::True)?;
        Ok(clock)
    }

    /// Sets it, at once.
    ///
    /// # Errors
    ///
    /// If the file cannot be written.
    pub fn set(&self, reading: Reading) -> Result<()> {
        let words = match reading {
            Reading::True => "+0".to_owned(),
            Reading::Offset(by_s) => format!("{by_s:+}"),
            Reading::Rate(rate) => format!("+0 x{rate}"),
        };
        // A process that reads the clock meanwhile must find one or the other.
        let new = self.file.with_extension("new");
        fs::write(&new, words + "\n")?;
        Ok(fs::rename(new, &self.file)?)
    }

    /// What a process needs in its environment to have this clock.
    #[must_use]
    pub fn environment(&self, monotonic: Monotonic) -> Vec<(String, String)> {
        let library = library().unwrap_or_default();
        let spares_monotonic = match monotonic {
            Monotonic::True => "1",
            Monotonic::Faked => "0",
        };
        [
            ("LD_PRELOAD", library),
            ("FAKETIME_TIMESTAMP_FILE", &self.file.to_string_lossy()),
            ("FAKETIME_NO_CACHE", "1"),
            // Processes that share it would have each other's clock.
            ("FAKETIME_DISABLE_SHM", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", spares_monotonic),
            ("DONT_FAKE_MONOTONIC", spares_monotonic),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into()
    }

    /// How many seconds a process with this clock is ahead of this one.
    ///
    /// # Errors
    ///
    /// If no such process can be asked.
    pub fn off_s(&self) -> Result<i64> {
        let mut date = Command::new("date");
        date.arg("+%s").envs(self.environment(Monotonic::True));
        let said = String::from_utf8(date.output()?.stdout)?;
        let theirs: i64 = said.trim().parse().context("date answers with seconds")?;
        let ours = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
        Ok(theirs - i64::try_from(ours)?)
    }

    /// Fails unless a process has the library that fakes its clock.
    ///
    /// # Errors
    ///
    /// See above.
    pub fn check_preloaded(&self, pid: u32) -> Result<()> {
        let maps = fs::read_to_string(Path::new("/proc").join(pid.to_string()).join("maps"))?;
        ensure!(
            maps.contains("libfaketime"),
            "process {pid} has the true clock"
        );
        Ok(())
    }
}

fn library() -> Option<&'static str> {
    LIBRARIES.into_iter().find(|path| Path::new(path).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_jumps_there_and_back() {
        if crate::fault::left_out("a clock of our own", Clock::missing()).is_some() {
            return;
        }
        let directory = tempfile::tempdir().unwrap();
        let clock = Clock::new(directory.path().join("clock")).unwrap();
        for (reading, off_s) in [
            (Reading::Offset(262), 262),
            (Reading::Offset(-262), -262),
            (Reading::True, 0),
        ] {
            clock.set(reading).unwrap();
            let found = clock.off_s().unwrap();
            // Seconds may change between two looks, and a busy machine takes its time between them.
            assert!(
                (off_s - 30..=off_s + 1).contains(&found),
                "{reading:?}: {found}"
            );
        }
    }
}
