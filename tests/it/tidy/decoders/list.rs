//! The decoders, and what shows that each survives any input.

use super::shown::{Decoder, by, no_client};

pub(super) const STATE_CODEC: &str = "client/request-state/src/state_codec/tests.rs";
const TOKENS: &str = "client/mcp/tests/bearer_bytes.rs";
const MADE_UP_TOKEN: &str = "no_token_that_a_client_makes_up_speaks_for_anybody";
const SET_URL: &str = "client/mcp/src/bearer/jwks_url.rs";
const SETS: &str = "client/mcp/src/bearer/jwks_url/tests.rs";
const MADE_UP_SET: &str = "no_set_that_an_issuer_makes_up_gives_a_secret_or_panics";
const COMPAT: &str = "client/request-state/src/state_codec/compat.rs";
const HARDENED: &str = "client/request-state/src/state_codec/hardened.rs";
const FORM: &str = "client/mcp/src/bearer/form.rs";
const VERIFIER: &str = "client/mcp/src/bearer/verifier.rs";
const BROWSER: &str = "client/mcp/src/browser.rs";
const HOST: &str = "client/mcp/src/wire/host.rs";
const ALLOWED: &str = "client/mcp/src/allowed.rs";
pub(super) const STATE_TOOL: &str = "client/mcp/src/state/tests.rs";
const MADE_UP_ANSWER: &str = "an_answer_that_a_client_makes_up_is_a_yes_only_if_it_says_so";
const ENVELOPE: &str = "client/mcp/src/wire/envelope.rs";
const MADE_UP_ENVELOPE: &str = "no_text_that_a_client_makes_up_has_another_id_than_json_says";
const MESSAGE: &str = "client/mcp/src/wire/message.rs";
const TEXT_TESTS: &str = "client/mcp/src/wire/message/tests.rs";
const MADE_UP_MESSAGE: &str = "a_message_that_a_client_makes_up_is_read_or_refused_in_few_words";
const JSON: &str = "node/src/service/json.rs";
const JSON_EXACT: &str = "node/src/service/json/exact.rs";
const JSON_INTAKE: &str = "node/src/service/json/intake.rs";
const JSON_NAMES: &str = "node/src/service/json/names.rs";
const MADE_UP_HOST: &str = "no_host_that_a_client_makes_up_passes_for_another";
const JSON_REPLY: &str = "node/src/service/json/reply.rs";
const JSON_SCHEMA: &str = "node/src/service/json/schema.rs";
const MADE_UP_TIMEOUT: &str = "a_timeout_that_a_client_makes_up_is_a_number_or_refused";
const MADE_UP_BODY: &str = "a_body_that_a_client_makes_up_is_a_message_or_refused";
const JSON_TEXTS: &str = "node/src/service/json/texts.rs";
pub(super) const JSON_TESTS: &str = "node/src/service/json/tests.rs";
const RESOURCE: &str = "client/mcp/src/bearer/resource.rs";
const CREDENTIAL: &str = "node/src/service/credential.rs";
const MADE_UP_HEADER: &str = "no_header_that_a_client_makes_up_is_taken_for_a_token";
const CODEC: &str = "node/src/raft/codec.rs";
const MESSAGES: &str = "node/src/raft/codec/messages.rs";
const CODEC_TESTS: &str = "node/src/raft/codec/made_up_tests.rs";
const MADE_UP_APPEND: &str = "an_append_that_a_peer_makes_up_is_refused_or_understood";
const MADE_UP_REPLY: &str = "an_answer_to_an_append_that_a_peer_makes_up_is_refused_or_understood";
const MADE_UP_VOTE: &str = "a_vote_that_a_peer_makes_up_is_refused_or_understood";
const MADE_UP_MEMBERSHIP: &str = "a_membership_that_a_peer_makes_up_is_refused_or_understood";
const CERTIFICATE: &str = "node/src/tls/certificate.rs";
const MADE_UP_CERTIFICATE: &str = "a_certificate_that_a_peer_makes_up_is_refused_or_read";
const ADDRESS: &str = "client/src/cluster/address.rs";
const MADE_UP_ADDRESS: &str = "address_that_a_client_makes_up_is_taken_or_refused";
const VERDICT: &str = "client/src/cluster/verdict.rs";
const VERDICT_TESTS: &str = "client/src/cluster/verdict/tests.rs";
pub(super) const MADE_UP: &str = "nothing_that_a_client_makes_up_is_opened_and_nothing_panics";

