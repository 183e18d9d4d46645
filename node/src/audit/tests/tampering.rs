//! What somebody does to the files who may write them.

use std::fs;

use super::*;

/// The files' lines changed so, and what is then found.
fn after(log: &Log, change: impl FnOnce(&mut Vec<Vec<u8>>), noted: Option<Head>) -> Report {
    let mut all = lines(&log.path());
    change(&mut all);
    let changed = log.dir.path().join("changed");
    fs::write(&changed, all.concat()).unwrap();
    verify(&[changed], None, noted).unwrap()
}

fn broken_at(report: &Report) -> Option<u64> {
    report.broken.as_ref().map(|broken| broken.line)
}

#[test]
fn a_removed_or_moved_line_shows_where_it_was() {
    let log = Log::new();
    log.write(4);
    let count = lines(&log.path()).len();
    for at in 0..count - 1 {
        let line = at as u64 + 1;
        let removed = after(&log, |lines| drop(lines.remove(at)), None);
        assert_eq!(broken_at(&removed), Some(line), "{:?}", removed.broken);
        let moved = after(&log, |lines| lines.swap(at, at + 1), None);
        assert_eq!(broken_at(&moved), Some(line), "{:?}", moved.broken);
        let doubled = after(&log, |lines| lines.insert(at, lines[at].clone()), None);
        assert_eq!(broken_at(&doubled), Some(line + 1), "{:?}", doubled.broken);
    }
}

#[test]
fn lines_that_are_cut_off_at_the_end_show_against_the_head() {
    let log = Log::new();
    log.write(4);
    let count = lines(&log.path()).len();
    for left in 1..count {
        let cut = |lines: &mut Vec<Vec<u8>>| lines.truncate(left);
        assert_eq!(
            broken_at(&after(&log, cut, None)),
            None,
            "nothing was noted"
        );
        let noted = after(&log, cut, Some(log.kept()));
        assert_eq!(broken_at(&noted), Some(left as u64 + 1));
    }
    let whole = after(&log, |_| {}, Some(log.kept()));
    assert_eq!(broken_at(&whole), None);
}

#[test]
fn remade_chain_shows_against_the_head() {
    let (log, other) = (Log::new(), Log::new());
    log.write(4);
    other.write(4);
    let report = verify(&other.files(), None, Some(log.kept())).unwrap();
    assert_eq!(broken_at(&report), Some(log.kept().seq));
}

#[test]
fn each_changed_bit_shows() {
    let log = Log::new();
    log.write(2);
    let (content, head) = (fs::read(log.path()).unwrap(), log.kept());
    let changed = log.dir.path().join("changed");
    for at in 0..content.len() {
        let mut content = content.clone();
        content[at] ^= 1;
        fs::write(&changed, &content).unwrap();
        let files = [changed.clone()];
        let report = verify(&files, None, Some(head)).unwrap();
        assert!(report.broken.is_some(), "byte {at} was changed");
    }
}

#[test]
fn what_is_no_audit_log_is_not_whole() {
    let log = Log::new();
    for content in ["", "{}", "{}\n", "a\nb\n", "{\"seq\":1}\n", "\0\0\0\n\0"] {
        fs::write(log.path(), content).unwrap();
        assert!(log.verify().broken.is_some(), "{content:?}");
    }
    assert!(verify(&[log.dir.path().join("none")], None, None).is_err());
}
