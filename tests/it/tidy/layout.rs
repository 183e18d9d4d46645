//! What files may be called, and what may lie at the top.

use super::Finding;

/// Names that say nothing of what is inside.
const EMPTY_NAMES: [&str; 8] = [
    "utils", "util", "helpers", "helper", "common", "manager", "misc", "shared",
];

/// What lies at the top, besides dot-files and the pages that README links to.
const TOP_LEVEL: [&str; 10] = [
    "proto",
    "node",
    "client",
    "tests",
    "deploy",
    "docs",
    "Makefile",
    "Cargo.toml",
    "Cargo.lock",
    "LICENSE",
];

/// A file or directory with a name that says nothing.
pub(super) fn check_name(path: &str) -> Option<Finding> {
    let empty = path.split('/').find(|part| {
        let stem = part.split('.').next().unwrap_or(part);
        stem.split('_').any(|word| EMPTY_NAMES.contains(&word))
    })?;
    Some(Finding::whole(
        path,
        format!("`{empty}` says nothing of what it holds: name the concept"),
    ))
}

/// What lies at the top without a place in the design.
pub(super) fn check_top_level(entries: &[String], readme: &str) -> Vec<Finding> {
    let known = |entry: &str| {
        entry.starts_with('.')
            || TOP_LEVEL.contains(&entry)
            || matches!(entry, "README.md" | "target")
            || (entry.ends_with(".md") && readme.contains(&format!("({entry})")))
    };
    let strangers = entries.iter().filter(|entry| !known(entry));
    strangers
        .map(|entry| Finding::whole(entry, "does not belong at the top of the tree"))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_says_nothing_is_found() {
        assert!(check_name("node/src/utils.rs").is_some());
        assert!(check_name("node/src/common/mod.rs").is_some());
        assert!(check_name("node/src/lock_manager.rs").is_some());
        assert!(check_name("node/src/propose.rs").is_none());
    }

    #[test]
    fn a_stranger_at_the_top_is_found() {
        let entries = [
            "proto",
            ".ci",
            "Makefile",
            "README.md",
            "ARCHITECTURE.md",
            "notes.md",
            "scripts",
        ];
        let entries: Vec<String> = entries.map(str::to_owned).to_vec();
        let found = check_top_level(&entries, "See [how it is built](ARCHITECTURE.md).");
        assert_eq!(
            found
                .iter()
                .map(|finding| finding.path.as_str())
                .collect::<Vec<_>>(),
            ["notes.md", "scripts"]
        );
    }
}
