//! The fuzz targets, and the files whose decoders each of them reaches.

/// A target of `make fuzz-coverage`.
pub(super) struct Target {
    pub(super) name: &'static str,
    /// Files of decoders, or of the property tests of decoders that are generated or elsewhere.
    pub(super) reaches: &'static [&'static str],
}

const fn target(name: &'static str, reaches: &'static [&'static str]) -> Target {
    Target { name, reaches }
}

/// Every target.
pub(super) const TARGETS: &[Target] = &[
    target(
        "archive_segment",
        &[
            "node/src/backup/archive.rs",
            "node/src/backup/directory.rs",
            "node/src/backup/segment.rs",
            "node/src/backup/segment_path.rs",
        ],
    ),
    target("audit_file", &[]),
    target(
        "backup_manifest",
        &["node/src/backup.rs", "node/src/backup/directory.rs"],
    ),
    target(
        "bearer_token",
        &[
            "client/mcp/src/bearer/form.rs",
            "client/mcp/src/bearer/verifier.rs",
        ],
    ),
    target(
        "client_header",
        &[
            "node/src/service/credential.rs",
            "node/src/service/admit.rs",
        ],
    ),
    target(
        "client_message",
        &[
            "node/src/service/decoded_size/tests.rs",
            "node/src/service/exchange/tests.rs",
        ],
    ),
    target("client_stream", &["node/src/service/arriving/tests.rs"]),
    target("confirmation", &["client/mcp/src/state/confirm.rs"]),
    target(
        "error_details",
        &[
            "client/src/cluster/details.rs",
            "client/src/cluster/verdict.rs",
        ],
    ),
    target("exact_json", &["client/src/exact.rs"]),
    target("exchange_reply", &["client/src/cluster/verdict.rs"]),
    target("forward_batch", &["node/src/service/forwarded/tests.rs"]),
    target("forward_reply", &["node/src/forward.rs"]),
    target(
        "json_body",
        &[
            "node/src/service/json/exact.rs",
            "node/src/service/json/intake.rs",
            "node/src/service/json/tests.rs",
            "node/src/service/json/texts.rs",
        ],
    ),
    target("key_file", &["client/mcp/src/bearer/key.rs"]),
    target(
        "key_set",
        &[
            "client/mcp/src/bearer/jwks.rs",
            "client/mcp/src/bearer/jwks_url.rs",
        ],
    ),
    target("page_origin", &["client/mcp/src/browser.rs"]),
    target(
        "peer_certificate",
        &[
            "node/src/tls/certificate.rs",
            "node/src/connections/connection.rs",
        ],
    ),
    target("peer_command", &["node/machine/tests/it/bad_input.rs"]),
    target(
        "peer_message",
        &[
            "node/src/identity/acknowledged.rs",
            "node/src/raft/codec.rs",
            "node/src/raft/codec/messages.rs",
        ],
    ),
    target("response_head", &["client/src/cluster/line_error.rs"]),
    target("resumed_lists", &["node/machine/tests/it/bad_input.rs"]),
    target(
        "rpc_message",
        &[
            "client/mcp/src/wire/envelope.rs",
            "client/mcp/src/wire/message.rs",
            "client/mcp/src/wire/weight.rs",
            "client/mcp/src/tasks/listen.rs",
        ],
    ),
    target(
        "sealed_state",
        &[
            "client/request-state/src/state_codec/compat.rs",
            "client/request-state/src/state_codec/hardened.rs",
            "client/request-state/src/state_codec/primitives.rs",
        ],
    ),
    target("snapshot_parts", &["node/src/service/snapshot_intake.rs"]),
    target(
        "tool_arguments",
        &[
            "client/mcp/src/state/arguments.rs",
            "client/mcp/src/state/tests.rs",
        ],
    ),
    target("tool_document", &[]),
    target("watched_changes", &["node/machine/tests/it/bad_input.rs"]),
    target("wire_calls", &["node/machine/tests/it/bad_input.rs"]),
];

/// Files whose decoders have a property test and no target, and why.
pub(super) const UNFUZZED: &[(&str, &str)] = &[
    (
        "client/mcp/src/boundary.rs",
        "it hands the text to a codec, which `sealed_state` reaches",
    ),
    (
        "client/request-state/src/state_codec/single_use.rs",
        "it hands the text to a codec, which `sealed_state` reaches",
    ),
    (
        "client/mcp/src/wire/host.rs",
        "a library reads the host, and a port is digits",
    ),
    ("node/src/service/json.rs", "it reads a number"),
    (
        "client/src/cluster/address.rs",
        "a library reads addresses of IPv6, and a port is digits",
    ),
    (
        "client/src/cluster/greeted/tests.rs",
        "it looks at one byte",
    ),
    (
        "node/src/backup/bucket/failure/tests.rs",
        "it looks for two words in the text of an error, which libraries bound",
    ),
    (
        "client/mcp/src/bearer/resource.rs",
        "it reads two hexadecimal digits at a time",
    ),
    (
        "node/src/service/json/names.rs",
        "libraries read the name and the address",
    ),
    (
        "node/src/service/data_keys.rs",
        "it reads hexadecimal digits of one length",
    ),
    (
        "node/src/traces.rs",
        "it reads hexadecimal digits at fixed places",
    ),
    (
        "client/mcp/tests/state/requests.rs",
        "it needs a server; its parts are reached by `rpc_message` and `tool_arguments`",
    ),
];
