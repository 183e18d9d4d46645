//! The newest feature level, as the code has it and as pages say it: a page that ends at an older one hides what an upgrade brings.

use super::Finding;

/// Where the newest level is.
pub(super) const LIMITS: &str = "node/machine/src/limits.rs";
/// The constant there, up to its number.
const CONSTANT: &str = "pub const FEATURE_LEVEL: u32 = ";
/// Each file with a table of levels, and what a row of it begins with.
pub(super) const TABLES: [(&str, &str); 1] = [("docs/versions.md", "| ")];
/// Each page that names the newest level, with the words before the number.
pub(super) const NAMED: [(&str, &str); 2] = [
    ("docs/versions.md", "feature level, "),
    ("CHANGELOG.md", "feature level (now "),
];

/// The newest level.
///
/// # Errors
/// If the file has no such constant.
pub(super) fn newest(limits: &str) -> Result<u32, Finding> {
    let found = limits.split_once(CONSTANT);
    let number = found.and_then(|(_, rest)| leading(rest));
    number.ok_or_else(|| Finding::whole(LIMITS, format!("has no `{CONSTANT}N`")))
}

/// Whether a table lists each level once, in order, and no other.
pub(super) fn check_table(path: &str, text: &str, row: &str, newest: u32) -> Option<Finding> {
    let is_head = |line: &&str| {
        line.strip_prefix(row)
            .is_some_and(|rest| rest.starts_with("level |"))
    };
    let lines = text.lines().skip_while(|line| !is_head(line)).skip(2);
    let rows = lines.map_while(|line| line.strip_prefix(row));
    let listed: Vec<Option<u32>> = rows.map(leading).collect();
    let expected: Vec<Option<u32>> = (1..=newest).map(Some).collect();
    (listed != expected).then(|| {
        let message = format!("the table of levels must have a row for each of 1 to {newest}");
        Finding::whole(path, message)
    })
}

/// Whether a page names the newest level behind these words.
pub(super) fn check_named(path: &str, text: &str, words: &str, newest: u32) -> Option<Finding> {
    let named = text.split_once(words).and_then(|(_, rest)| leading(rest));
    (named != Some(newest)).then(|| {
        let message = format!("`{words}` must be followed by {newest}, the newest feature level");
        Finding::whole(path, message)
    })
}

/// The number that a text begins with.
fn leading(text: &str) -> Option<u32> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str =
        "# Page\n\n| level | what it brought |\n|---|---|\n| 1 | a |\n| 2 | b |\n\n| x | 9 |\n";

    #[test]
    fn newest_level_is_read_or_missed() {
        let text = "/// The newest.\npub const FEATURE_LEVEL: u32 = 16;\n";
        assert_eq!(newest(text), Ok(16));
        assert!(newest("pub const FEATURE_LEVEL: u32 = OTHER;").is_err());
        assert!(newest("").is_err());
    }

    #[test]
    fn table_that_lacks_a_level_or_has_one_more_is_found() {
        assert_eq!(check_table("a.md", PAGE, "| ", 2), None);
        for newest in [1, 3] {
            assert!(check_table("a.md", PAGE, "| ", newest).is_some());
        }
        let twice = PAGE.replace("| 2 |", "| 1 |");
        assert!(check_table("a.md", &twice, "| ", 2).is_some());
        assert!(check_table("a.md", "no table", "| ", 2).is_some());
        let source = PAGE.replace('\n', "\n//! ");
        assert_eq!(check_table("a.rs", &source, "//! | ", 2), None);
    }

    #[test]
    fn page_that_names_an_older_level_or_none_is_found() {
        let page = "| what it means | feature level, 12 | x |";
        assert_eq!(check_named("a.md", page, "feature level, ", 12), None);
        assert!(check_named("a.md", page, "feature level, ", 1).is_some());
        assert!(check_named("a.md", "feature level", "feature level, ", 12).is_some());
    }
}
