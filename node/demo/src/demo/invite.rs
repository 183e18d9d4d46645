//! What to try while the demo is left running.

use std::path::{Path, PathBuf};

use helve_command::output;

use super::{secrets::Holder, stage::Stage};

/// Says how the cluster is reached, one command a line, each of which can be copied as it is.
pub(super) fn invite(stage: &Stage, dir: &Path) {
    let endpoints = stage.nodes.endpoints();
    let binary = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("helve"));
    output::say(format_args!(
        "\nLeft running until Ctrl-C; logs in {}, tokens and certificates in {}. The MCP endpoint is {}. To try:",
        dir.display(),
        stage.secrets.dir().display(),
        stage.replicas.uri
    ));
    let all = &endpoints[..];
    for (what, holder, at) in [
        ("status", Holder::Operator, all),
        ("data-key status", Holder::Operator, all),
        ("handle list --store cart", Holder::Writer, all),
        ("state list orders/", Holder::Writer, all),
        (
            "state store greeting '\"hello\"'",
            Holder::Writer,
            &all[..1],
        ),
        ("state retrieve greeting", Holder::Reader, &all[1..2]),
    ] {
        let reach = stage.secrets.call_flags(holder, at).join(" ");
        output::say(format_args!("  {} {what} {reach}", binary.display()));
    }
    for node in &stage.nodes.0 {
        let log = node.audit_log.display();
        output::say(format_args!("  {} audit verify {log}", binary.display()));
    }
}
