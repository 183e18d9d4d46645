//! A log as operators and intruders meet it: written, cut, changed, restarted, and where it cannot be written.

mod failing;
mod floods;
mod restarts;
mod tampering;

use std::{
    fs,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use super::{
    Audit, AuditKey, Class, Destination, Ended, Event, Head, Ids, OnFailure, Settings, Target,
    file,
    verify::{Report, verify},
};

/// How long a thread may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A log in a directory of its own.
struct Log {
    dir: tempfile::TempDir,
    settings: Settings,
}

impl Log {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::create_dir(dir.path().join("log")).unwrap();
        let settings = Settings {
            destination: Destination::File(dir.path().join("log/audit")),
            classes: vec![Class::Write, Class::Admin],
            ids: Ids::Plain,
            key_file: None,
            size_bytes: u64::MAX,
            keep: 100,
            denied_size_bytes: 16 << 20,
            denied_keep: 16,
            keep_for: Duration::ZERO,
            on_failure: OnFailure::Refuse,
        };
        Self { dir, settings }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("log/audit")
    }

    fn data_dir(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn open(&self) -> Audit {
        Audit::open(&self.settings, &self.data_dir(), "node-1").unwrap()
    }

    /// Opens, records this many writes, and closes.
    fn write(&self, calls: usize) {
        let audit = self.open();
        for number in 0..calls {
            put(&audit, &format!("cart-{number}"));
        }
        audit.close();
    }

    /// The head that the node keeps.
    fn kept(&self) -> Head {
        let text = fs::read_to_string(self.data_dir().join("audit-head")).unwrap();
        text.trim().parse().unwrap()
    }

    /// All files, oldest first.
    fn files(&self) -> Vec<PathBuf> {
        let mut files = file::put_aside(&self.path()).unwrap();
        files.push(self.path());
        files
    }

    fn verify(&self) -> Report {
        verify(&self.files(), None, None).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    /// The file of calls that were turned away.
    fn denied_path(&self) -> PathBuf {
        self.dir.path().join("log/audit.denied")
    }

    fn denied_text(&self) -> String {
        fs::read_to_string(self.denied_path()).unwrap()
    }
}

fn write_of(id: &str) -> Event {
    Event {
        tenant: "acme".into(),
        principal: "server".into(),
        peer: "127.0.0.1:4711".parse().ok(),
        targets: vec![Target {
            store: Some("carts".into()),
            owner: Some("ann".into()),
            id: Some(id.into()),
            ..Target::default()
        }],
        ..Event::of(Class::Write, "Put")
    }
}

fn put(audit: &Audit, id: &str) {
    let entry = audit.begin(|| write_of(id)).unwrap();
    entry.ended(|| Ended {
        status: Some("CREATED"),
        revision: 7,
        index: 7,
        clock_ms: 1,
        ..Ended::with("OK")
    });
}

/// Waits until it is so.
fn until(what: &str, is_so: impl Fn() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::yield_now();
    }
}

fn lines(path: &Path) -> Vec<Vec<u8>> {
    let content = fs::read(path).unwrap();
    content
        .split_inclusive(|byte| *byte == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

#[test]
fn each_call_has_a_line_that_says_who_what_and_how_it_ended() {
    let log = Log::new();
    log.write(2);
    let report = log.verify();
    assert_eq!((&report.broken, report.torn_bytes), (&None, 0));
    assert_eq!(report.head, log.kept());
    let all = lines(&log.path());
    let line: serde_json::Value = serde_json::from_slice(&all[1]).unwrap();
    let expected = serde_json::json!({
        "seq": 2, "wall_ms": line["wall_ms"], "event": "call", "class": "write", "operation": "Put",
        "tenant": "acme", "principal": "server", "peer": "127.0.0.1:4711",
        "targets": [{"store": "carts", "owner": "ann", "id": "cart-0"}],
        "outcome": "OK", "status": "CREATED", "revision": 7, "index": 7, "clock_ms": 1,
        "hash": line["hash"],
    });
    assert_eq!(line, expected);
    let events = all.iter().map(|line| {
        let line: serde_json::Value = serde_json::from_slice(line).unwrap();
        line["event"].as_str().unwrap_or_default().to_owned()
    });
    let events: Vec<_> = events.collect();
    assert_eq!(events, ["opened", "call", "call", "closed"]);
}

#[test]
fn as_many_files_as_can_be_said_have_room_for_calls() {
    let mut log = Log::new();
    (log.settings.size_bytes, log.settings.keep) = (1 << 20, usize::MAX);
    log.settings.keep_for = Duration::from_secs(3_600);
    log.write(2);
    assert!(log.text().contains("\"cart-1\""), "{}", log.text());
}

#[test]
fn a_call_whose_caller_goes_away_has_a_line_that_says_so() {
    let log = Log::new();
    let audit = log.open();
    drop(audit.begin(|| write_of("gone")).unwrap());
    audit.close();
    assert!(log.text().contains("\"outcome\":\"CANCELLED\""));
}

#[test]
fn only_chosen_classes_have_lines_and_who_is_turned_away_always_has() {
    let log = Log::new();
    let audit = log.open();
    for (operation, outcome) in [("Get", "OK"), ("Exists", "DENIED"), ("Count", "TOO_LARGE")] {
        let entry = audit.begin(|| Event::of(Class::Read, operation)).unwrap();
        entry.ended(|| Ended::with(outcome));
    }
    let event = |outcome, operation| Event {
        outcome,
        ..Event::of(Class::Read, operation)
    };
    audit.record(event("UNAUTHENTICATED", "Retrieve"));
    audit.record(event("OK", "List"));
    audit.close();
    let text = log.text() + &log.denied_text();
    for (operation, is_there) in [
        ("Get", false),
        ("Exists", true),
        ("Count", false),
        ("Retrieve", true),
        ("List", false),
    ] {
        let word = format!("\"operation\":\"{operation}\"");
        assert_eq!(text.contains(&word), is_there, "{operation}");
    }
}

#[test]
fn hashed_names_are_found_only_by_who_knows_them() {
    let mut log = Log::new();
    log.settings.ids = Ids::Hash;
    log.write(2);
    let text = log.text();
    assert!(!text.contains("ann") && !text.contains("cart-"), "{text}");
    assert!(text.contains("\"carts\"") && text.contains("\"salt\":"));
    assert_eq!(log.verify().broken, None);
}

#[test]
fn under_a_key_only_who_has_it_can_check_the_chain() {
    let mut log = Log::new();
    let (key, other) = (log.dir.path().join("key"), log.dir.path().join("other"));
    for (path, byte) in [(&key, 1), (&other, 2)] {
        fs::write(path, [byte; 32]).unwrap();
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }
    log.settings.key_file = Some(key.clone());
    log.write(2);
    let check = |key: Option<&Path>| {
        let key = key.map(|path| AuditKey::read(path).unwrap());
        verify(&log.files(), key.as_ref(), None).unwrap().broken
    };
    assert_eq!(check(Some(&key)), None);
    assert_eq!(check(Some(&other)).map(|broken| broken.line), Some(1));
    assert_eq!(check(None).map(|broken| broken.line), Some(1));
}

#[test]
fn no_audit_log_records_nothing_and_refuses_nothing() {
    let audit = Audit::default();
    let entry = audit.begin(|| unreachable!("it is not recorded")).unwrap();
    entry.ended(|| unreachable!("it is not recorded"));
    audit.record(Event::of(Class::Admin, "TakeSnapshot"));
    audit.close();
    assert!(audit.counters().is_none());
}
