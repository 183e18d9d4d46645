//! How pages and comments are written: no words that hide who does what. Pages also have lines of at
//! most 100 columns and paragraphs of at most five lines, and README is short.
//!
//! Code fences are left out everywhere, and tables where width, paragraphs and sentences are
//! concerned: a row is one line.

use super::{Finding, links::prose, source::Source};

/// Columns of a line of prose.
const COLUMNS_MAX: usize = 100;
/// Lines of a paragraph. A list item is no paragraph.
const PARAGRAPH_LINES_MAX: usize = 5;
/// Words of README, with its examples and tables.
const README_WORDS_MAX: usize = 1_500;
/// Words of README's median sentence.
const README_SENTENCE_WORDS_MAX: usize = 18;

/// Comments below these paths are free of banned words.
const PLAIN_COMMENTS: [&str; 4] = ["client/", "node/", "proto/", "tests/"];

/// Words and phrases that hide who does what. Code spans may hold them: names of tests do.
const BANNED: [&str; 14] = [
    "whoever",
    "nobody",
    "anew",
    "stands",
    "stand for",
    "what there is",
    "that there is not",
    "so many",
    "of late",
    "in earnest",
    "by reckoning",
    "to be had",
    "comes to",
    "lives shortly",
];

/// Every line that is too wide, paragraph that is too long, and banned word of a page.
pub(super) fn check_page(page: &str, text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut report = |line: usize, message: String| {
        findings.push(Finding {
            path: page.to_owned(),
            line,
            message,
        });
    };
    for (number, line) in prose(text) {
        let columns = line.chars().count();
        if columns > COLUMNS_MAX && !is_table(line) && line.trim().contains(' ') {
            report(number, format!("{columns} columns: wrap at {COLUMNS_MAX}"));
        }
    }
    for block in blocks(text) {
        if block.kind == Kind::Paragraph && block.lines > PARAGRAPH_LINES_MAX {
            let message = format!(
                "a paragraph of {} lines: at most {PARAGRAPH_LINES_MAX}",
                block.lines
            );
            report(block.first, message);
        }
        for banned in banned_words(&block.text) {
            report(block.first, format!("`{banned}`: say it plainly"));
        }
    }
    findings
}

/// Every banned word of a file's comments, where these are plain already.
pub(super) fn check_comments(source: &Source) -> Vec<Finding> {
    if !PLAIN_COMMENTS
        .iter()
        .any(|path| source.path.starts_with(path))
    {
        return Vec::new();
    }
    // Code becomes an empty line, so that it separates the comments around it.
    let comments: Vec<&str> = source.text.lines().map(comment).collect();
    let comments = comments.join("\n");
    let words = blocks(&comments).flat_map(|block| {
        let words = banned_words(&block.text).into_iter();
        words.map(move |banned| (block.first, banned))
    });
    let findings = words.map(|(line, banned)| Finding {
        path: source.path.clone(),
        line,
        message: format!("`{banned}` in a comment: say who does what"),
    });
    findings.collect()
}

/// The text of a comment's line; empty for code.
fn comment(line: &str) -> &str {
    let line = line.trim_start();
    let text = ["///", "//!", "//"]
        .iter()
        .find_map(|mark| line.strip_prefix(mark));
    text.unwrap_or("").trim()
}

/// Whether README is short, and so are its sentences.
pub(super) fn check_readme(text: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    let words = text.split_whitespace().count();
    if words > README_WORDS_MAX {
        let message =
            format!("{words} words: at most {README_WORDS_MAX}; pages in docs/ hold more");
        findings.push(Finding::whole("README.md", message));
    }
    let median = median_sentence(text);
    if median > README_SENTENCE_WORDS_MAX {
        let message =
            format!("the median sentence has {median} words: at most {README_SENTENCE_WORDS_MAX}");
        findings.push(Finding::whole("README.md", message));
    }
    findings
}

/// Words of the median sentence of paragraphs and lists; 0 without any.
fn median_sentence(text: &str) -> usize {
    let mut lengths: Vec<usize> = blocks(text)
        .filter(|block| matches!(block.kind, Kind::Paragraph | Kind::Item))
        .flat_map(|block| sentences(&block.text))
        .collect();
    lengths.sort_unstable();
    lengths.get(lengths.len() / 2).copied().unwrap_or(0)
}

/// Words of each sentence.
fn sentences(text: &str) -> Vec<usize> {
    let mut lengths = Vec::new();
    let mut words = 0;
    for word in text.split_whitespace() {
        words += 1;
        let end = word.trim_end_matches([')', '*', '"', '`', '_']);
        if end.ends_with(['.', '!', '?']) {
            lengths.push(words);
            words = 0;
        }
    }
    lengths.extend((words > 0).then_some(words));
    lengths
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Heading,
    Item,
    Paragraph,
    Row,
}

/// What is read as one: a heading, a row of a table, a list item, or a paragraph.
struct Block {
    kind: Kind,
    /// Number of its first line, from 1.
    first: usize,
    lines: usize,
    text: String,
}

