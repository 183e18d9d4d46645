//! What comes along with Helve: the essentials of `.deny.toml`, held where cargo-deny is not installed. Licences, sources, and crates
//! in more than one version.

use std::{collections::BTreeMap, process::Command};

use serde_json::Value;

use super::Finding;

const RULES: &str = ".deny.toml";
const CRATES_IO: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// A crate, as cargo knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Crate {
    name: String,
    version: String,
    licence: String,
    /// Absent: it is part of this workspace.
    source: Option<String>,
}

/// What cargo says would be built, for any machine and with any feature. Crates of other machines may have to be fetched for it.
pub(super) fn crates() -> Vec<Crate> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--all-features"])
        .args(["--format-version", "1"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    let packages = metadata["packages"].as_array().expect("a list of packages");
    let text = |package: &Value, field: &str| package[field].as_str().map(str::to_owned);
    let known = |package| Crate {
        name: text(package, "name").unwrap_or_default(),
        version: text(package, "version").unwrap_or_default(),
        licence: text(package, "license").unwrap_or_default(),
        source: text(package, "source"),
    };
    packages.iter().map(known).collect()
}

/// Crates that the rules do not allow, and rules that no crate needs any more.
pub(super) fn check(rules: &str, crates: &[Crate]) -> Vec<Finding> {
    let allowed = quoted(section(rules, "allow = ["));
    let mut findings = Vec::new();
    for known in crates {
        let mut wrong = |what: String| {
            let name = format!("{} {}", known.name, known.version);
            findings.push(Finding::whole(RULES, format!("{name}: {what}")));
        };
        if !is_allowed(&known.licence, &allowed) {
            wrong(format!("the licence `{}` is not allowed", known.licence));
        }
        if known
            .source
            .as_deref()
            .is_some_and(|from| from != CRATES_IO)
        {
            wrong("it does not come from crates.io".into());
        }
    }
    findings.extend(check_duplicates(rules, crates));
    findings
}

/// Of a crate in several versions, all but the newest are listed, with a reason, and nothing else is.
fn check_duplicates(rules: &str, crates: &[Crate]) -> Vec<Finding> {
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for known in crates {
        versions
            .entry(&known.name)
            .or_default()
            .push(&known.version);
    }
    let mut older = Vec::new();
    for (name, versions) in &mut versions {
        versions.sort_by_key(|version| numbers(version));
        versions.pop();
        // What follows a plus is no part of a version's order.
        let plain = |version: &&str| version.split('+').next().unwrap_or_default().to_owned();
        older.extend(
            versions
                .iter()
                .map(|version| format!("{name}@{}", plain(version))),
        );
    }
    let lines = section(rules, "skip = [").lines().map(quoted);
    let listed: Vec<_> = lines.filter(|line| !line.is_empty()).collect();
    let names: Vec<_> = listed.iter().map(|line| line[0]).collect();
    let unlisted = older.iter().filter(|name| !names.contains(&name.as_str()));
    let unlisted = unlisted.map(|name| format!("{name} is there in a newer version, too"));
    let unneeded = names
        .iter()
        .filter(|name| !older.iter().any(|o| o == *name));
    let unneeded = unneeded.map(|name| format!("{name} is skipped, and is no duplicate"));
    let bare = listed
        .iter()
        .filter(|line| line.len() != 2 || line[1].is_empty());
    let bare = bare.map(|line| format!("{} is skipped without a reason", line[0]));
    let all = unlisted.chain(unneeded).chain(bare);
    all.map(|message| Finding::whole(RULES, message)).collect()
}

/// What is between a list's opening and the line that ends it.
fn section<'a>(rules: &'a str, opening: &str) -> &'a str {
    let behind = rules.split_once(opening).map_or("", |(_, behind)| behind);
    behind.split_once("\n]").map_or("", |(list, _)| list)
}

