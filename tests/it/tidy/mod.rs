//! What clippy cannot say of the source tree: where imports may point, what a file may be called and how long it may be, which
//! words may be used where, whether the pages' links lead somewhere, and how the pages are written.
//!
//! Each rule is a function from a file to findings. Its own tests show it a planted offender and an innocent neighbour.

mod attacks;
mod budget;
mod circles;
mod decoders;
mod imports;
mod layout;
mod levels;
mod links;
mod methods;
mod prose;
mod source;
mod supply;
mod tree;
mod words;

use std::fmt;

use source::Source;

/// One breach of a rule.
#[derive(Debug, PartialEq, Eq)]
struct Finding {
    path: String,
    /// From 1; 0 where the finding is about the file as a whole.
    line: usize,
    message: String,
}

impl Finding {
    fn at(source: &Source, offset: usize, message: impl Into<String>) -> Self {
        Self {
            path: source.path.clone(),
            line: source.line_of(offset),
            message: message.into(),
        }
    }

    fn whole(path: &str, message: impl Into<String>) -> Self {
        Self {
            path: path.to_owned(),
            line: 0,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Fails with all findings, one a line.
fn assert_clean(findings: &[Finding]) {
    let lines: Vec<String> = findings.iter().map(ToString::to_string).collect();
    assert!(
        lines.is_empty(),
        "{} findings:\n{}",
        lines.len(),
        lines.join("\n")
    );
}

#[test]
fn imports_point_one_way() {
    let map = imports::CodeMap::read(&tree::read("ARCHITECTURE.md"));
    let mut findings: Vec<_> = tree::rust_sources()
        .iter()
        .flat_map(|source| imports::check_source(source, &map))
        .collect();
    findings.extend(tree::manifests().iter().flat_map(imports::check_manifest));
    assert_clean(&findings);
}

#[test]
fn no_more_than_three_files_import_in_a_circle() {
    assert_clean(&circles::check(&tree::rust_sources()));
}

#[test]
fn the_client_builds_without_rocksdb_rmcp_and_openraft() {
    assert_clean(&imports::check_client_tree());
}

#[test]
fn files_and_functions_stay_in_budget() {
    let sources = tree::rust_sources();
    let mut findings: Vec<_> = sources.iter().flat_map(budget::check_source).collect();
    findings.extend(budget::check_median(&sources));
    findings.extend(budget::check_functions(&sources));
    assert_clean(&findings);
}

#[test]
fn no_type_has_more_methods_than_one_duty_needs() {
    assert_clean(&methods::check(&tree::rust_sources()));
}

#[test]
fn every_decoder_of_what_comes_over_the_network_has_a_property_test() {
    let mut findings = decoders::check_sources(&tree::rust_sources());
    findings.extend(decoders::check_tests(tree::read));
    assert_clean(&findings);
}

#[test]
fn every_decoder_has_a_fuzz_target_with_seeds_or_an_excuse() {
    let manifest = tree::read("tests/fuzz/Cargo.toml");
    assert_clean(&decoders::check_targets(&tree::paths(), &manifest));
}

#[test]
fn only_known_licences_sources_and_duplicates_come_along() {
    assert_clean(&supply::check(&tree::read(".deny.toml"), &supply::crates()));
}

#[test]
fn no_word_stands_where_it_may_not() {
    assert_clean(
        &tree::rust_sources()
            .iter()
            .flat_map(words::check_source)
            .collect::<Vec<_>>(),
    );
}

#[test]
fn files_are_named_after_what_they_hold() {
    let paths = tree::paths();
    let mut findings: Vec<_> = paths
        .iter()
        .filter_map(|path| layout::check_name(path))
        .collect();
    findings.extend(layout::check_top_level(
        &tree::top_level(),
        &tree::read("README.md"),
    ));
    assert_clean(&findings);
}

#[test]
fn what_the_pages_link_to_and_name_is_there() {
    let paths = tree::paths();
    let tests = tree::tests();
    let mut findings = Vec::new();
    for page in paths.iter().filter(|path| path.ends_with(".md")) {
        let text = tree::read(page);
        findings.extend(links::check(page, &text, tree::exists, tree::read));
        findings.extend(links::check_names(page, &text, &paths, &tests));
    }
    assert_clean(&findings);
}

#[test]
fn make_attack_makes_the_attacks_that_the_page_lists() {
    let tests = tree::tests();
    let [page, suite, list] = [attacks::PAGE, attacks::SUITE, attacks::TESTS].map(tree::read);
    let mut findings = attacks::check(&page, &suite, &list, &tests);
    findings.extend(attacks::check_filters(&tree::read("Makefile"), &tests));
    assert_clean(&findings);
}

#[test]
fn pages_name_the_newest_feature_level() {
    let newest = levels::newest(&tree::read(levels::LIMITS));
    let newest = newest.unwrap_or_else(|finding| panic!("{finding}"));
    let tables = levels::TABLES.iter();
    let tables =
        tables.filter_map(|(path, row)| levels::check_table(path, &tree::read(path), row, newest));
    let named = levels::NAMED.iter();
    let named = named
        .filter_map(|(path, words)| levels::check_named(path, &tree::read(path), words, newest));
    assert_clean(&tables.chain(named).collect::<Vec<_>>());
}

#[test]
fn pages_and_comments_are_written_plainly() {
    let paths = tree::paths();
    let pages = paths.iter().filter(|path| path.ends_with(".md"));
    let mut findings: Vec<_> = pages
        .flat_map(|page| prose::check_page(page, &tree::read(page)))
        .collect();
    findings.extend(prose::check_readme(&tree::read("README.md")));
    findings.extend(tree::rust_sources().iter().flat_map(prose::check_comments));
    assert_clean(&findings);
}
