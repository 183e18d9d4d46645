//! Tests of the rule on circles, on crates of a few lines.

use super::{Source, check, of};

/// A crate of these files.
fn sources(files: &[(&str, &str)]) -> Vec<Source> {
    let files = files.iter();
    files
        .map(|(name, text)| Source::new(&format!("node/src/{name}.rs"), text))
        .collect()
}

fn circles(files: &[(&str, &str)]) -> Vec<String> {
    let circles = of(&sources(files)).into_iter();
    circles
        .map(|circle| circle.join(" ").replace("node/src/", "").replace(".rs", ""))
        .collect()
}

const ROOT: (&str, &str) = ("lib", "mod a; mod b; mod c; mod d;");

#[test]
fn a_circle_is_found_however_its_imports_are_written() {
    let ways = [
        "use crate::b::B;",
        "use super::b::B;",
        "use crate::{c::C, b::{B as Other, D}};",
        "fn a() -> crate::b::B { todo() }",
        "mod inside { use super::super::b::B; }",
    ];
    for way in ways {
        let files = [ROOT, ("a", way), ("b", "use crate::a::A;"), ("c", "")];
        assert_eq!(circles(&files), ["a b"], "{way}");
    }
}

#[test]
fn a_parent_that_names_a_child_and_is_named_by_it_is_a_circle() {
    let child = ("a/x", "use super::A;");
    for way in [
        "mod x; use self::x::X;",
        "mod x; fn a() { x::run() }",
        "mod x; use x::X;",
    ] {
        let files = [ROOT, ("a", way), child, ("b", ""), ("c", "")];
        assert_eq!(circles(&files), ["a a/x"], "{way}");
    }
    let declared = [ROOT, ("a", "mod x;"), child, ("b", ""), ("c", "")];
    assert!(circles(&declared).is_empty());
}

#[test]
fn a_reexport_counts_as_the_file_that_defines_the_name() {
    let parent = (
        "a",
        "mod x; mod y; pub use self::x::X; pub(crate) use y::{Y, Z as Other};",
    );
    let straight = [
        ROOT,
        parent,
        ("a/x", "use super::Other;"),
        ("a/y", "use crate::b::B;"),
        ("b", ""),
        ("c", "use crate::a::X;"),
    ];
    assert!(circles(&straight).is_empty());
    let mut round = straight;
    round[4] = ("b", "use crate::a::X;");
    assert_eq!(circles(&round), ["a/x a/y b"]);
}

#[test]
fn what_only_tests_comments_and_inline_modules_name_is_no_import() {
    let ways = [
        "#[cfg(test)] mod tests { use crate::b::B; }",
        "// use crate::b::B;",
        "mod inside { use super::A; }",
        "pub(in crate::b) struct A;",
    ];
    for way in ways {
        let files = [ROOT, ("a", way), ("b", "use crate::a::A;")];
        assert!(circles(&files).is_empty(), "{way}");
    }
}

#[test]
fn only_a_circle_of_more_than_three_files_is_a_finding() {
    let mut files = [
        ROOT,
        ("a", "use crate::b::B;"),
        ("b", "use crate::c::C;"),
        ("c", "use crate::a::A;"),
        ("d", ""),
    ];
    assert!(check(&sources(&files)).is_empty());
    files[3] = ("c", "use crate::d::D;");
    files[4] = ("d", "use crate::a::A;");
    let found = check(&sources(&files));
    assert_eq!(found.len(), 1);
    assert!(found[0].message.contains("4 files"), "{}", found[0]);
}
