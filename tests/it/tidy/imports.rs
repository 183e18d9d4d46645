//! Which way imports point: between crates, and between the modules of the node.

use std::process::Command;

use super::{
    Finding,
    source::{Source, closing_brace},
};

/// The node's modules from the ground up, as the code map in ARCHITECTURE.md lists them. A module names those before its own.
pub(super) struct CodeMap(Vec<String>);

impl CodeMap {
    /// Reads the table of the page. A row may list several modules, as `src/NAME.rs` or `src/NAME/`.
    pub(super) fn read(page: &str) -> Self {
        let lines = page.lines().skip_while(|line| *line != "## Code map");
        let rows = lines.skip(1).take_while(|line| !line.starts_with('#'));
        let places = rows.filter_map(|row| row.strip_prefix("| ")?.split(" |").next());
        let spans = places.flat_map(|place| place.split('`').skip(1).step_by(2));
        let modules = spans.filter_map(|span| span.strip_prefix("src/"));
        let names = modules.map(|module| module.trim_end_matches(".rs").trim_end_matches('/'));
        Self(names.map(str::to_owned).collect())
    }

    fn place(&self, module: &str) -> Option<usize> {
        self.0.iter().position(|name| name == module)
    }
}

/// Files of the node that are no module of it: the root, and what only tests compile.
const NO_MODULES: [&str; 3] = ["lib", "fuzzing", "properties"];

/// What of this workspace a crate may depend on. The tests crate may use all.
const CRATES: [(&str, &[&str]); 13] = [
    ("proto/Cargo.toml", &[]),
    ("node/machine/Cargo.toml", &["helve-proto"]),
    ("client/seal/Cargo.toml", &[]),
    ("client/Cargo.toml", &["helve-proto", "helve-machine"]),
    ("client/state/Cargo.toml", &["helve-proto", "helve-client"]),
    (
        "client/request-state/Cargo.toml",
        &["helve-proto", "helve-client", "helve-seal"],
    ),
    (
        "client/conformance/Cargo.toml",
        &[
            "helve-proto",
            "helve-client",
            "helve-request-state",
            "helve-state",
        ],
    ),
    ("client/http/Cargo.toml", &[]),
    (
        "client/mcp/Cargo.toml",
        &[
            "helve-proto",
            "helve-client",
            "helve-http",
            "helve-request-state",
            "helve-seal",
        ],
    ),
    (
        "node/Cargo.toml",
        &["helve-proto", "helve-machine", "helve-seal", "helve-http"],
    ),
    (
        "node/command/Cargo.toml",
        &[
            "helve-proto",
            "helve-seal",
            "helve-client",
            "helve-mcp",
            "helve-node",
        ],
    ),
    (
        "node/demo/Cargo.toml",
        &[
            "helve-proto",
            "helve-client",
            "helve-mcp",
            "helve-node",
            "helve-command",
        ],
    ),
    (
        "node/cli/Cargo.toml",
        &[
            "helve-proto",
            "helve-machine",
            "helve-seal",
            "helve-client",
            "helve-mcp",
            "helve-node",
            "helve-command",
            "helve-demo",
            "helve-request-state",
        ],
    ),
];

/// All that the machine may depend on: nothing that has a clock, randomness or IO.
const MACHINE_DEPENDENCIES: [&str; 5] = [
    "bytes",
    "data-encoding",
    "helve-proto",
    "prost",
    "thiserror",
];

/// Crates that must not come along with the client.
const NOT_IN_CLIENT: [&str; 5] = [
    "rocksdb",
    "librocksdb-sys",
    "rmcp",
    "openraft",
    "opentelemetry",
];

/// Crates that come along with a feature of the client only.
const NOT_BY_DEFAULT: [&str; 9] = [
    "crc32c",
    "deadpool-postgres",
    "helve-machine",
    "helve-seal",
    "object_store",
    "redis",
    "rustix",
    "serde-saphyr",
    "tokio-postgres",
];

