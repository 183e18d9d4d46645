//! The known attacks: each row of the page says what makes its attack, and `make attack` makes that.

use std::collections::BTreeSet;

use super::Finding;

/// The page with the table.
pub(super) const PAGE: &str = "docs/attacks.md";
/// The attacks of the suite.
pub(super) const SUITE: &str = "tests/attack/attacks.rs";
/// The attacks that are tests: the row, and the name by which `make attack` asks for the test.
pub(super) const TESTS: &str = "tests/attack/tests.txt";

/// Where the tests of the node and those of whole clusters are: the first part of their names here,
/// which cargo leaves out.
const ROOTS: [&str; 2] = ["node::src", "tests::it"];

/// A row of the table, and the name of what makes its attack.
type Made = (String, String);

/// Attacks that the page or `make attack` lacks, and tests that are not there.
pub(super) fn check(page: &str, suite: &str, list: &str, tests: &[String]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut made = of_suite(suite);
    for (row, name) in of_list(list) {
        if let Some(known) = known_as(&name, tests) {
            made.insert((row, known));
        } else {
            findings.push(Finding::whole(TESTS, format!("there is no test `{name}`")));
        }
    }
    let named = of_page(page);
    let unnamed = made.difference(&named).map(|(row, name)| {
        let message = format!("row {row} does not say that `{name}` makes its attack");
        Finding::whole(PAGE, message)
    });
    let unmade = named.difference(&made).map(|(row, name)| {
        let message = format!("`make attack` has no `{name}` of row {row}");
        Finding::whole(PAGE, message)
    });
    findings.extend(unnamed.chain(unmade));
    findings.extend(check_numbers(page));
    findings
}

/// Filters of the Makefile, as in `-- tidy::`, that no test passes: cargo would run none, and
/// succeed.
pub(super) fn check_filters(makefile: &str, tests: &[String]) -> Vec<Finding> {
    let filters = makefile
        .split_whitespace()
        .filter(|word| word.ends_with("::"));
    let passes = |filter: &str| {
        let whole = format!("{}::{filter}", ROOTS[1]);
        tests.iter().any(|test| test.starts_with(&whole))
    };
    filters
        .filter(|filter| !passes(filter))
        .map(|filter| Finding::whole("Makefile", format!("no test passes the filter `{filter}`")))
        .collect()
}

/// The rows of the table: their cells.
fn rows(page: &str) -> impl Iterator<Item = Vec<&str>> {
    let lines = page.lines().filter(|line| line.starts_with("| "));
    let rows = lines.map(|line| {
        let cells = line.trim_matches('|').split('|');
        cells.map(str::trim).collect::<Vec<_>>()
    });
    // The head has no number.
    rows.filter(|cells| cells[0].parse::<usize>().is_ok())
}

/// Rows that are not numbered from 1 on, or that nothing makes.
fn check_numbers(page: &str) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (index, cells) in rows(page).enumerate() {
        let number = index + 1;
        if cells[0] != number.to_string() || cells.len() != 4 || !cells[3].contains('`') {
            let message = format!("row {number} must have that number, and name what makes it");
            findings.push(Finding::whole(PAGE, message));
        }
    }
    findings
}

/// What makes the attacks, as the page says.
fn of_page(page: &str) -> BTreeSet<Made> {
    let mut made = BTreeSet::new();
    for cells in rows(page) {
        let names = cells.last().copied().unwrap_or_default();
        for name in names.split('`').skip(1).step_by(2) {
            made.insert((cells[0].to_owned(), name.to_owned()));
        }
    }
    made
}

/// The attacks of the suite, as its source says.
fn of_suite(source: &str) -> BTreeSet<Made> {
    let attacks = source.split(" name: \"").skip(1);
    let made = attacks.filter_map(|attack| {
        let (name, rest) = attack.split_once('"')?;
        let (_, rest) = rest.split_once("row: \"")?;
        let (row, _) = rest.split_once('"')?;
        Some((row.to_owned(), name.to_owned()))
    });
    made.collect()
}

/// The attacks that are tests.
fn of_list(list: &str) -> impl Iterator<Item = Made> {
    list.lines().map(|line| {
        let (row, name) = line.split_once(' ').unwrap_or((line, ""));
        (row.to_owned(), name.to_owned())
    })
}

/// The name of a test as pages have it, if there is such a test: without a module for tests that is
/// in the file that it tests.
fn known_as(name: &str, tests: &[String]) -> Option<String> {
    let is_there = |name: &String| {
        let mut whole = ROOTS.iter().map(|root| format!("{root}::{name}"));
        whole.any(|whole| tests.contains(&whole))
    };
    let names = [name.to_owned(), name.replacen("::tests::", "::", 1)];
    names.into_iter().find(is_there)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "    name: \"silent\",\n    row: \"1\",\n";
    const LIST: &str = "2 disk::tests::edited_rows_are_refused\n";
    const ROWS: &str = "| number | attack | what bounds it | made by |\n|---|---|---|---|\n\
        | 1 | silence | time | `silent` |\n| 2 | edits | seals | `disk::edited_rows_are_refused` |\n";

    fn findings(page: &str, source: &str, list: &str) -> usize {
        let tests = ["node::src::disk::edited_rows_are_refused".to_owned()];
        check(page, source, list, &tests).len()
    }

    #[test]
    fn attack_that_page_or_make_lacks_is_found() {
        assert_eq!(findings(ROWS, SOURCE, LIST), 0);
        assert_eq!(findings(ROWS, "", LIST), 1);
        assert_eq!(findings(ROWS, SOURCE, ""), 1);
        let more = format!("{SOURCE}    name: \"loud\",\n    row: \"1\",\n");
        assert_eq!(findings(ROWS, &more, LIST), 1);
        let other_row = SOURCE.replace('1', "2");
        assert_eq!(findings(ROWS, &other_row, LIST), 2);
    }

    #[test]
    fn attack_whose_test_is_gone_is_found() {
        // The page names a test that `make attack` does not run, too.
        let gone = LIST.replace("edited", "moved");
        assert_eq!(findings(ROWS, SOURCE, &gone), 2);
        // Exact names begin at the top of the crate.
        let deeper = LIST.replace("disk::", "storage::disk::");
        assert_eq!(findings(ROWS, SOURCE, &deeper), 2);
    }

    #[test]
    fn row_without_its_number_or_a_maker_is_found() {
        let misnumbered = ROWS.replace("| 2 |", "| 3 |");
        let list = LIST.replace('2', "3");
        assert_eq!(findings(&misnumbered, SOURCE, &list), 1);
        let bare = ROWS.replace("`silent`", "nothing");
        assert_eq!(findings(&bare, "", LIST), 1);
    }

    #[test]
    fn filter_that_no_test_passes_is_found() {
        let tests = ["tests::it::tidy::pages_are_short".to_owned()];
        assert_eq!(check_filters("\tcargo test -- tidy::\n", &tests), []);
        assert_eq!(check_filters("\tcargo test -- tide::\n", &tests).len(), 1);
    }
}
