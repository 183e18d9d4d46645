//! Whether the lines of an audit log are all there, as they were written, in their order.

use std::{
    fs::File,
    io::{self, BufRead as _, BufReader},
    path::{Path, PathBuf},
};

use serde::{Serialize, Serializer};

use super::{
    chain::{Head, Seal, SealedLine},
    file,
    key::AuditKey,
    record::{self, FORMAT, Facts, Torn},
};

/// What the files of one log hold.
#[derive(Debug, Default, Serialize)]
pub struct Report {
    /// Each file, in the order of the chain.
    pub files: Vec<Section>,
    /// The last line: note it, and a log that ends before it was cut.
    #[serde(serialize_with = "as_text")]
    pub head: Head,
    /// The last line of the chain of calls that were turned away, if files of both chains were given.
    #[serde(
        serialize_with = "as_text_if_there",
        skip_serializing_if = "Option::is_none"
    )]
    pub denied_head: Option<Head>,
    /// Calls that the log itself says have no line.
    pub lost_calls: u64,
    /// Bytes behind the last whole line: a node is writing it, or was killed in the middle and has not started again.
    pub torn_bytes: u64,
    /// The first line that does not follow from the one before it; absent if all do.
    pub broken: Option<Broken>,
}

/// One file.
#[derive(Debug, Default, Serialize)]
pub struct Section {
    /// Its name.
    pub file: PathBuf,
    /// The number of its first line; absent if that is no line of an audit log.
    pub first_seq: Option<u64>,
    /// How many of its lines hold.
    pub lines: u64,
}

/// Where a log is not what was written.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub struct Broken {
    /// The file.
    pub file: PathBuf,
    /// The line of that file, from 1.
    pub line: u64,
    /// What is wrong with it.
    pub why: String,
}

const NOT_OURS: &str = "it is no line of an audit log";

fn as_text<S: Serializer>(head: &Head, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(head)
}

fn as_text_if_there<S: Serializer>(head: &Option<Head>, serializer: S) -> Result<S::Ok, S::Error> {
    match head {
        Some(head) => serializer.collect_str(head),
        None => serializer.serialize_none(),
    }
}

/// Follows the chain of calls, and that of calls that were turned away. A noted head is of the first of them that has files.
///
/// # Errors
/// If a file cannot be read.
pub fn verify(
    files: &[PathBuf],
    key: Option<&AuditKey>,
    noted: Option<Head>,
) -> io::Result<Report> {
    let (mut calls, mut denied) = (Vec::new(), Vec::new());
    for file in files {
        let first = first_line(file)?;
        let log = first.as_ref().and_then(|facts| facts.log.as_deref());
        match log {
            Some(record::DENIED) => denied.push(file.clone()),
            _ => calls.push(file.clone()),
        }
    }
    if calls.is_empty() {
        return verify_chain(&denied, key, noted);
    }
    let mut report = verify_chain(&calls, key, noted)?;
    if !denied.is_empty() {
        let other = verify_chain(&denied, key, None)?;
        report.files.extend(other.files);
        report.lost_calls += other.lost_calls;
        report.torn_bytes += other.torn_bytes;
        report.denied_head = Some(other.head);
        report.broken = report.broken.or(other.broken);
    }
    Ok(report)
}

/// Follows the chain through the files, given in any order, up to the first line that does not hold; and, if a head was noted, that it
/// is there.
///
/// # Errors
/// If a file cannot be read.
fn verify_chain(
    files: &[PathBuf],
    key: Option<&AuditKey>,
    noted: Option<Head>,
) -> io::Result<Report> {
    let mut walk = Walk {
        seal: Seal::new(key),
        noted,
        last: None,
        has_noted: noted.is_none_or(|noted| noted.seq == 0),
        is_opening: true,
        pending: None,
        report: Report::default(),
    };
    for (_, file, first_seq) in in_order(files)? {
        walk.report.files.push(Section {
            file: file.clone(),
            first_seq,
            lines: 0,
        });
        let (line, why) = match walk.file(&file)? {
            Ok(()) => continue,
            Err(broken) => broken,
        };
        walk.report.broken = Some(Broken { file, line, why });
        break;
    }
    Ok(walk.end())
}

/// The files by the number of their first line. One that begins with none of ours comes last, and is where the chain breaks.
fn in_order(files: &[PathBuf]) -> io::Result<Vec<(u64, PathBuf, Option<u64>)>> {
    let mut all = Vec::new();
    for file in files {
        let seq = first_line(file)?.map(|facts| facts.seq);
        all.push((seq.unwrap_or(u64::MAX), file.clone(), seq));
    }
    all.sort();
    Ok(all)
}

/// What the first line of a file says; `None` if it is none of ours.
fn first_line(file: &Path) -> io::Result<Option<Facts>> {
    let mut line = Vec::new();
    let read = BufReader::new(open(file)?).read_until(b'\n', &mut line);
    read.map_err(|error| named(file, &error))?;
    Ok(Facts::of(line.trim_ascii_end()))
}

