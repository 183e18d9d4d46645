//! Where the log cannot be opened, or cannot be written any more.

use std::{fs, os::unix::fs::PermissionsExt as _};

use super::*;
use crate::audit::OpenError;

fn refusal(log: &Log) -> OpenError {
    Audit::open(&log.settings, &log.data_dir(), "node-1").unwrap_err()
}

#[test]
fn a_place_that_others_may_write_or_that_is_none_is_refused_by_the_name_of_its_flag() {
    let mut log = Log::new();
    let dir = log.dir.path().join("log");
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o777)).unwrap();
    let exposed = refusal(&log);
    assert!(matches!(exposed, OpenError::Exposed { .. }), "{exposed}");
    assert!(exposed.to_string().contains("--audit-log"));
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o700)).unwrap();
    for missing in ["none/audit", "log"] {
        log.settings.destination = Destination::File(log.dir.path().join(missing));
        let error = refusal(&log);
        assert!(matches!(error, OpenError::File { .. }), "{error}");
        assert!(error.to_string().contains("--audit-log"));
    }
    log.settings.key_file = Some(log.dir.path().join("none"));
    assert!(refusal(&log).to_string().contains("--audit-key-file"));
}

#[test]
fn a_file_that_others_may_write_is_refused_and_stays_as_it_is() {
    let log = Log::new();
    log.write(1);
    let open = fs::Permissions::from_mode(0o666);
    fs::set_permissions(log.path(), open).unwrap();
    let exposed = refusal(&log);
    assert!(matches!(exposed, OpenError::Exposed { .. }), "{exposed}");
    let mode = fs::metadata(log.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o666);
}

#[test]
fn a_file_of_something_else_or_of_another_node_is_not_touched() {
    let log = Log::new();
    fs::write(log.path(), "root:x:0:0\n").unwrap();
    fs::set_permissions(log.path(), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(matches!(refusal(&log), OpenError::File { .. }));
    assert_eq!(log.text(), "root:x:0:0\n");
    let mode = fs::metadata(log.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o644);
    fs::remove_file(log.path()).unwrap();
    let audit = log.open();
    assert!(matches!(refusal(&log), OpenError::InUse(_)));
    audit.close();
}

/// Makes the log fail: the file is gone, and so is the directory in which another could be made.
fn fail(log: &Log, audit: &Audit) {
    fs::remove_dir_all(log.dir.path().join("log")).unwrap();
    // That a file is gone shows when it is synced.
    put(audit, "into nothing");
    let counters = audit.counters().unwrap();
    until("a failure", || counters.failures.get() > 0);
}

#[test]
fn calls_are_refused_while_no_line_can_be_written_and_served_again_afterwards() {
    let log = Log::new();
    let audit = log.open();
    put(&audit, "before");
    fail(&log, &audit);
    assert!(audit.begin(|| write_of("refused")).is_err());
    let reads = audit.begin(|| Event::of(Class::Read, "Get")).unwrap();
    reads.ended(|| Ended::with("OK"));
    fs::create_dir(log.dir.path().join("log")).unwrap();
    until("to recover", || audit.begin(|| write_of("again")).is_ok());
    put(&audit, "after");
    audit.close();
    let report = verify(&[log.path()], None, Some(log.kept())).unwrap();
    assert_eq!(report.broken, None);
    assert!(log.text().contains("after"));
}

#[test]
fn calls_without_a_line_are_counted_in_the_log_where_the_operator_goes_on() {
    let mut log = Log::new();
    log.settings.on_failure = OnFailure::Warn;
    let audit = log.open();
    fail(&log, &audit);
    let lost = audit.counters().unwrap().lost.get();
    put(&audit, "without a line");
    assert_eq!(audit.counters().unwrap().lost.get(), lost + 1);
    fs::create_dir(log.dir.path().join("log")).unwrap();
    until("to recover", || {
        fs::read_to_string(log.path()).is_ok_and(|text| text.contains("\"event\":\"lost\""))
    });
    audit.close();
    assert_eq!(log.verify().lost_calls, lost + 1);
}
