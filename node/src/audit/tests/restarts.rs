//! Restarts, kills, and files that are put aside.

use std::fs::{self, OpenOptions};

use super::*;

#[test]
fn the_chain_goes_on_over_restarts() {
    let log = Log::new();
    for _ in 0..3 {
        log.write(2);
    }
    let report = log.verify();
    assert_eq!(report.broken, None);
    let text = log.text();
    assert_eq!(text.matches("\"event\":\"opened\"").count(), 1);
    assert_eq!(text.matches("\"event\":\"resumed\"").count(), 2);
}

#[test]
fn a_line_that_a_kill_tore_stays_and_is_said() {
    for torn_bytes in [2, 20, 150] {
        let log = Log::new();
        log.write(3);
        let file = OpenOptions::new().write(true).open(log.path()).unwrap();
        let length = file.metadata().unwrap().len();
        file.set_len(length - torn_bytes).unwrap();
        // A kill leaves no head behind that is ahead of the file.
        fs::remove_file(log.data_dir().join("audit-head")).unwrap();
        let torn = log.verify();
        assert_eq!(torn.broken, None, "it may still be written");
        assert!(torn.torn_bytes > 0);
        log.write(2);
        let report = log.verify();
        assert_eq!((report.broken, report.torn_bytes), (None, 0));
        assert!(log.text().contains("\"torn\":{\"bytes\":"));
    }
}

#[test]
fn a_line_that_lacks_only_its_end_is_whole() {
    let log = Log::new();
    log.write(3);
    let content = fs::read(log.path()).unwrap();
    fs::write(log.path(), content.trim_ascii_end()).unwrap();
    let head = Some(log.kept());
    assert_eq!(verify(&log.files(), None, head).unwrap().broken, None);
    log.write(2);
    let report = verify(&log.files(), None, head).unwrap();
    assert_eq!((report.broken, report.torn_bytes), (None, 0));
}

#[test]
fn a_torn_line_that_was_changed_afterwards_shows() {
    let log = Log::new();
    log.write(3);
    let content = fs::read(log.path()).unwrap();
    fs::write(log.path(), &content[..content.len() - 50]).unwrap();
    fs::remove_file(log.data_dir().join("audit-head")).unwrap();
    log.write(1);
    let mut all = lines(&log.path());
    all[4][10] ^= 1;
    fs::write(log.path(), all.concat()).unwrap();
    assert_eq!(log.verify().broken.map(|broken| broken.line), Some(5));
}

#[test]
fn lines_that_were_cut_off_while_the_node_was_down_show_for_ever() {
    let log = Log::new();
    log.write(4);
    let all = lines(&log.path());
    fs::write(log.path(), all[..3].concat()).unwrap();
    log.write(1);
    let broken = log.verify().broken.unwrap();
    assert_eq!(broken.line, 4, "{broken:?}");
    assert!(broken.why.contains("missing"), "{broken:?}");
}

#[test]
fn files_are_put_aside_when_they_are_large_and_the_chain_goes_through_them() {
    let mut log = Log::new();
    log.settings.size_bytes = 1;
    for _ in 0..4 {
        log.write(1);
    }
    let files = log.files();
    assert!(files.len() > 3, "{files:?}");
    let report = log.verify();
    assert_eq!(report.broken, None);
    assert_eq!(report.head, log.kept());
    let mut without = files.clone();
    let gone = without.remove(1);
    let report = verify(&without, None, None).unwrap();
    let broken = report.broken.unwrap();
    assert_eq!((&broken.file, broken.line), (&without[1], 1), "{gone:?}");
}

#[test]
fn the_file_and_those_that_were_put_aside_are_for_their_owner_alone() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut log = Log::new();
    log.settings.size_bytes = 1;
    log.write(2);
    let files = log.files();
    assert!(files.len() > 1, "{files:?}");
    for file in files {
        let mode = fs::metadata(&file).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", file.display());
    }
}

#[test]
fn other_users_lose_their_rights_to_files_that_exist() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut log = Log::new();
    log.settings.size_bytes = 1;
    log.write(2);
    let mut files = log.files();
    assert!(files.len() > 1, "{files:?}");
    files.push(log.denied_path());
    files.extend(["audit-head", "audit-denied-head"].map(|name| log.data_dir().join(name)));
    for file in &files {
        fs::set_permissions(file, fs::Permissions::from_mode(0o664)).unwrap();
    }
    log.write(1);
    for file in &files {
        let mode = fs::metadata(file).unwrap().permissions().mode();
        // In the place of one that was put aside meanwhile there is a new one.
        let is_closed = matches!(mode & 0o777, 0o660 | 0o600);
        assert!(is_closed, "{}: {mode:o}", file.display());
    }
    let aside = fs::metadata(&files[0]).unwrap().permissions().mode();
    assert_eq!(aside & 0o777, 0o660, "the group ships it");
    assert_eq!(log.verify().broken, None);
}

#[test]
fn no_more_files_are_kept_than_asked_for_and_the_log_says_which_went() {
    let mut log = Log::new();
    (log.settings.size_bytes, log.settings.keep) = (1, 2);
    for _ in 0..5 {
        log.write(1);
    }
    let files = log.files();
    assert_eq!(files.len(), 3, "{files:?}");
    let report = log.verify();
    assert_eq!(report.broken, None);
    assert!(report.files[0].first_seq > Some(1));
    let kept = files.iter().map(|file| fs::read_to_string(file).unwrap());
    let removed = kept.filter(|text| text.contains("\"event\":\"removed\""));
    assert!(removed.count() > 0);
}

#[test]
fn a_file_that_was_moved_away_is_followed_by_a_new_one() {
    let log = Log::new();
    let audit = log.open();
    put(&audit, "before");
    let aside = log.dir.path().join("log/moved");
    until("the first line", || log.text().contains("before"));
    fs::rename(log.path(), &aside).unwrap();
    put(&audit, "after");
    until("a new file", || log.path().exists());
    audit.close();
    let report = verify(&[log.path(), aside], None, Some(log.kept())).unwrap();
    assert_eq!(report.broken, None);
}

#[test]
fn another_way_of_hashing_begins_another_file() {
    let mut log = Log::new();
    log.write(1);
    let key = log.dir.path().join("key");
    fs::write(&key, [7; 32]).unwrap();
    use std::os::unix::fs::PermissionsExt as _;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    log.settings.key_file = Some(key.clone());
    log.write(1);
    let files = log.files();
    assert_eq!(files.len(), 2);
    assert_eq!(verify(&files[..1], None, None).unwrap().broken, None);
    let key = AuditKey::read(&key).unwrap();
    let keyed = verify(&files[1..], Some(&key), Some(log.kept())).unwrap();
    assert_eq!(keyed.broken, None);
}
