//! Links in Markdown pages: the file that a relative link names is there, and so is the heading. Source files and tests that a
//! page names in passing are there too.

use super::Finding;

/// Every link of the page that leads nowhere. `exists` and `read` take paths relative to the top.
pub(super) fn check(
    page: &str,
    text: &str,
    exists: impl Fn(&str) -> bool,
    read: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, target) in targets(text) {
        let (file, heading) = target.split_once('#').unwrap_or((target, ""));
        let path = if file.is_empty() {
            page.to_owned()
        } else {
            resolve(page, file)
        };
        let broken = if !exists(&path) {
            Some(format!("links to {target}, which is not there"))
        } else if heading.is_empty() || !path.ends_with(".md") {
            None
        } else {
            let text = if file.is_empty() {
                text.to_owned()
            } else {
                read(&path)
            };
            let found = headings(&text).any(|found| found == heading);
            (!found).then(|| format!("links to {target}, which has no such heading"))
        };
        findings.extend(broken.map(|message| Finding {
            path: page.to_owned(),
            line,
            message,
        }));
    }
    findings
}

/// Every source file, and every test, that the page names in a code span and that is not there.
pub(super) fn check_names(
    page: &str,
    text: &str,
    paths: &[String],
    tests: &[String],
) -> Vec<Finding> {
    // An address ends as a directory does.
    let is_file =
        |name: &str| name.ends_with(".rs") || (name.ends_with('/') && !name.contains("://"));
    let is_test = |name: &str| {
        name.contains("::")
            && name
                .split("::")
                .last()
                .is_some_and(|last| last.contains('_'))
    };
    let known_file = |name: &str| {
        paths
            .iter()
            .any(|path| format!("/{path}").contains(&format!("/{name}")))
    };
    let known_test = |name: &str| tests.iter().any(|test| test == name);
    let mut findings = Vec::new();
    for (line, text) in prose(text) {
        let spans = text.split('`').skip(1).step_by(2);
        let unknown = spans.filter(|name| {
            (is_file(name) && !known_file(name)) || (is_test(name) && !known_test(name))
        });
        findings.extend(unknown.map(|name| {
            let message = format!("names `{name}`, which is not there");
            Finding {
                path: page.to_owned(),
                line,
                message,
            }
        }));
    }
    findings
}

/// Line and target of each relative link. Links to the web and to Rust items are not ours to follow.
fn targets(text: &str) -> Vec<(usize, &str)> {
    let mut found = Vec::new();
    for (number, line) in prose(text) {
        let inline = line.match_indices("](").filter_map(|(offset, _)| {
            let rest = &line[offset + 2..];
            rest.find(')').map(|end| &rest[..end])
        });
        let definition = line
            .strip_prefix('[')
            .and_then(|rest| rest.split_once("]: "))
            .map(|(_, target)| target);
        found.extend(
            inline
                .chain(definition)
                .map(|target| (number, target.trim())),
        );
    }
    found.retain(|(_, target)| {
        !target.contains("://") && !target.contains("::") && !target.starts_with("mailto:")
    });
    found
}

/// The lines outside code fences, numbered from 1.
pub(super) fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut fenced = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        (!fenced && !fence).then_some((index + 1, line))
    })
}

/// The anchors of the headings.
fn headings(text: &str) -> impl Iterator<Item = String> {
    let titles = prose(text).filter(|(_, line)| line.starts_with('#'));
    titles.map(|(_, line)| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title
            .chars()
            .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    })
}

fn resolve(page: &str, file: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in file.split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            _ => parts.push(part),
        }
    }
    parts.join("/").trim_end_matches('/').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "# Crash table\n[a](src/lib.rs) [b](../LICENSE#top) [c](https://a.example) [d](#crash-table)\n";

    fn findings(text: &str) -> Vec<Finding> {
        check(
            "docs/mcp.md",
            text,
            |path| path != "docs/gone.md",
            |_| PAGE.to_owned(),
        )
    }

    #[test]
    fn a_link_to_nowhere_is_found() {
        assert_eq!(findings(PAGE), []);
        assert_eq!(findings("see [it](gone.md)").len(), 1);
        assert_eq!(findings("[it]: gone.md").len(), 1);
        assert_eq!(findings("```\nsee [it](gone.md)\n```").len(), 0);
    }

    #[test]
    fn a_file_or_test_that_is_gone_is_found() {
        let paths = ["node/src/raft/mod.rs".to_owned()];
        let tests = ["restart::all_nodes".to_owned()];
        let findings = |text: &str| check_names("README.md", text, &paths, &tests).len();
        assert_eq!(
            findings("| `raft/` | `src/raft/mod.rs` | `restart::all_nodes` | `machine::query` |"),
            0
        );
        assert_eq!(findings("| `roft/` |"), 1);
        assert_eq!(findings("| `src/raft/gone.rs` |"), 1);
        assert_eq!(findings("shown by `restart::some_nodes`"), 1);
    }

    #[test]
    fn a_link_to_a_missing_heading_is_found() {
        assert_eq!(findings("[a](other.md#crash-table)").len(), 0);
        assert_eq!(findings("[a](other.md#crush-table)").len(), 1);
    }
}