fn open(file: &Path) -> io::Result<File> {
    File::open(file).map_err(|error| named(file, &error))
}

/// An error that names its file.
fn named(file: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", file.display()))
}

/// How far the chain was followed.
struct Walk {
    seal: Seal,
    noted: Option<Head>,
    has_noted: bool,
    /// The last line that holds; `None` before the first.
    last: Option<Head>,
    /// The first line of a file comes next.
    is_opening: bool,
    /// A line that was never finished, until the line behind it says so.
    pending: Option<(u64, Torn)>,
    report: Report,
}

impl Walk {
    /// Follows one file. Inside: the line that does not hold, and why.
    fn file(&mut self, path: &Path) -> io::Result<Result<(), (u64, String)>> {
        self.is_opening = true;
        let mut reader = BufReader::new(open(path)?);
        let (mut number, mut line) = (0, Vec::new());
        loop {
            line.clear();
            let read = reader.read_until(b'\n', &mut line);
            read.map_err(|error| named(path, &error))?;
            number += 1;
            let whole: &[u8] = match line.strip_suffix(b"\n") {
                Some(whole) => whole,
                // Of a whole line nothing but its end may be missing.
                None if SealedLine::of(&line).is_some() => &line,
                None => break,
            };
            if let Err(why) = self.line(number, whole) {
                let at = self.pending.as_ref().map_or(number, |(at, _)| *at);
                return Ok(Err((at, why)));
            }
        }
        if !line.is_empty() {
            self.pending = Some((number, file::torn(&line)));
        }
        Ok(Ok(()))
    }

    fn line(&mut self, number: u64, line: &[u8]) -> Result<(), String> {
        let (Some(sealed), Some(facts)) = (SealedLine::of(line), Facts::of(line)) else {
            if self.pending.is_some() {
                return Err(NOT_OURS.into());
            }
            self.pending = Some((number, file::torn(line)));
            return Ok(());
        };
        if let Some((_, torn)) = &self.pending
            && facts.torn.as_ref() != Some(torn)
        {
            return Err("it was changed, and nothing says that it was never finished".into());
        }
        if self.is_opening {
            self.check_opening(&facts)?;
        }
        let before = self.before(&facts);
        if facts.seq != before.seq + 1 {
            return Err(format!(
                "its number is {}, and {} must come here: lines are missing or moved",
                facts.seq,
                before.seq + 1
            ));
        }
        if !self.seal.holds(&before.hash, &sealed) {
            return Err(
                "its hash does not hold: it was changed, or the line before it was changed or removed".into(),
            );
        }
        (self.pending, self.is_opening) = (None, false);
        self.hold(
            Head {
                seq: facts.seq,
                hash: sealed.hash,
            },
            &facts,
        )
    }

    fn check_opening(&self, facts: &Facts) -> Result<(), String> {
        if facts.event != "opened" {
            return Err("no file begins so: its first lines are missing".into());
        }
        if facts.format.is_none_or(|format| format > FORMAT) {
            return Err("a newer version of helve wrote it: verify it with that version".into());
        }
        let (seal, ours) = (facts.seal.as_deref().unwrap_or_default(), self.seal.name());
        if seal != ours {
            return Err(format!(
                "the file is hashed by {seal}, and not by {ours}: give --audit-key-file if it was written with one, and only then"
            ));
        }
        Ok(())
    }

    /// What a line must follow: the line before it, or what the first line of all claims to follow.
    fn before(&self, facts: &Facts) -> Head {
        self.last.unwrap_or_else(|| {
            let claimed = format!(
                "{}:{}",
                facts.seq.saturating_sub(1),
                facts.prev.as_deref().unwrap_or_default()
            );
            claimed.parse().unwrap_or_default()
        })
    }

    fn hold(&mut self, head: Head, facts: &Facts) -> Result<(), String> {
        if let Some(noted) = self.noted.filter(|noted| noted.seq == head.seq) {
            if noted.hash != head.hash {
                return Err(
                    "it is not the line whose head was noted: the log was made again".into(),
                );
            }
            self.has_noted = true;
        }
        self.last = Some(head);
        self.report.lost_calls += facts.calls.unwrap_or(0);
        if let Some(section) = self.report.files.last_mut() {
            section.lines += 1;
        }
        Ok(())
    }

    fn end(self) -> Report {
        let mut report = self.report;
        report.head = self.last.unwrap_or_default();
        report.torn_bytes = self.pending.map_or(0, |(_, torn)| torn.bytes);
        let missing = match self.noted.filter(|_| !self.has_noted) {
            Some(Head { seq, .. }) => Some(format!(
                "line {seq} was written, and is not here: the log was cut off (the last line is {})",
                report.head.seq
            )),
            None => self.last.is_none().then(|| NOT_OURS.to_owned()),
        };
        if let (None, Some(why), Some(last)) = (&report.broken, missing, report.files.last()) {
            report.broken = Some(Broken {
                file: last.file.clone(),
                line: last.lines + 1,
                why,
            });
        }
        report
    }
}
