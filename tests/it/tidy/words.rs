//! Words that may stand in some places only.

use super::{Finding, source::Source};

/// What of a file a ban looks at.
#[derive(Clone, Copy)]
enum View {
    /// Code and tests.
    Code,
    /// Code that ships.
    Shipped,
}

/// A word, and the files that may use it.
struct Ban {
    word: &'static str,
    view: View,
    /// The ban holds below these paths...
    within: &'static [&'static str],
    /// ...but not below these.
    except: &'static [&'static str],
    reason: &'static str,
}

/// The node and what is linked into its binary.
const NODE: &[&str] = &["node/src/", "node/cli/", "node/command/", "node/demo/"];
const NODE_LIBRARY: &[&str] = &["node/src/"];
const EVERYWHERE: &[&str] = &[""];
const STAMP: &[&str] = &["node/src/stamp.rs"];
const STAMP_REASON: &str = "only stamp.rs reads the wall clock and entropy in the node";
const STATUS: &[&str] = &[
    "node/src/service/",
    "node/src/forward.rs",
    "node/src/identity/peer.rs",
    "node/src/read_index/rounds.rs",
    "node/src/raft/network.rs",
    "node/cli/",
    "node/command/",
];
/// A fault may take its time: a slow disk, a late packet.
const WAIT: &[&str] = &["tests/src/wait.rs", "tests/src/fault/", "tests/it/tidy/"];
/// A failpoint makes a node wait: that is what it is for.
const WAIT_OR_DELAY: &[&str] = &[
    "tests/src/wait.rs",
    "tests/src/fault/",
    "tests/it/tidy/",
    "node/src/failpoint/",
];
const RULES: &[&str] = &["tests/it/tidy/"];

/// Words that names and messages do without, too: pages and comments are looked at by `prose.rs`.
const GIVEN_UP: [&str; 4] = ["anew", "nobody", "stands", "whoever"];

const BANS: &[Ban] = &[
    ban(
        "openraft",
        NODE,
        &["node/src/raft/"],
        "only raft/ names openraft",
    ),
    ban(
        "rocksdb",
        NODE,
        &["node/src/storage/"],
        "only storage/ names rocksdb",
    ),
    ban(
        "tonic::Status",
        NODE,
        STATUS,
        "gRPC statuses are made and read in service/, forward.rs, rounds of ReadIndex, raft/network.rs and identity/peer.rs, and read by the command line",
    ),
    ban("anyhow", NODE_LIBRARY, &[], "only commands use anyhow"),
    ban("SystemTime", NODE, STAMP, STAMP_REASON),
    ban("getrandom", NODE, STAMP, STAMP_REASON),
    ban("Uuid::new_v4", NODE, STAMP, STAMP_REASON),
    ban("now_v7", NODE, STAMP, STAMP_REASON),
    ban(
        "openraft",
        &["client/", "proto/", "tests/"],
        &["tests/it/tidy/", "tests/benches/cluster/floor/"],
        "only the node's raft/ names openraft, and the benchmark of it alone",
    ),
    ban(
        "rocksdb",
        &["client/", "proto/", "tests/"],
        RULES,
        "only the node's storage/ names rocksdb",
    ),
    ban("todo!", EVERYWHERE, RULES, "nothing is left as a stub"),
    ban(
        "unimplemented!",
        EVERYWHERE,
        RULES,
        "nothing is left as a stub",
    ),
    ban("dbg!", EVERYWHERE, RULES, "a trace of debugging"),
    ban("#[ignore", EVERYWHERE, RULES, "a test runs or is deleted"),
    ban(
        "#[should_panic",
        EVERYWHERE,
        RULES,
        "assert on the error instead",
    ),
    Ban {
        view: View::Shipped,
        ..ban(
            ".unwrap()",
            EVERYWHERE,
            &[],
            "say with expect(\"...\") why it cannot happen",
        )
    },
    ban(
        "thread::sleep",
        EVERYWHERE,
        WAIT_OR_DELAY,
        "wait on a condition, as wait.rs does",
    ),
    ban(
        "time::sleep",
        &["tests/"],
        WAIT,
        "wait on a condition, as wait.rs does",
    ),
];

