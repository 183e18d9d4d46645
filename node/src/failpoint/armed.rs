//! What failpoints do when they are armed.

use std::{
    fs,
    os::unix::fs::MetadataExt as _,
    path::PathBuf,
    process,
    str::FromStr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::Duration,
};

use rustix::process::{Signal, getpid, kill_process};

use super::Failpoint;

static PASSAGES: [AtomicU64; Failpoint::ALL.len()] =
    [const { AtomicU64::new(0) }; Failpoint::ALL.len()];

static ARMED: Mutex<Armed> = Mutex::new(Armed {
    from_start: Script(Vec::new()),
    from_file: Script(Vec::new()),
    file: None,
    read: None,
});

/// Which failpoints do what: `NAME=ACTION`, separated by commas or line ends. An action is `kill`, `delay:MILLISECONDS` or `error`
/// and happens at every passage; with `:NTH` behind it, at the nth passage after arming alone.
///
/// `kill` is SIGKILL from the process to itself: nothing is flushed, dropped or answered.
#[derive(Debug, Clone, Default)]
pub struct Script(Vec<Order>);

#[derive(Debug, Clone)]
struct Order {
    point: Failpoint,
    action: Action,
    nth: Option<u64>,
    passages: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    Kill,
    Delay(Duration),
    Error,
}

/// What is armed in this process.
struct Armed {
    from_start: Script,
    from_file: Script,
    file: Option<PathBuf>,
    /// Tells whether the file has changed: its inode, time of change and size.
    read: Option<(u64, i64, i64, u64)>,
}

impl FromStr for Script {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let orders = text.split([',', '\n']).map(str::trim);
        let orders = orders.filter(|order| !order.is_empty()).map(order);
        orders.collect::<Result<_, _>>().map(Self)
    }
}

fn order(text: &str) -> Result<Order, String> {
    let (name, what) = text
        .split_once('=')
        .ok_or_else(|| format!("`{text}` is not NAME=ACTION"))?;
    let known = Failpoint::ALL.iter().find(|point| point.as_str() == name);
    let point = *known.ok_or_else(|| {
        let names: Vec<_> = Failpoint::ALL.iter().map(|point| point.as_str()).collect();
        format!("`{name}` is no failpoint; there are {}", names.join(", "))
    })?;
    let mut parts = what.split(':');
    let number = |part: &str| {
        part.parse::<u64>()
            .map_err(|_| format!("`{part}` in `{text}` is no number"))
    };
    let action = match parts.next().unwrap_or_default() {
        "kill" => Action::Kill,
        "delay" => {
            let delay_ms = number(parts.next().unwrap_or_default())?;
            Action::Delay(Duration::from_millis(delay_ms))
        }
        "error" if point.can_fail() => Action::Error,
        "error" => return Err(format!("`{name}` cannot fail: kill or delay")),
        other => return Err(format!("`{other}` is no action: kill, delay:MS or error")),
    };
    let nth = parts.next().map(number).transpose()?;
    if nth == Some(0) || parts.next().is_some() {
        return Err(format!("`{text}` is not NAME=ACTION:NTH with NTH from 1"));
    }
    Ok(Order {
        point,
        action,
        nth,
        passages: 0,
    })
}

/// Arms failpoints, instead of those that were armed so before.
pub fn arm(script: Script) {
    armed().from_start = script;
}

/// From now on the content of this file arms failpoints, too. No file arms none; replace it by renaming, so that no half is read.
pub fn watch(file: PathBuf) {
    armed().file = Some(file);
}

/// How often this process has passed each failpoint.
pub fn passages() -> impl Iterator<Item = (Failpoint, u64)> {
    let counts = PASSAGES.iter().map(|count| count.load(Ordering::Relaxed));
    Failpoint::ALL.iter().copied().zip(counts)
}

/// Passes a place, on a thread that may block.
pub fn pass(point: Failpoint) {
    match decide(point) {
        Some(Action::Kill) => die(),
        Some(Action::Delay(delay)) => thread::sleep(delay),
        Some(Action::Error) | None => {}
    }
}

/// Passes a place on a runtime's thread.
pub async fn passed(point: Failpoint) {
    match decide(point) {
        Some(Action::Kill) => die(),
        Some(Action::Delay(delay)) => tokio::time::sleep(delay).await,
        Some(Action::Error) | None => {}
    }
}