fn blocks(text: &str) -> impl Iterator<Item = Block> {
    let mut found: Vec<Block> = Vec::new();
    let mut last = 0;
    for (number, line) in prose(text) {
        let line = line.trim();
        let kind = match line {
            "" => continue,
            _ if line.starts_with('#') => Kind::Heading,
            _ if is_table(line) => Kind::Row,
            _ if is_item(line) => Kind::Item,
            _ => Kind::Paragraph,
        };
        let open = found.last_mut().filter(|block| {
            number == last + 1 && matches!(block.kind, Kind::Item | Kind::Paragraph)
        });
        last = number;
        match open {
            Some(block) if kind == Kind::Paragraph => {
                block.lines += 1;
                block.text = format!("{} {line}", block.text);
            }
            _ => found.push(Block {
                kind,
                first: number,
                lines: 1,
                text: line.to_owned(),
            }),
        }
    }
    found.into_iter()
}

fn is_table(line: &str) -> bool {
    line.trim_start().starts_with('|')
}

/// Whether the line begins an item of a list, numbered or not.
fn is_item(line: &str) -> bool {
    let Some((mark, _)) = line.split_once(' ') else {
        return false;
    };
    let number = mark.strip_suffix('.').unwrap_or("");
    matches!(mark, "-" | "*") || (!number.is_empty() && number.chars().all(|c| c.is_ascii_digit()))
}

/// The banned words and phrases in a text.
fn banned_words(text: &str) -> Vec<&'static str> {
    let text = format!(" {} ", bare_words(text).join(" "));
    let found = BANNED
        .iter()
        .filter(|banned| text.contains(&format!(" {banned} ")));
    found.copied().collect()
}

/// Words in lower case, without code spans and punctuation.
fn bare_words(text: &str) -> Vec<String> {
    let outside: Vec<&str> = text.split('`').step_by(2).collect();
    let outside = outside.join(" ` ").to_lowercase();
    let words = outside
        .split(|c: char| c.is_whitespace() || matches!(c, ',' | ';' | ':' | '.' | '(' | ')'));
    words
        .map(|word| {
            word.trim_matches(|c: char| c != '`' && !c.is_alphanumeric())
                .to_owned()
        })
        .filter(|word| !word.is_empty())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn findings(text: &str) -> usize {
        check_page("docs/limits.md", text).len()
    }

    #[test]
    fn wide_line_is_found_outside_code_and_tables() {
        let wide = "word ".repeat(21);
        assert_eq!(findings(&wide), 1);
        assert_eq!(findings(&format!("| {wide} |")), 0);
        assert_eq!(findings(&format!("```\n{wide}\n```")), 0);
        assert_eq!(findings(&"word ".repeat(20)), 0);
        assert_eq!(findings(&"x".repeat(200)), 0, "a URL cannot be wrapped");
    }

    #[test]
    fn long_paragraph_is_found() {
        assert_eq!(findings(&"a line\n".repeat(5)), 0);
        assert_eq!(findings(&"a line\n".repeat(6)), 1);
        assert_eq!(findings("- a\n  b\n  c\n  d\n  e\n  f\n- g\n"), 0);
    }

    #[test]
    fn banned_word_is_found_outside_code() {
        assert_eq!(findings("Nobody waits."), 1);
        assert_eq!(findings("# Who comes\nto the port"), 0, "two blocks");
        assert_eq!(
            findings("what it comes\nto is one"),
            1,
            "over the end of a line"
        );
        assert_eq!(findings("| a | made anew |"), 1);
        assert_eq!(findings("`a_list_that_nobody_reads` and `nobody`"), 0);
        assert_eq!(findings("```\nnobody\n```"), 0);
        assert_eq!(findings("It understands."), 0);
    }

    #[test]
    fn banned_word_in_a_comment_is_found() {
        let findings = |path, text| check_comments(&Source::new(path, text)).len();
        assert_eq!(
            findings("tests/a.rs", "/// What it comes\n/// to.\nfn a() {}\n"),
            1
        );
        assert_eq!(
            findings("tests/a.rs", "fn a() {} // whoever calls\n"),
            0,
            "by review"
        );
        assert_eq!(findings("tests/a.rs", "    // whoever calls\n"), 1);
        assert_eq!(
            findings("tests/a.rs", "/// What it comes\nfn a() {}\n/// to b.\n"),
            0
        );
        assert_eq!(findings("tests/a.rs", "fn nobody() { a(\"nobody\") }\n"), 0);
    }

    #[test]
    fn long_readme_is_found() {
        assert_eq!(check_readme("It is short.").len(), 0);
        assert_eq!(check_readme(&"word. ".repeat(1_501)).len(), 1);
        let sentence = format!("{}.\n\n", "word ".repeat(19).trim());
        assert_eq!(check_readme(&sentence.repeat(3)).len(), 1);
        assert_eq!(
            check_readme(&format!("{sentence}Short.\n\n- Short, too.\n")).len(),
            0
        );
    }
}