fn quoted(text: &str) -> Vec<&str> {
    text.split('"').skip(1).step_by(2).collect()
}

fn numbers(version: &str) -> Vec<u64> {
    let plain = version.split(['+', '-']).next().unwrap_or_default();
    plain
        .split('.')
        .map(|part| part.parse().unwrap_or(0))
        .collect()
}

/// Whether an SPDX expression (<https://spdx.github.io/spdx-spec/v3.0.1/annexes/spdx-license-expressions/>) can be met with these
/// licences. An exception only adds permissions. A slash is an old way to write `OR`.
fn is_allowed(expression: &str, allowed: &[&str]) -> bool {
    let text = expression.replace('/', " OR ");
    let text = text.replace('(', " ( ").replace(')', " ) ");
    let mut words = text.split_whitespace().peekable();
    let met = any(&mut words, allowed);
    met && words.next().is_none()
}

type Words<'a> = std::iter::Peekable<std::str::SplitWhitespace<'a>>;

fn any(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut met = all(words, allowed);
    while words.next_if_eq(&"OR").is_some() {
        met |= all(words, allowed);
    }
    met
}

fn all(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    let mut met = one(words, allowed);
    while words.next_if_eq(&"AND").is_some() {
        met &= one(words, allowed);
    }
    met
}

fn one(words: &mut Words<'_>, allowed: &[&str]) -> bool {
    if words.next_if_eq(&"(").is_some() {
        let met = any(words, allowed);
        return words.next_if_eq(&")").is_some() && met;
    }
    let met = words
        .next()
        .is_some_and(|licence| allowed.contains(&licence));
    if words.next_if_eq(&"WITH").is_some() {
        words.next();
    }
    met
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULES: &str = "allow = [\n\"MIT\",\n\"Apache-2.0\",\n]\nskip = [\n{ crate = \"a@1.0.0\", reason = \"b\" },\n]\n";

    fn known(name: &str, version: &str) -> Crate {
        Crate {
            name: name.to_owned(),
            version: version.to_owned(),
            licence: "MIT".to_owned(),
            source: Some(CRATES_IO.to_owned()),
        }
    }

    #[test]
    fn a_licence_is_met_or_not_as_its_expression_says() {
        let allowed = ["MIT", "Apache-2.0"];
        for (expression, is_met) in [
            ("MIT", true),
            ("MIT/GPL-3.0", true),
            ("GPL-3.0 OR Apache-2.0", true),
            ("Apache-2.0 WITH LLVM-exception", true),
            ("(GPL-3.0 OR MIT) AND Apache-2.0", true),
            ("(MIT OR Apache-2.0) AND Unicode-3.0", false),
            ("MIT AND GPL-3.0 OR Apache-2.0", true),
            ("GPL-3.0", false),
            ("", false),
            ("MIT MIT", false),
            ("(MIT", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), is_met, "{expression}");
        }
    }

    #[test]
    fn a_strange_licence_source_or_duplicate_is_found_and_so_is_a_stale_rule() {
        let good = [
            known("a", "1.0.0"),
            known("a", "2.0.0"),
            known("b", "1.0.0"),
        ];
        assert_eq!(check(RULES, &good), []);
        let with = |change: &dyn Fn(&mut Vec<Crate>)| {
            let mut crates = good.to_vec();
            change(&mut crates);
            check(RULES, &crates).len()
        };
        assert_eq!(with(&|crates| crates[2].licence = "GPL-3.0".into()), 1);
        assert_eq!(with(&|crates| crates[2].source = Some("git+x".into())), 1);
        assert_eq!(with(&|crates| crates[2].source = None), 0);
        assert_eq!(with(&|crates| crates.push(known("b", "1.10.0"))), 1);
        assert_eq!(with(&|crates| drop(crates.remove(0))), 1);
        let bare = RULES.replace(", reason = \"b\"", "");
        assert_eq!(check(&bare, &good).len(), 1);
    }
}