/// Passes a place that can fail, on a thread that may block.
///
/// # Errors
/// If it is armed with `error`.
pub fn check(point: Failpoint) -> Result<(), String> {
    match decide(point) {
        Some(Action::Kill) => die(),
        Some(Action::Delay(delay)) => thread::sleep(delay),
        Some(Action::Error) => return Err(format!("failpoint {}", point.as_str())),
        None => {}
    }
    Ok(())
}

fn decide(point: Failpoint) -> Option<Action> {
    PASSAGES[point as usize].fetch_add(1, Ordering::Relaxed);
    let mut armed = armed();
    armed.read_file();
    let from_start = armed.from_start.passed(point);
    let action = armed.from_file.passed(point).or(from_start)?;
    // Not by tracing: a process that dies here must have said it.
    eprintln!("failpoint {}: {action:?}", point.as_str());
    Some(action)
}

fn die() -> ! {
    if let Err(error) = kill_process(getpid(), Signal::KILL) {
        eprintln!("this process cannot kill itself: {error}");
    }
    process::abort()
}

impl Script {
    /// What is to be done at this passage.
    fn passed(&mut self, point: Failpoint) -> Option<Action> {
        let mut action = None;
        for order in self.0.iter_mut().filter(|order| order.point == point) {
            order.passages += 1;
            if order.nth.is_none_or(|nth| nth == order.passages) {
                action = Some(order.action);
            }
        }
        action
    }
}

impl Armed {
    /// Reads the file again if it is another than the one that was read last.
    fn read_file(&mut self) {
        let Some(file) = &self.file else { return };
        let found = fs::metadata(file).ok();
        let found = found.map(|m| (m.ino(), m.mtime(), m.mtime_nsec(), m.size()));
        if found == self.read {
            return;
        }
        self.read = found;
        self.from_file = match fs::read_to_string(file).map(|text| text.parse()) {
            Ok(Ok(script)) => script,
            Ok(Err(why)) => {
                eprintln!("failpoints: {}: {why}", file.display());
                Script::default()
            }
            // It was removed: nothing is armed by it any more.
            Err(_) => Script::default(),
        };
    }
}

/// A panic under the lock leaves the content whole.
fn armed() -> MutexGuard<'static, Armed> {
    ARMED.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn script(text: &str) -> Script {
        text.parse().unwrap()
    }

    #[test]
    fn an_order_is_carried_out_at_each_passage_or_at_the_nth_alone() {
        let point = Failpoint::SendChunk;
        let mut each = script("send-chunk=delay:5");
        let delay = Some(Action::Delay(Duration::from_millis(5)));
        assert_eq!([each.passed(point), each.passed(point)], [delay, delay]);
        let mut second = script("log-before-ack=kill, send-chunk=error:2");
        assert_eq!(second.passed(Failpoint::ReceiveChunk), None);
        let seen = [(); 3].map(|()| second.passed(point));
        assert_eq!(seen, [None, Some(Action::Error), None]);
    }

    #[test]
    fn what_is_no_script_is_refused() {
        for text in [
            "send-chunk",
            "nowhere=kill",
            "send-chunk=explode",
            "send-chunk=delay",
            "send-chunk=kill:0",
            "send-chunk=kill:1:2",
            "log-before-ack=error",
        ] {
            assert!(text.parse::<Script>().is_err(), "{text}");
        }
        assert!(script(" \n").0.is_empty());
    }

    #[test]
    fn a_file_arms_and_disarms_a_running_process() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("failpoints");
        let mut armed = Armed {
            from_start: Script::default(),
            from_file: Script::default(),
            file: Some(file.clone()),
            read: None,
        };
        let mut orders = |text: Option<&str>| {
            match text {
                Some(text) => fs::write(&file, text).unwrap(),
                None => fs::remove_file(&file).unwrap(),
            }
            armed.read_file();
            armed.from_file.0.len()
        };
        assert_eq!(orders(Some("send-chunk=kill")), 1);
        assert_eq!(orders(Some("send-chunk=kill,log-before-ack=kill")), 2);
        assert_eq!(orders(Some("nonsense")), 0);
        assert_eq!(orders(Some("send-chunk=error")), 1);
        assert_eq!(orders(None), 0);
    }
}
