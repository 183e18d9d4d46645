//! Callers who try to write the log full, or to write others' lines away.

use super::*;
use crate::limits::{AUDIT_DENIED_LINES_MAX, AUDIT_QUEUE_BYTES_MAX};

fn of(tenant: &str, id: &str) -> Event {
    Event {
        tenant: tenant.into(),
        ..write_of(id)
    }
}

fn record(audit: &Audit, tenant: &str, id: &str) {
    let entry = audit.begin(|| of(tenant, id)).unwrap();
    entry.ended(|| Ended::with("OK"));
}

fn denied(port: u16) -> Event {
    Event {
        peer: Some(([10, 0, 0, 1], port).into()),
        outcome: "UNAUTHENTICATED",
        ..Event::of(Class::Admin, "/helve.v1.HandleService/Delete")
    }
}

/// The sum of the counts that a text states.
fn counted(text: &str) -> u64 {
    let lines = text.lines().map(serde_json::from_str::<serde_json::Value>);
    let counts = lines.map(|line| line.unwrap()["count"].as_u64().unwrap_or(0));
    counts.sum()
}

#[test]
fn one_tenant_in_the_queue_leaves_room_for_the_others() {
    let log = Log::new();
    let audit = log.open();
    // A tenant's calls that go on keep their room.
    let large = "\u{1}".repeat(1_000);
    let mut held = Vec::new();
    while let Ok(entry) = audit.begin(|| of("mallory", &large)) {
        held.push(entry);
    }
    assert!(
        held.len() > AUDIT_QUEUE_BYTES_MAX / 16_384,
        "{}",
        held.len()
    );
    record(&audit, "ann", "served");
    audit.record(denied(1));
    assert_eq!(audit.counters().unwrap().lost.get(), 0);
    drop(held);
    audit.close();
    assert!(log.text().contains("\"served\""));
}

#[test]
fn calls_turned_away_go_to_a_file_of_their_own_and_are_counted() {
    let log = Log::new();
    let audit = log.open();
    record(&audit, "ann", "before");
    for port in 0..10_000 {
        audit.record(denied(port));
    }
    audit.close();
    assert!(!log.text().contains("UNAUTHENTICATED"));
    let text = log.denied_text();
    let own = text.matches("\"event\":\"call\"").count() as u64;
    assert_eq!(own, AUDIT_DENIED_LINES_MAX);
    assert_eq!(counted(&text), 10_000 - AUDIT_DENIED_LINES_MAX);
    assert!(text.len() < 16 << 10, "{} bytes", text.len());
    let report = verify(&[log.path(), log.denied_path()], None, Some(log.kept())).unwrap();
    assert_eq!(report.broken, None);
    let kept = fs::read_to_string(log.data_dir().join("audit-denied-head")).unwrap();
    assert_eq!(report.denied_head, kept.trim().parse().ok());
    // A line that is removed from it shows.
    let mut all = lines(&log.denied_path());
    all.remove(3);
    fs::write(log.denied_path(), all.concat()).unwrap();
    let broken = verify(&[log.denied_path(), log.path()], None, Some(log.kept())).unwrap();
    let broken = broken.broken.unwrap();
    assert_eq!((broken.file, broken.line), (log.denied_path(), 4));
}

#[test]
fn files_of_calls_turned_away_are_as_large_and_many_as_asked_for() {
    let put_aside = |size_bytes, keep| {
        let mut log = Log::new();
        log.settings.denied_size_bytes = size_bytes;
        log.settings.denied_keep = keep;
        for port in 0..3 {
            let audit = log.open();
            audit.record(denied(port));
            audit.close();
        }
        assert_eq!(log.files(), [log.path()], "the other log has its own size");
        file::put_aside(&log.denied_path()).unwrap().len()
    };
    assert_eq!(put_aside(16 << 20, 16), 0);
    assert!(put_aside(256, 16) > 1);
    assert_eq!(put_aside(256, 1), 1);
}

#[test]
fn the_chain_of_calls_turned_away_goes_on_over_restarts() {
    let log = Log::new();
    for port in 0..3 {
        let audit = log.open();
        audit.record(denied(port));
        audit.close();
    }
    let report = verify(&[log.denied_path()], None, None).unwrap();
    assert_eq!((report.broken, report.files[0].lines), (None, 3 * 3));
}

/// Without the time that lines are kept for, a flood removes the files with others' lines: that is the attack.
#[test]
fn a_tenant_that_floods_writes_no_other_tenants_history_away() {
    for (keep_for, is_kept) in [(Duration::ZERO, false), (Duration::from_hours(1), true)] {
        let mut log = Log::new();
        log.settings.size_bytes = 4 << 10;
        log.settings.keep = 2;
        log.settings.keep_for = keep_for;
        let audit = log.open();
        record(&audit, "ann", "an honest call");
        let room = audit.0.as_ref().unwrap().health.room();
        for call in 0..2_000 {
            record(&audit, "mallory", "m");
            if call % 20 == 0 {
                // So that files are put aside one after the other.
                audit.look().unwrap();
                until("what is on its way", || room.taken() == 0);
            }
        }
        record(&audit, "bob", "another honest call");
        audit.close();
        let all: String = log
            .files()
            .iter()
            .map(|file| fs::read_to_string(file).unwrap())
            .collect();
        assert_eq!(all.contains("\"an honest call\""), is_kept, "{keep_for:?}");
        assert!(all.contains("\"another honest call\""));
        assert_eq!(log.verify().broken, None);
        let own = all.matches("\"id\":\"m\"").count() as u64;
        assert_eq!(own + counted(&all), if is_kept { 2_000 } else { own });
        if is_kept {
            assert!(all.len() < 3 * (4 << 10) + (4 << 10), "{} bytes", all.len());
        }
    }
}