pub(super) const DECODERS: &[Decoder] = &[
    by(
        "node/src/service/data_keys.rs",
        "set",
        "client/seal/src/sealed.rs",
        "no_text_that_a_client_makes_up_is_an_id_unless_it_is_spelled_as_one",
    ),
    by(COMPAT, "payload", STATE_CODEC, MADE_UP),
    by(HARDENED, "of", STATE_CODEC, MADE_UP),
    by(
        HARDENED,
        "open",
        STATE_CODEC,
        "a_changed_bit_of_what_the_base64_holds_is_refused",
    ),
    by(
        "client/request-state/src/state_codec/primitives.rs",
        "from_base64",
        STATE_CODEC,
        "other_spellings_of_the_same_bytes_are_refused",
    ),
    by(
        "client/request-state/src/state_codec/single_use.rs",
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
        BROWSER,
        "of",
        BROWSER,
        "no_origin_that_a_client_makes_up_is_allowed",
    ),
    by(
        BROWSER,
        "is_host",
        BROWSER,
        "no_origin_that_a_client_makes_up_is_allowed",
    ),
    by(
        HOST,
        "is_port",
        HOST,
        "no_host_that_a_client_makes_up_is_taken_for_the_targets",
    ),
    by(VERIFIER, "admit", TOKENS, MADE_UP_TOKEN),
    by(FORM, "check_claims", TOKENS, MADE_UP_TOKEN),
    by(FORM, "part", TOKENS, MADE_UP_TOKEN),
    by(FORM, "read_header", TOKENS, MADE_UP_TOKEN),
    by("client/mcp/src/bearer/jwks.rs", "parse", SETS, MADE_UP_SET),
    by("client/mcp/src/bearer/key.rs", "of_jwk", SETS, MADE_UP_SET),
    by(SET_URL, "exchange", SETS, MADE_UP_SET),
    by(SET_URL, "fresh", SETS, MADE_UP_SET),
    by(CREDENTIAL, "bearer", CREDENTIAL, MADE_UP_HEADER),
    by(
        "node/src/traces.rs",
        "parent",
        "node/src/traces/tests.rs",
        "value_that_a_client_makes_up_names_a_span_or_none",
    ),
    by(
        "client/mcp/src/tasks/listen.rs",
        "task_ids",
        "client/mcp/src/tasks/listen.rs",
        "what_a_client_makes_up_names_bounded_tasks",
    ),
    by(ENVELOPE, "of", ENVELOPE, MADE_UP_ENVELOPE),
    by(ENVELOPE, "id", ENVELOPE, MADE_UP_ENVELOPE),
    by(MESSAGE, "read", TEXT_TESTS, MADE_UP_MESSAGE),
    by(MESSAGE, "is_page", TEXT_TESTS, MADE_UP_MESSAGE),
    by(MESSAGE, "unfit", TEXT_TESTS, MADE_UP_MESSAGE),
    by(
        MESSAGE,
        "is_misread_initialize",
        TEXT_TESTS,
        MADE_UP_MESSAGE,
    ),
    by(JSON, "timeout", JSON_TESTS, MADE_UP_TIMEOUT),
    by(JSON_EXACT, "check_numbers", JSON_TESTS, MADE_UP_BODY),
    by(JSON_EXACT, "is_integer", JSON_TESTS, MADE_UP_BODY),
    by(JSON_INTAKE, "of_json", JSON_TESTS, MADE_UP_BODY),
    by(JSON_TEXTS, "check", JSON_TESTS, MADE_UP_BODY),
    by(JSON_NAMES, "knows", JSON_NAMES, MADE_UP_HOST),
    no_client(JSON_REPLY, "details", "the node's own errors"),
    no_client(JSON_SCHEMA, "pool", "the node's own descriptors"),
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
        "node/src/service/decoded_size.rs",
        "of_contract",
        "the descriptors of the contract, which the node is built with",
    ),
    by(CODEC, "entry_from_proto", CODEC_TESTS, MADE_UP_APPEND),
    by(
        CODEC,
        "membership_from_proto",
        CODEC_TESTS,
        MADE_UP_MEMBERSHIP,
    ),
    by(
        CODEC,
        "stored_membership_from_proto",
        CODEC_TESTS,
        MADE_UP_MEMBERSHIP,
    ),
    by(MESSAGES, "append_from_proto", CODEC_TESTS, MADE_UP_APPEND),
    by(
        MESSAGES,
        "append_reply_from_proto",
        CODEC_TESTS,
        MADE_UP_REPLY,
    ),
    by(
        MESSAGES,
        "stream_reply_from_proto",
        CODEC_TESTS,
        MADE_UP_REPLY,
    ),
    by(
        MESSAGES,
        "vote_request_from_proto",
        CODEC_TESTS,
        MADE_UP_VOTE,
    ),
    by(MESSAGES, "vote_reply_from_proto", CODEC_TESTS, MADE_UP_VOTE),
    by(
        MESSAGES,
        "transfer_from_proto",
        CODEC_TESTS,
        "a_transfer_that_a_peer_makes_up_is_refused_or_understood",
    ),
    by(CERTIFICATE, "common_name", CERTIFICATE, MADE_UP_CERTIFICATE),
    by(
        "node/src/connections/connection.rs",
        "shown",
        CERTIFICATE,
        MADE_UP_CERTIFICATE,
    ),
    by(
        VERDICT,
        "of",
        VERDICT_TESTS,
        "details_that_a_node_makes_up_say_not_done_only_by_a_reason_of_ours",
    ),
    by(
        VERDICT,
        "of_reply",
        "client/src/cluster/exchange/stream/tests.rs",
        "answers_that_a_node_makes_up_are_each_for_one_call_or_for_none",
    ),
    by(
        VERDICT,
        "refusal",
        VERDICT_TESTS,
        "details_that_a_node_makes_up_say_not_done_only_by_a_reason_of_ours",
    ),
    by(
        "client/src/cluster/line_error.rs",
        "retry_after",
        "client/src/cluster/line_error.rs",
        "response_that_a_node_makes_up_is_grpc_or_an_error_of_one_line",
    ),
    by(ADDRESS, "check", ADDRESS, MADE_UP_ADDRESS),
    by(ADDRESS, "is_bracketed", ADDRESS, MADE_UP_ADDRESS),
    by(
        "node/src/identity/acknowledged.rs",
        "begin",
        "node/src/identity/acknowledged/tests.rs",
        "no_testimony_that_a_peer_makes_up_is_believed_beyond_its_bounds",
    ),
    no_client(
        "client/request-state/src/state_codec/keys.rs",
        "parse",
        "the operator's command line",
    ),
    no_client(SET_URL, "checked", "the operator's command line"),
    no_client(
        "client/mcp/src/metrics/requests.rs",
        "said",
        "the server's own",
    ),
    no_client(
        "client/mcp/src/tasks/acknowledged.rs",
        "named",
        "the server's own",
    ),
    no_client(
        "client/mcp/src/bearer/key_file.rs",
        "keys",
        "the operator's file",
    ),
    no_client(
        "client/mcp/src/bearer/source.rs",
        "of_file",
        "the operator's file",
    ),
    no_client(
        "client/mcp/src/bearer/source.rs",
        "read_again",
        "the operator's file",
    ),
    no_client(ALLOWED, "host", "the operator's command line"),
    no_client(ALLOWED, "origin", "the operator's command line"),
    no_client(ALLOWED, "with_port", "the operator's command line"),
    no_client(
        "client/mcp/src/bearer/mod.rs",
        "challenge",
        "the server's own",
    ),
    no_client(
        "client/mcp/src/bearer/mod.rs",
        "new",
        "the operator's command line",
    ),
    no_client(RESOURCE, "parse", "the operator's command line"),
    no_client(RESOURCE, "encoded", "the operator's command line"),
    by(
        RESOURCE,
        "decoded",
        RESOURCE,
        "path_that_a_client_makes_up_means_the_same_however_it_is_encoded",
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
    no_client("client/mcp/src/flow/held.rs", "add_order", "the cluster's"),
    no_client("client/mcp/src/cart/listed.rs", "add", "the cluster's"),
    no_client(
        "client/mcp/src/cart/checkout.rs",
        "order_of",
        "the cluster's",
    ),
    no_client(
        "client/request-state/src/state_codec/ring.rs",
        "key",
        "the cluster's, under the operator's key",
    ),
    no_client(
        "client/request-state/src/state_codec/ring.rs",
        "open",
        "the cluster's, under the operator's key",
    ),
];