/// Imports of the node that point down the code map, modules that are not in it, and the client used by the node.
pub(super) fn check_source(source: &Source, map: &CodeMap) -> Vec<Finding> {
    let Some(inside) = source.path.strip_prefix("node/src/") else {
        return Vec::new();
    };
    let own = inside.split(['/', '.']).next().unwrap_or(inside);
    let mut findings = Vec::new();
    let mine = map.place(own);
    if mine.is_none() && !NO_MODULES.contains(&own) {
        findings.push(Finding::whole(
            &source.path,
            "is not in ARCHITECTURE's code map: say there what it is for, below all that it uses",
        ));
    }
    for (offset, module) in named_modules(&source.shipped, inside) {
        if let (Some(mine), Some(other)) = (mine, map.place(module))
            && other > mine
        {
            let message = format!("{own} names {module}, which is below it in the code map");
            findings.push(Finding::at(source, offset, message));
        }
    }
    for name in ["helve_client", "helve_mcp", "helve_request_state"] {
        let offsets = Source::find_words(&source.code, name);
        findings.extend(
            offsets.map(|at| Finding::at(source, at, format!("only commands name {name}"))),
        );
    }
    findings
}

/// Each module of the crate's root that the code names by `crate::` or by `super::`.
fn named_modules<'a>(code: &'a str, path: &str) -> Vec<(usize, &'a str)> {
    let mut named = Vec::new();
    for offset in Source::find_words(code, "crate") {
        if let Some(rest) = code[offset + "crate".len()..].strip_prefix("::") {
            named.extend(first_names(rest).into_iter().map(|name| (offset, name)));
        }
    }
    let depth = path.trim_end_matches("/mod.rs").matches('/').count() + 1;
    let climb = format!("{}::", vec!["super"; depth].join("::"));
    for offset in Source::find_words(code, climb.trim_end_matches("::")) {
        let below = offset >= 2 && &code[offset - 2..offset] == "::";
        if let (false, Some(rest)) = (below, code[offset..].strip_prefix(&climb)) {
            named.extend(first_names(rest).into_iter().map(|name| (offset, name)));
        }
    }
    named
}

/// The first name of a path, or of each path in a braced list.
fn first_names(rest: &str) -> Vec<&str> {
    let word = |text: &str| {
        text.find(|c: char| !c.is_alphanumeric() && c != '_')
            .unwrap_or(text.len())
    };
    if !rest.starts_with('{') {
        return vec![&rest[..word(rest)]];
    }
    let list = &rest[1..closing_brace(rest, 0) - 1];
    let mut depth = 0_usize;
    let items = list.split(move |c| {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        c == ',' && depth == 0
    });
    items
        .map(str::trim)
        .filter(|item| !item.is_empty())
        .map(|item| &item[..word(item)])
        .collect()
}

/// Dependencies that the design does not allow.
pub(super) fn check_manifest(source: &Source) -> Vec<Finding> {
    let Some((_, allowed)) = CRATES.iter().find(|(path, _)| *path == source.path) else {
        return Vec::new();
    };
    let is_allowed = |name: &str| match source.path.as_str() {
        "node/machine/Cargo.toml" => MACHINE_DEPENDENCIES.contains(&name),
        _ => !name.starts_with("helve-") || allowed.contains(&name),
    };
    let wrong = dependencies(&source.text)
        .into_iter()
        .filter(|name| !is_allowed(name));
    wrong
        .map(|name| Finding::whole(&source.path, format!("may not depend on {name}")))
        .collect()
}

/// Names under `[dependencies]`.
fn dependencies(manifest: &str) -> Vec<&str> {
    let lines = manifest
        .lines()
        .skip_while(|line| *line != "[dependencies]")
        .skip(1);
    let lines = lines.take_while(|line| !line.starts_with('['));
    lines
        .filter_map(|line| line.split(['.', '=', ' ']).next())
        .filter(|name| !name.is_empty() && !name.starts_with('#'))
        .collect()
}

/// What cargo says comes along with the client: with every feature on, and with those that are on by default.
pub(super) fn check_client_tree() -> Vec<Finding> {
    let mut findings = unwanted(
        &client_tree(&["--all-features", "--edges", "normal,build"]),
        &NOT_IN_CLIENT,
    );
    findings.extend(unwanted(
        &client_tree(&["--edges", "normal"]),
        &NOT_BY_DEFAULT,
    ));
    findings
}

