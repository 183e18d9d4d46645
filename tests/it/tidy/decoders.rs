//! Every decoder of what a client or a peer sends has a property test: ten thousand cases in `make test`, a million in `make fuzz`.

mod backups;
mod elsewhere;
mod fuzzed;
mod list;
mod shown;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;

use self::{
    backups::IN_BACKUPS,
    elsewhere::ELSEWHERE,
    fuzzed::{TARGETS, UNFUZZED},
    list::{DECODERS, STATE_CODEC},
    shown::{Decoder, Shown},
};
use super::{
    Finding,
    source::{Source, closing_brace},
};

/// Code that takes bytes or text from the network: from MCP clients, bearers of sealed states, callers of a node, nodes, peers, and
/// the places where backups are kept. Not the clients in Python and TypeScript, whose tests have `made_up` in their names.
const ROOMS: [&str; 17] = [
    "client/mcp/src/",
    "client/src/cluster/address.rs",
    "client/src/cluster/details.rs",
    "client/src/cluster/exchange",
    "client/src/cluster/greeted.rs",
    "client/src/cluster/line_error.rs",
    "client/src/cluster/proxy_words.rs",
    "client/request-state/src/state_codec",
    "client/src/cluster/verdict.rs",
    "node/src/backup",
    "node/src/connections",
    "node/src/forward.rs",
    "node/src/identity/acknowledged",
    "node/src/raft/codec",
    "node/src/service/",
    "node/src/tls/certificate.rs",
    "node/src/traces",
];

/// How functions are called that make our types of the contract's messages.
const CONVERTING: &str = "_from_proto";

/// Calls that make sense of bytes or text.
const DECODING: [&str; 8] = [
    "decode",
    "from_base64",
    "from_reader",
    "from_slice",
    "from_str",
    "from_utf8",
    "from_value",
    "parse",
];

/// Calls that run a property: by hand, by the runner, and by the codec's tests, which do that for each of their messages.
const RUNNING: [&str; 3] = ["TestRunner::new", "check(&", "holds("];

/// Where fuzz targets and their seeds are.
const TARGETS_DIR: &str = "tests/fuzz/fuzz_targets/";
const SEEDS_DIR: &str = "tests/fuzz/seeds/";

/// What runs the properties of the client, the MCP servers and the node.
const RUNNER: &str = "client/src/properties.rs";

/// All that are listed.
fn decoders() -> impl Iterator<Item = &'static Decoder> {
    DECODERS.iter().chain(IN_BACKUPS)
}

/// Decoders that are not listed, and listed ones that are gone.
pub(super) fn check_sources(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    let in_room = |source: &&Source| ROOMS.iter().any(|room| source.path.starts_with(room));
    for source in sources.iter().filter(in_room) {
        for (offset, function) in decoding(source) {
            let listed = decoders()
                .position(|decoder| decoder.file == source.path && decoder.function == function);
            match listed {
                Some(at) => seen.push(at),
                None => findings.push(Finding::at(
                    source,
                    offset,
                    format!("fn {function} decodes, and is not listed in tests/it/tidy/decoders/list.rs with its property test"),
                )),
            }
        }
    }
    for (at, decoder) in decoders().enumerate() {
        if !seen.contains(&at) {
            let message = format!(
                "fn {} is listed as a decoder, and decodes nothing",
                decoder.function
            );
            findings.push(Finding::whole(decoder.file, message));
        }
    }
    findings
}

/// Property tests that are missing, too small, or not in `make fuzz`.
pub(super) fn check_tests(read: impl Fn(&str) -> String) -> Vec<Finding> {
    let listed = decoders().filter_map(|decoder| match decoder.shown {
        Shown::By(file, test) => Some((file, test)),
        Shown::NoClient(why) => {
            assert!(!why.is_empty());
            None
        }
    });
    let makefile = read("Makefile");
    let fuzz = makefile.split("\nfuzz:").nth(1).unwrap_or_default();
    let fuzz = fuzz.split("\n\n").next().unwrap_or_default();
    let mut findings = Vec::new();
    for (file, test) in listed.chain(ELSEWHERE.iter().copied()) {
        let text = read(file);
        let mut missing =
            |what: &str| findings.push(Finding::whole(file, format!("{test}: {what}")));
        if !is_property(&text, test) {
            missing("there is no such property test");
        }
        let runner = if text.contains("properties::") {
            read(RUNNER)
        } else {
            text
        };
        if !runner.contains("HELVE_CASES") || !runner.contains("10_000") {
            missing("it must run ten thousand cases, or as many as HELVE_CASES says");
        }
        let filters = fuzz.split_whitespace();
        let module = if file == STATE_CODEC {
            "state_codec::tests::"
        } else {
            ""
        };
        let full = format!("{module}{test}");
        if !filters
            .clone()
            .any(|filter| filter.len() > 8 && full.contains(filter))
        {
            missing("`make fuzz` does not run it");
        }
    }
    findings
}

