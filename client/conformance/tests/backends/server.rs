//! Servers that live as long as a test does, on loopback ports and in directories of their own.

use std::{
    net::{TcpListener, TcpStream},
    path::PathBuf,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, kill_process};

/// What a server waits for to answer. Ample, for slow machines.
const PATIENCE: Duration = Duration::from_secs(60);
/// How often it is looked at.
pub(crate) const LOOK: Duration = Duration::from_millis(20);

pub(crate) struct Server {
    child: Child,
    pub(crate) port: u16,
}

impl Server {
    /// Starts it, and waits until it takes connections.
    pub(crate) async fn start(command: &mut Command, port: u16) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
        let mut server = Self {
            child: child.unwrap_or_else(|error| panic!("{command:?}: {error}")),
            port,
        };
        let until = Instant::now() + PATIENCE;
        let mut looks = tokio::time::interval(LOOK);
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            let ended = server.child.try_wait().expect("it is our child");
            assert!(ended.is_none(), "{command:?} ended: {ended:?}");
            assert!(Instant::now() < until, "{command:?} does not listen");
            looks.tick().await;
        }
        server
    }

    /// Ends it at once, as PostgreSQL wants it said so that nothing of it stays.
    pub(crate) fn stop(&mut self) {
        let pid = i32::try_from(self.child.id()).ok().and_then(Pid::from_raw);
        let pid = pid.expect("a process has a number");
        // It may have ended already.
        let _gone = kill_process(pid, Signal::QUIT);
        let until = Instant::now() + Duration::from_secs(10);
        while self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            if Instant::now() > until {
                let _gone = self.child.kill();
                let _gone = self.child.wait();
            }
            std::thread::yield_now();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has ports");
    listener.local_addr().expect("it is bound").port()
}

/// Where a program is. `None` leaves a test out, unless all are required.
pub(crate) fn find(program: &str, package: &str, directories: &[PathBuf]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut places = std::env::split_paths(&path).chain(directories.iter().cloned());
    let found = places.find(|place| place.join(program).is_file());
    if found.is_none() {
        let message = format!(
            "{program} is not installed (make tools installs {package}): its tests are left out"
        );
        assert!(
            std::env::var_os("HELVE_REQUIRE_BACKENDS").is_none(),
            "{message}"
        );
        println!("{message}");
    }
    found.map(|place| place.join(program))
}