fn client_tree(arguments: &[&str]) -> String {
    let output = Command::new(env!("CARGO"))
        .args(["tree", "--locked", "--offline", "--package", "helve-client"])
        .args(["--prefix", "none", "--format", "{p}"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let tree = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(tree.contains("helve-client"), "{tree}");
    tree
}

fn unwanted(tree: &str, names: &[&str]) -> Vec<Finding> {
    let found = tree.lines().filter_map(|line| line.split(' ').next());
    let wrong = found.filter(|name| names.contains(name));
    wrong
        .map(|name| Finding::whole("client/Cargo.toml", format!("brings {name} along")))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# A\n| `src/ahead.rs` |\n## Code map\n| where | what |\n|---|---|\n\
        | `machine/src/` | a |\n| `src/limits.rs` | a |\n| `src/storage/`, `src/raft/` | `src/no.rs` |\n\
        | `src/forward.rs`, `src/propose.rs` | a |\n| `src/service/` | a |\n| `src/node.rs` | a |\n### B\n| `src/c.rs` |\n";

    fn findings(path: &str, text: &str) -> usize {
        check_source(&Source::new(path, text), &CodeMap::read(PAGE)).len()
    }

    #[test]
    fn the_code_map_is_the_table_under_its_heading() {
        let names = [
            "limits", "storage", "raft", "forward", "propose", "service", "node",
        ];
        assert_eq!(CodeMap::read(PAGE).0, names);
    }

    #[test]
    fn an_import_that_points_up_is_found() {
        assert_eq!(
            findings("node/src/storage/log_db.rs", "use crate::raft::Raft;"),
            1
        );
        assert_eq!(
            findings(
                "node/src/storage/log_db.rs",
                "use crate::{limits, raft::codec};"
            ),
            1
        );
        assert_eq!(
            findings(
                "node/src/storage/log_db.rs",
                "use crate::{limits::{A, B}, storage::C};"
            ),
            0
        );
        assert_eq!(
            findings(
                "node/src/raft/network.rs",
                "let a = super::super::service::B;"
            ),
            1
        );
        assert_eq!(
            findings("node/src/raft/mod.rs", "use super::service::B;"),
            1
        );
        assert_eq!(
            findings("node/src/raft/network.rs", "use super::codec::B;"),
            0
        );
        assert_eq!(
            findings("node/src/propose.rs", "use crate::service::Status;"),
            1
        );
        assert_eq!(
            findings(
                "node/src/propose.rs",
                "use crate::{forward::Forward, raft::Raft};"
            ),
            0
        );
        assert_eq!(
            findings("node/src/service/access_check.rs", "use crate::node::Node;"),
            1
        );
        assert_eq!(findings("node/src/limits.rs", "use crate::node::Node;"), 1);
        assert_eq!(findings("node/src/stranger.rs", "use crate::limits::A;"), 1);
        assert_eq!(findings("node/src/lib.rs", "pub use crate::node::Node;"), 0);
        assert_eq!(findings("node/src/forward.rs", "use crate::propose::A;"), 1);
    }

    #[test]
    fn the_client_in_the_node_is_found() {
        assert_eq!(
            findings("node/src/node.rs", "use helve_client::Cluster;"),
            1
        );
        assert_eq!(
            findings("node/cli/src/key.rs", "use helve_client::Cluster;"),
            0
        );
    }

    #[test]
    fn a_forbidden_dependency_is_found() {
        let manifest = |path: &str, name: &str| {
            let text = format!(
                "[package]\nname = \"a\"\n[dependencies]\nbytes.workspace = true\n{name} = \"1\"\n[lints]\n"
            );
            check_manifest(&Source::new(path, &text)).len()
        };
        assert_eq!(manifest("node/machine/Cargo.toml", "rand"), 1);
        assert_eq!(manifest("node/machine/Cargo.toml", "thiserror"), 0);
        assert_eq!(manifest("client/Cargo.toml", "helve-node"), 1);
        assert_eq!(manifest("client/Cargo.toml", "helve-machine"), 0);
        assert_eq!(manifest("proto/Cargo.toml", "helve-machine"), 1);
        assert_eq!(manifest("node/Cargo.toml", "helve-mcp"), 1);
        assert_eq!(manifest("node/demo/Cargo.toml", "helve-cli"), 1);
        assert_eq!(manifest("node/cli/Cargo.toml", "helve-demo"), 0);
    }

    #[test]
    fn rocksdb_in_the_client_is_found() {
        assert_eq!(
            unwanted("helve-client v0.1.0\nrocksdb v0.25.0\n", &NOT_IN_CLIENT).len(),
            1
        );
        assert_eq!(
            unwanted("helve-client v0.1.0\nbytes v1.0.0\n", &NOT_IN_CLIENT).len(),
            0
        );
    }
}
