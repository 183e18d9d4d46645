//! What the operating system says of this process, under the names that Prometheus's own clients use.

use prometheus_client::registry::Registry;

/// Shows it; nothing where the operating system cannot say.
pub fn registry() -> Registry {
    let mut registry = Registry::with_prefix("process");
    #[cfg(target_os = "linux")]
    if let Ok(process) = Process::read() {
        process.register(&mut registry);
    }
    registry
}

#[cfg(target_os = "linux")]
struct Process {
    cpu_seconds: f64,
    resident_bytes: u64,
    virtual_bytes: u64,
    open_fds: u64,
    max_fds: Option<u64>,
    start_seconds: f64,
    threads: u64,
}

#[cfg(target_os = "linux")]
impl Process {
    fn read() -> procfs::ProcResult<Self> {
        let process = procfs::process::Process::myself()?;
        let stat = process.stat()?;
        let ticks = procfs::ticks_per_second();
        let seconds = |count: u64| count as f64 / ticks as f64;
        let max_fds = match process.limits()?.max_open_files.soft_limit {
            procfs::process::LimitValue::Value(limit) => Some(limit),
            procfs::process::LimitValue::Unlimited => None,
        };
        Ok(Self {
            cpu_seconds: seconds(stat.utime + stat.stime),
            resident_bytes: stat.rss * procfs::page_size(),
            virtual_bytes: stat.vsize,
            open_fds: process.fd_count()? as u64,
            max_fds,
            start_seconds: procfs::boot_time_secs()? as f64 + seconds(stat.starttime),
            threads: u64::try_from(stat.num_threads).unwrap_or_default(),
        })
    }

    fn register(&self, registry: &mut Registry) {
        use prometheus_client::metrics::{counter::ConstCounter, gauge::ConstGauge};

        use super::constant::{gauge, register, seconds_gauge};

        let cpu = ConstCounter::<f64>::new(self.cpu_seconds);
        let help = "Processor time of this process, user and system";
        register(registry, "cpu_seconds", help, cpu);
        let gauges = [
            (
                "resident_memory_bytes",
                "Resident memory",
                self.resident_bytes,
            ),
            ("virtual_memory_bytes", "Virtual memory", self.virtual_bytes),
            ("open_fds", "Open file descriptors", self.open_fds),
            ("threads", "Threads", self.threads),
        ];
        for (name, help, value) in gauges {
            gauge(registry, name, help, value);
        }
        if let Some(max_fds) = self.max_fds {
            let max_fds = ConstGauge::<u64>::new(max_fds);
            register(
                registry,
                "max_fds",
                "File descriptors that may be open",
                max_fds,
            );
        }
        let help = "When this process started, since the Unix epoch";
        seconds_gauge(registry, "start_time_seconds", help, self.start_seconds);
    }
}
