//! Files that are no audit log, or one that was changed.

use std::fs;

use super::{Head, chain::Seal, file::LogFile, verify::verify};

/// Opens and verifies a file. The first byte says what it holds: the rest as it is, or each of its
/// lines under a hash that holds.
///
/// # Panics
/// If more lines hold than there are, the line that breaks the chain is not there, or the file
/// changes when it is opened.
pub fn audit_file(bytes: &[u8]) {
    let Some((kind, rest)) = bytes.split_first() else {
        return;
    };
    let content = if kind % 2 == 0 {
        rest.to_vec()
    } else {
        sealed(rest)
    };
    let directory = tempfile::tempdir().expect("a place for files");
    let path = directory.path().join("audit.log");
    fs::write(&path, &content).expect("it is ours");
    let lines = content.split(|byte| *byte == b'\n').count() as u64;
    let files = [path.clone()];
    let report = verify(&files, None, None).expect("it can be read");
    let held: u64 = report.files.iter().map(|section| section.lines).sum();
    assert!(held <= lines);
    if let Some(broken) = &report.broken {
        assert!((1..=lines + 1).contains(&broken.line), "{broken:?}");
    }
    // What was noted of a whole log is found in it again.
    if report.broken.is_none() {
        let again = verify(&files, None, Some(report.head)).expect("it can be read");
        assert!(again.broken.is_none(), "{:?}", again.broken);
        assert_eq!(report.head.to_string().parse(), Ok(report.head));
    }
    if let Ok((_, found)) = LogFile::open(&path) {
        let is_whole = report.broken.is_none() && report.torn_bytes == 0;
        assert!(!is_whole || found.last == Some(report.head), "{found:?}");
    }
    assert_eq!(fs::read(&path).expect("it is there"), content);
    if let Ok(head) = String::from_utf8_lossy(rest).parse::<Head>() {
        assert_eq!(head.to_string().parse(), Ok(head));
    }
}

/// Each line of a text, without its closing brace, as the next one of a chain.
fn sealed(text: &[u8]) -> Vec<u8> {
    let (seal, mut head) = (Seal::Plain, Head::default());
    let mut content = Vec::new();
    for body in text.split(|byte| *byte == b'\n') {
        let mut line = body.to_vec();
        seal.end(&mut head, &mut line);
        content.extend(line);
    }
    content
}
