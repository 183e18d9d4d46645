//! What to try while the demo is left running.

use std::path::{Path, PathBuf};

use super::{secrets::Holder, stage::Stage};

/// Says how the cluster is reached, one command a line, each of which can be copied as it is.
pub(super) fn invite(stage: &Stage, dir: &Path) {
    let endpoints = stage.nodes.endpoints();
    let binary = std::env::current_exe().unwrap_or_else(|_| PathBuf::from("helve"));
    eprintln!(
        "\nLeft running until Ctrl-C; logs in {}, tokens and certificates in {}. The MCP endpoint is {}. To try:",
        dir.display(),
        stage.secrets.dir().display(),
        stage.replicas.uri
    );
    let one = |place: usize| &endpoints[place..=place];
    for (what, holder, at) in [
        ("status", Holder::Operator, &endpoints[..]),
        ("data-key status", Holder::Operator, &endpoints),
        ("handle list --store cart", Holder::Writer, &endpoints),
        ("state list orders/", Holder::Writer, &endpoints),
        ("state store greeting '\"hello\"'", Holder::Writer, one(0)),
        ("state retrieve greeting", Holder::Reader, one(1)),
    ] {
        let reach = stage.secrets.call_flags(holder, at).join(" ");
        eprintln!("  {} {what} {reach}", binary.display());
    }
    let logs = stage.nodes.0.iter().map(|node| node.audit_log.display());
    for log in logs {
        eprintln!("  {} audit verify {log}", binary.display());
    }
}
