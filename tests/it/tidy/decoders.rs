//! Every decoder of what a client sends has a property test: ten thousand cases in `make test`, a million in `make fuzz`.

#[cfg(test)]
mod tests;

use super::{
    Finding,
    source::{Source, closing_brace},
};

/// Code that takes bytes or text from clients: MCP clients, bearers of sealed states, callers of a node.
const ROOMS: [&str; 3] = [
    "client/mcp/src/",
    "client/src/state_codec",
    "node/src/service/",
];

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

/// What shows that a decoder stands whatever a client sends.
enum Shown {
    /// A property test, and the file it stands in.
    By(&'static str, &'static str),
    /// Nothing that a client sends gets here, and why.
    NoClient(&'static str),
}

/// A function that decodes.
struct Decoder {
    file: &'static str,
    function: &'static str,
    shown: Shown,
}

/// What runs the properties of the client and of the MCP servers.
const RUNNER: &str = "client/src/properties.rs";
const STATE_CODEC: &str = "client/src/state_codec/tests.rs";
const TOKENS: &str = "client/mcp/tests/bearer_bytes.rs";
const MADE_UP_TOKEN: &str = "no_token_that_a_client_makes_up_speaks_for_anybody";
const STATE_TOOL: &str = "client/mcp/src/state/tests.rs";
const MADE_UP_ANSWER: &str = "an_answer_that_a_client_makes_up_is_a_yes_only_if_it_says_so";
const DOOR: &str = "node/src/service/door.rs";
const MADE_UP_HEADER: &str = "no_header_that_a_client_makes_up_is_taken_for_a_token";
const MADE_UP: &str = "nothing_that_a_client_makes_up_is_opened_and_nothing_panics";

const fn by(
    file: &'static str,
    function: &'static str,
    tests: &'static str,
    test: &'static str,
) -> Decoder {
    Decoder {
        file,
        function,
        shown: Shown::By(tests, test),
    }
}

const fn no_client(file: &'static str, function: &'static str, why: &'static str) -> Decoder {
    Decoder {
        file,
        function,
        shown: Shown::NoClient(why),
    }
}

const DECODERS: &[Decoder] = &[
    by(
        "node/src/service/data_keys.rs",
        "set_data_key",
        "client/seal/src/sealed.rs",
        "no_text_that_a_client_makes_up_is_an_id_unless_it_is_spelled_as_one",
    ),
    by(
        "client/src/state_codec/compat.rs",
        "payload",
        STATE_CODEC,
        MADE_UP,
    ),
    by(
        "client/src/state_codec/hardened.rs",
        "of",
        STATE_CODEC,
        MADE_UP,
    ),
    by(
        "client/src/state_codec/hardened.rs",
        "open",
        STATE_CODEC,
        "a_changed_bit_of_what_the_base64_holds_is_refused",
    ),
    by(
        "client/src/state_codec/primitives.rs",
        "from_base64",
        STATE_CODEC,
        "other_spellings_of_the_same_bytes_are_refused",
    ),
    by(
        "client/src/state_codec/single_use.rs",
        "decode",
        "client/mcp/tests/boundary.rs",
        "nothing_that_a_client_makes_up_reaches_a_handler",
    ),
    by(
        "client/mcp/src/boundary.rs",
        "open",
        "client/mcp/tests/boundary.rs",
        "nothing_that_a_client_makes_up_reaches_a_handler",
    ),
    by(
        "client/mcp/src/bearer/verifier.rs",
        "decoded",
        TOKENS,
        MADE_UP_TOKEN,
    ),
    by(
        "client/mcp/src/bearer/verifier.rs",
        "part",
        TOKENS,
        MADE_UP_TOKEN,
    ),
    by(DOOR, "bearer", DOOR, MADE_UP_HEADER),
    by(
        "client/mcp/src/state/arguments.rs",
        "read",
        STATE_TOOL,
        "arguments_that_a_client_makes_up_are_refused_or_taken_at_their_word",
    ),
    by(
        "client/mcp/src/state/confirm.rs",
        "said",
        STATE_TOOL,
        MADE_UP_ANSWER,
    ),
    by(
        "client/mcp/src/state/confirm.rs",
        "consent",
        STATE_TOOL,
        MADE_UP_ANSWER,
    ),
    by(
        "node/src/service/admit.rs",
        "parse_timeout",
        "node/src/service/admit.rs",
        "a_timeout_that_a_client_makes_up_is_refused_or_bounded",
    ),
    no_client(
        "client/src/state_codec/keys.rs",
        "parse",
        "the operator's command line",
    ),
    no_client(
        "client/mcp/src/bearer/key_file.rs",
        "parse",
        "the operator's file",
    ),
    no_client(
        "client/mcp/src/bearer/key_file.rs",
        "key",
        "the operator's file",
    ),
    no_client(
        "client/mcp/src/bearer/key_file.rs",
        "of_pem",
        "the operator's file",
    ),
    no_client("client/mcp/src/bearer/mod.rs", "refuse", "the server's own"),
    no_client(
        "client/mcp/src/bearer/mod.rs",
        "metadata_url",
        "the operator's command line",
    ),
    no_client(
        "client/mcp/src/state/reads.rs",
        "retrieved",
        "the cluster's; what is no JSON is an error of its own",
    ),
    no_client(
        "client/mcp/src/storage/connect.rs",
        "known",
        "the cluster's, sealed",
    ),
    no_client(
        "client/mcp/src/storage/credentials.rs",
        "decode",
        "the cluster's, sealed",
    ),
    no_client("client/mcp/src/flow/held.rs", "read", "the cluster's"),
    no_client(
        "client/mcp/src/cart/checkout.rs",
        "order_of",
        "the cluster's",
    ),
    no_client(
        "client/src/state_codec/ring.rs",
        "key",
        "the cluster's, under the operator's key",
    ),
    no_client(
        "client/src/state_codec/ring.rs",
        "open",
        "the cluster's, under the operator's key",
    ),
];

/// Messages of `helve.v1` are decoded by generated code and looked at by the machine, whole MCP requests by rmcp, and batches as other
/// arguments are; where messages end is counted by hand. Nothing in the rooms names that.
const ELSEWHERE: [(&str, &str); 5] = [
    (
        "node/machine/tests/it/bad_input.rs",
        "bytes_on_the_wire_are_refused_or_carried_out_and_are_never_a_fault",
    ),
    (
        "node/machine/tests/it/bad_input.rs",
        "a_list_resumes_at_any_token_that_a_client_makes_up",
    ),
    (
        "client/mcp/tests/state/requests.rs",
        "requests_that_a_client_makes_up_are_answered_and_store_nothing",
    ),
    (
        STATE_TOOL,
        "batches_that_a_client_makes_up_are_refused_or_taken_at_their_word",
    ),
    (
        "node/src/service/arriving.rs",
        "the_ends_of_messages_that_a_client_makes_up_are_found_however_they_are_cut",
    ),
];

/// Decoders that nobody listed, and listed ones that are gone.
pub(super) fn check_sources(sources: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut seen = Vec::new();
    let in_room = |source: &&Source| ROOMS.iter().any(|room| source.path.starts_with(room));
    for source in sources.iter().filter(in_room) {
        for (offset, function) in decoding(source) {
            let listed = DECODERS
                .iter()
                .position(|decoder| decoder.file == source.path && decoder.function == function);
            match listed {
                Some(at) => seen.push(at),
                None => findings.push(Finding::at(
                    source,
                    offset,
                    format!("fn {function} decodes, and is not listed in tests/it/tidy/decoders.rs with its property test"),
                )),
            }
        }
    }
    for (at, decoder) in DECODERS.iter().enumerate() {
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
    let listed = DECODERS.iter().filter_map(|decoder| match decoder.shown {
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
    for (file, test) in listed.chain(ELSEWHERE) {
        let text = read(file);
        let mut missing =
            |what: &str| findings.push(Finding::whole(file, format!("{test}: {what}")));
        if !is_property(&text, test) {
            missing("there is no such property test");
        }
        let runner = if text.contains("properties::check") {
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

/// Whether it is a test whose body, or whose surroundings, are those of a property.
fn is_property(text: &str, test: &str) -> bool {
    let Some(at) = text.find(&format!("fn {test}(")) else {
        return false;
    };
    let is_test = text[..at].trim_end().ends_with("#[test]");
    let body = text[at..]
        .find('{')
        .map_or("", |open| &text[at + open..closing_brace(text, at + open)]);
    let runs = body.contains("TestRunner::new") || body.contains("check(&");
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
    found
}

/// The name of the last function that begins before `offset`.
fn enclosing(code: &str, offset: usize) -> String {
    let last = Source::find_words(&code[..offset], "fn").last();
    let name = last.map_or("", |at| code[at + 2..].trim_start());
    name.chars()
        .take_while(|&c| c.is_alphanumeric() || c == '_')
        .collect()
}
