//! How much memory a process holds, as the kernel counts it.

use std::fs;

use anyhow::{Context as _, Result};

/// The resident bytes of a process now.
///
/// # Errors
///
/// If there is no such process.
pub fn resident_bytes(pid: u32) -> Result<u64> {
    field(pid, "VmRSS:")
}

/// The most bytes that a process has had resident since it started, or since [`forget_peak`].
///
/// # Errors
///
/// If there is no such process.
pub fn peak_bytes(pid: u32) -> Result<u64> {
    field(pid, "VmHWM:")
}

/// Makes [`peak_bytes`] begin again with what is resident now.
///
/// # Errors
///
/// If there is no such process, or it is not this user's.
pub fn forget_peak(pid: u32) -> Result<()> {
    // 5 resets the peak alone (proc_pid_clear_refs(5)).
    fs::write(format!("/proc/{pid}/clear_refs"), "5")
        .with_context(|| format!("cannot reset the peak of process {pid}"))
}

fn field(pid: u32, name: &str) -> Result<u64> {
    let path = format!("/proc/{pid}/status");
    let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let text = line.with_context(|| format!("{path} has no {name}"))?;
    let kib = text.trim().trim_end_matches(" kB").trim_end();
    Ok(kib.parse::<u64>()? << 10)
}

#[cfg(test)]
mod tests {
    use std::process;

    use super::*;

    #[test]
    fn peak_of_this_process_covers_what_it_touched() {
        let pid = process::id();
        forget_peak(pid).unwrap();
        let before = peak_bytes(pid).unwrap();
        let touched = vec![1_u8; 64 << 20];
        assert!(resident_bytes(pid).unwrap() >= 64 << 20);
        assert_eq!(
            touched.iter().map(|byte| u64::from(*byte)).sum::<u64>(),
            64 << 20
        );
        drop(touched);
        assert!(peak_bytes(pid).unwrap() >= before + (48 << 20));
    }
}