/// Decoders that no fuzz target reaches, and targets that are not there, have no seed or are not
/// listed.
pub(super) fn check_targets(paths: &[String], manifest: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let shown = decoders().filter(|decoder| matches!(decoder.shown, Shown::By(..)));
    let files: BTreeSet<&str> = shown.map(|decoder| decoder.file).collect();
    let elsewhere = ELSEWHERE.iter().map(|(file, _)| *file);
    let files: BTreeSet<&str> = elsewhere.chain(files).collect();
    for file in &files {
        let is_reached = TARGETS.iter().any(|target| target.reaches.contains(file));
        let is_excused = UNFUZZED.iter().any(|(excused, _)| excused == file);
        if is_reached == is_excused {
            let what = "it decodes, and has no fuzz target, or one and an excuse, in tests/it/tidy/decoders/fuzzed.rs";
            findings.push(Finding::whole(file, what));
        }
    }
    for target in TARGETS {
        let source = format!("{TARGETS_DIR}{}.rs", target.name);
        let seeds = format!("{SEEDS_DIR}{}/", target.name);
        let mut missing = |what: &str| findings.push(Finding::whole(&source, what));
        if !paths.contains(&source) || !manifest.contains(&format!("name = \"{}\"", target.name)) {
            missing("there is no such fuzz target");
        }
        if !paths.iter().any(|path| path.starts_with(&seeds)) {
            missing("it has no seed");
        }
        for file in target.reaches.iter().filter(|file| !files.contains(*file)) {
            missing(&format!("{file} has no decoder with a property test"));
        }
    }
    let sources = paths
        .iter()
        .filter_map(|path| path.strip_prefix(TARGETS_DIR));
    for name in sources.filter_map(|name| name.strip_suffix(".rs")) {
        if TARGETS.iter().all(|target| target.name != name) {
            let what = "it is not listed in tests/it/tidy/decoders/fuzzed.rs";
            findings.push(Finding::whole(&format!("{TARGETS_DIR}{name}.rs"), what));
        }
    }
    findings
}

/// Whether it is a test whose body, or whose surroundings, are those of a property.
fn is_property(text: &str, test: &str) -> bool {
    let Some(at) = text.find(&format!("fn {test}(")) else {
        return false;
    };
    let is_test = text[..at].trim_end().ends_with("#[test]");
    let body = text[at..]
        .find('{')
        .map_or("", |open| &text[at + open..closing_brace(text, at + open)]);
    let runs = RUNNING.iter().any(|call| body.contains(call));
    let macro_before = text[..at].rfind("proptest! {").is_some();
    is_test && (runs || macro_before)
}

/// Where a function of this file decodes, and the function's name.
fn decoding(source: &Source) -> Vec<(usize, String)> {
    let code = &source.shipped;
    let mut found = Vec::new();
    for word in DECODING {
        for offset in Source::find_words(code, word) {
            let behind = code[offset + word.len()..].trim_start();
            let is_call = behind.starts_with('(') || behind.starts_with("::<");
            let before = code[..offset].trim_end();
            let is_path = before.ends_with('.') || before.ends_with("::") || word == "from_base64";
            let is_definition = before.ends_with("fn");
            if is_call && is_path && !is_definition {
                found.push((offset, enclosing(code, offset)));
            }
        }
    }
    for offset in Source::find_words(code, "fn") {
        let head = code[offset..].split('{').next().unwrap_or_default();
        let name = name_behind(code, offset);
        if name.ends_with(CONVERTING) && head.contains("Result<") {
            found.push((offset, name));
        }
    }
    found
}

/// The name of the last function that begins before `offset`.
fn enclosing(code: &str, offset: usize) -> String {
    let last = Source::find_words(&code[..offset], "fn").last();
    last.map_or_else(String::new, |at| name_behind(code, at))
}

/// The name of the function whose `fn` is at `offset`.
fn name_behind(code: &str, offset: usize) -> String {
    let name = code[offset + 2..].trim_start().chars();
    name.take_while(|&c| c.is_alphanumeric() || c == '_')
        .collect()
}