const fn ban(
    word: &'static str,
    within: &'static [&'static str],
    except: &'static [&'static str],
    reason: &'static str,
) -> Ban {
    Ban {
        word,
        view: View::Code,
        within,
        except,
        reason,
    }
}

/// Every banned word in the file, a missing head of documentation, and sleeping tests.
pub(super) fn check_source(source: &Source) -> Vec<Finding> {
    let below = |paths: &[&str]| paths.iter().any(|path| source.path.starts_with(path));
    let mut findings = Vec::new();
    for ban in BANS
        .iter()
        .filter(|ban| below(ban.within) && !below(ban.except))
    {
        let view = match ban.view {
            View::Code => &source.code,
            View::Shipped => &source.shipped,
        };
        let message = || format!("`{}`: {}", ban.word, ban.reason);
        findings.extend(find(view, ban.word).map(|offset| Finding::at(source, offset, message())));
    }
    findings.extend(sleeping_tests(source));
    if !below(RULES) {
        findings.extend(given_up(source));
    }
    if !["//!", "#![doc = include_str!"]
        .iter()
        .any(|head| source.text.starts_with(head))
    {
        findings.push(Finding::whole(
            &source.path,
            "begins without `//!`: say what the file is for",
        ));
    }
    findings
}

/// Words given up, wherever they are: alone, or as a part of a name in snake case.
fn given_up(source: &Source) -> Vec<Finding> {
    let text = source.text.to_ascii_lowercase();
    let is_letter = |at: Option<usize>| {
        let byte = at.and_then(|at| text.as_bytes().get(at));
        byte.is_some_and(u8::is_ascii_alphabetic)
    };
    let mut findings = Vec::new();
    for word in GIVEN_UP {
        for (offset, _) in text.match_indices(word) {
            if !is_letter(offset.checked_sub(1)) && !is_letter(Some(offset + word.len())) {
                let message = format!("`{word}`: say which one does or is it");
                findings.push(Finding::at(source, offset, message));
            }
        }
    }
    findings
}

/// Where a path, a word, or a piece of text is.
fn find<'a>(view: &'a str, word: &'a str) -> Box<dyn Iterator<Item = usize> + 'a> {
    match word.split_once("::") {
        Some((module, item)) => Box::new(find_item(view, module, item)),
        None if word.chars().all(|c| c.is_alphanumeric() || c == '_') => {
            Box::new(Source::find_words(view, word))
        }
        None => Box::new(view.match_indices(word).map(|(offset, _)| offset)),
    }
}

/// Where `module::item` or `module::{.., item, ..}` is.
fn find_item<'a>(
    view: &'a str,
    module: &'a str,
    item: &'a str,
) -> impl Iterator<Item = usize> + 'a {
    Source::find_words(view, module).filter(move |&offset| {
        let Some(rest) = view[offset + module.len()..].strip_prefix("::") else {
            return false;
        };
        if rest.starts_with('{') {
            let list = &rest[..super::source::closing_brace(rest, 0)];
            return Source::find_words(list, item).next().is_some();
        }
        Source::find_words(rest, item).next() == Some(0)
    })
}

/// Tests wait on conditions. A test on paused time does not wait at all, so it may sleep.
fn sleeping_tests(source: &Source) -> Vec<Finding> {
    if source.path.starts_with("tests/") || source.code.contains("start_paused") {
        return Vec::new();
    }
    let in_tests = |offset: &usize| source.shipped.as_bytes()[*offset] == b' ';
    let sleeps = Source::find_words(&source.code, "sleep").filter(in_tests);
    sleeps
        .map(|offset| Finding::at(source, offset, "a test sleeps: wait on a condition"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(path: &str, text: &str) -> usize {
        check_source(&Source::new(path, &format!("//! Head.\n{text}\n"))).len()
    }

    #[test]
    fn words_given_up_are_found_in_names_and_messages() {
        assert_eq!(
            findings("node/src/a.rs", "fn a_list_that_nobody_reads() {}"),
            1
        );
        assert_eq!(
            findings("client/src/a.rs", "const A: &str = \"Whoever calls\";"),
            1
        );
        assert_eq!(findings("node/src/a.rs", "fn understands() {}"), 0);
    }

    #[test]
    fn a_name_of_another_room_is_found() {
        assert_eq!(
            findings("node/src/service/handles.rs", "use openraft::Raft;"),
            1
        );
        assert_eq!(findings("node/src/raft/mod.rs", "use openraft::Raft;"), 0);
        assert_eq!(findings("node/src/raft/mod.rs", "use rocksdb::DB;"), 1);
        assert_eq!(
            findings("node/src/storage/state_db.rs", "use rocksdb::DB;"),
            0
        );
        assert_eq!(findings("node/src/node.rs", "// openraft decides that"), 0);
    }

    #[test]
    fn a_status_outside_its_three_places_is_found() {
        assert_eq!(
            findings("node/src/propose.rs", "fn a() -> tonic::Status {}"),
            1
        );
        assert_eq!(
            findings("node/src/propose.rs", "use tonic::{Request, Status};"),
            1
        );
        assert_eq!(
            findings("node/src/propose.rs", "use tonic::{Request, Response};"),
            0
        );
        assert_eq!(findings("node/src/forward.rs", "use tonic::Status;"), 0);
        assert_eq!(
            findings(
                "node/cli/src/status.rs",
                "use helve_proto::v1::StatusReply;"
            ),
            0
        );
    }

    #[test]
    fn a_clock_outside_the_stamp_is_found() {
        assert_eq!(
            findings("node/src/ticker.rs", "let now = SystemTime::now();"),
            1
        );
        assert_eq!(
            findings("node/src/ticker.rs", "let id = Uuid::now_v7();"),
            1
        );
        assert_eq!(
            findings("node/src/stamp.rs", "let now = SystemTime::now();"),
            0
        );
    }

    #[test]
    fn anyhow_outside_the_command_line_is_found() {
        assert_eq!(findings("node/src/node.rs", "use anyhow::Result;"), 1);
        assert_eq!(findings("node/cli/src/serve.rs", "use anyhow::Result;"), 0);
    }

    #[test]
    fn a_stub_is_found() {
        assert_eq!(findings("proto/src/lib.rs", "fn a() { todo!() }"), 1);
        assert_eq!(
            findings("client/src/lib.rs", "fn a() { unimplemented!() }"),
            1
        );
        assert_eq!(
            findings("client/src/lib.rs", "#[ignore = \"slow\"] fn a() {}"),
            1
        );
        assert_eq!(
            findings("client/src/lib.rs", "// todo!() is what we do not write"),
            0
        );
    }

    #[test]
    fn an_unwrap_outside_tests_is_found() {
        assert_eq!(findings("client/src/lib.rs", "fn a() { b.unwrap(); }"), 1);
        assert_eq!(
            findings(
                "client/src/lib.rs",
                "#[cfg(test)] mod tests { fn a() { b.unwrap(); } }"
            ),
            0
        );
        assert_eq!(findings("tests/it/restart.rs", "fn a() { b.unwrap(); }"), 0);
    }

    #[test]
    fn a_sleeping_test_is_found() {
        assert_eq!(
            findings("tests/it/restart.rs", "tokio::time::sleep(PAUSE).await;"),
            1
        );
        assert_eq!(
            findings("tests/it/restart.rs", "use std::{thread::sleep};"),
            1
        );
        assert_eq!(
            findings("tests/src/wait.rs", "tokio::time::sleep(PAUSE).await;"),
            0
        );
        assert_eq!(
            findings(
                "client/src/retry.rs",
                "#[cfg(test)] mod tests { fn a() { sleep(B) } }"
            ),
            1
        );
        assert_eq!(findings("client/src/retry.rs", "fn a() { sleep(B) }"), 0);
    }

    #[test]
    fn a_file_without_a_head_is_found() {
        assert_eq!(
            check_source(&Source::new("proto/src/lib.rs", "use bytes::Bytes;\n")).len(),
            1
        );
    }
}
