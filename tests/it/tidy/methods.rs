//! How many methods a type may have, over all its `impl` blocks. A type with more has more than one duty: split it by duty.
//!
//! Constructors count. Methods of traits do not, for the trait says how many there are, nor does what only tests compile.

use std::collections::BTreeMap;

use super::{
    Finding,
    source::{Source, closing_brace},
};

const METHODS_MAX: usize = 25;

/// Types that may have more, by the file that defines them, and how many. The number may fall and not rise.
const EXCEPTIONS: [(&str, &str, usize); 3] = [
    // What every operation of the machine reads and writes: a third of it passes on to the deadline index and to counters.
    ("node/machine/src/batch.rs", "Batch", 40),
    // Whether it was, is and may be a member is a duty of its own.
    ("node/src/identity.rs", "Identity", 26),
    // A method a table, and nothing but keys.
    ("node/machine/src/layout.rs", "Space", 30),
];

/// Types with more methods than they may have.
pub(super) fn check(sources: &[Source]) -> Vec<Finding> {
    let mut counted: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for source in sources {
        for (name, methods) in impls(&source.shipped) {
            let file = defined_in(sources, source, name).unwrap_or(&source.path);
            *counted.entry((file, name)).or_default() += methods;
        }
    }
    let bound = |file, name| {
        let mut exceptions = EXCEPTIONS.iter();
        let exception = exceptions.find(|(path, known, _)| (*path, *known) == (file, name));
        exception.map_or(METHODS_MAX, |(_, _, methods)| *methods)
    };
    let large = counted.into_iter().filter_map(|((file, name), methods)| {
        let bound = bound(file, name);
        let message = format!("{name} has {methods} methods, {bound} at most: split it by duty");
        (methods > bound).then(|| Finding::whole(file, message))
    });
    large.collect()
}

/// The file of the same crate that defines a type, the nearest one if several define one of this name.
fn defined_in<'a>(sources: &'a [Source], user: &Source, name: &str) -> Option<&'a str> {
    let root = user.path.find("src/").map_or("", |at| &user.path[..at]);
    let files = sources.iter().filter(|file| {
        let mut named = Source::find_words(&file.shipped, name);
        file.path.starts_with(root)
            && named.any(|at| {
                let before = file.shipped[..at].trim_end();
                before.ends_with("struct") || before.ends_with("enum")
            })
    });
    let shared = |file: &&Source| {
        let pairs = file.path.bytes().zip(user.path.bytes());
        pairs.take_while(|(theirs, own)| theirs == own).count()
    };
    files.max_by_key(shared).map(|file| file.path.as_str())
}

/// The type of each `impl` block that is no trait's, and how many functions it has.
fn impls(code: &str) -> Vec<(&str, usize)> {
    let found = Source::find_words(code, "impl").filter_map(|at| {
        let before = code[..at].trim_end();
        let is_item = before.is_empty() || before.ends_with(['}', ';', ']', '{']);
        let open = at + code[at..].find('{')?;
        let head = without_generics(code[at + "impl".len()..open].trim());
        let is_of_trait = Source::find_words(head, "for").next().is_some();
        let name = head
            .split(|c: char| !c.is_alphanumeric() && c != '_')
            .next()?;
        let body = &code[open..closing_brace(code, open)];
        (is_item && !is_of_trait).then(|| (name, functions(body)))
    });
    found.collect()
}

/// What follows the generics that an `impl` begins with.
fn without_generics(head: &str) -> &str {
    let mut depth = 0_usize;
    let mut last = ' ';
    for (at, c) in head.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if last != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let rest = if c == '>' { at + 1 } else { at };
            return head[rest..].trim_start();
        }
        last = c;
    }
    head
}

/// How many functions a block has, without those inside of others.
fn functions(body: &str) -> usize {
    let depth_at = |at: usize| {
        let braces = body[..at].bytes();
        braces.fold(0_i32, |depth, byte| {
            depth + i32::from(byte == b'{') - i32::from(byte == b'}')
        })
    };
    Source::find_words(body, "fn")
        .filter(|&at| depth_at(at) == 1)
        .count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(count: usize) -> String {
        let method = "    /// fn doc\n    pub(crate) fn m(&self, f: impl Fn()) { fn inner() {} }\n";
        method.repeat(count)
    }

    fn found(files: &[(&str, String)]) -> Vec<String> {
        let sources = files.iter();
        let sources: Vec<_> = sources
            .map(|(path, text)| Source::new(path, text))
            .collect();
        let found = check(&sources).into_iter();
        found.map(|finding| finding.to_string()).collect()
    }

    #[test]
    fn methods_of_all_blocks_of_a_type_add_up() {
        let blocks = |count| {
            [
                (
                    "node/src/a.rs",
                    format!(
                        "struct A<T>(T);\nimpl<T: Fn() -> u8> A<T> {{\n{}}}",
                        methods(20)
                    ),
                ),
                (
                    "node/src/a/b.rs",
                    format!(
                        "impl super::A<u8> {{}}\nimpl A<u8> {{\n{}}}",
                        methods(count)
                    ),
                ),
            ]
        };
        assert!(found(&blocks(METHODS_MAX - 20)).is_empty());
        let large = found(&blocks(METHODS_MAX - 19));
        assert_eq!(large.len(), 1);
        assert!(
            large[0].contains("a.rs") && large[0].contains("A has 26 methods"),
            "{large:?}"
        );
    }

    #[test]
    fn methods_of_traits_tests_and_namesakes_do_not_count() {
        let all = methods(METHODS_MAX);
        let more = methods(METHODS_MAX + 1);
        let text = format!(
            "struct A;\nimpl A {{\n{all}}}\nimpl B for A {{\n{more}}}\n#[cfg(test)]\nimpl A {{\n{more}}}\ntrait C {{\n{more}}}"
        );
        let namesake = format!("enum A {{ B }}\nimpl A {{\n{all}}}");
        let elsewhere = format!("struct A;\nimpl A {{\n{all}}}");
        let files = [
            ("node/src/a.rs", text),
            ("node/src/b/c.rs", namesake),
            ("client/src/a.rs", elsewhere),
        ];
        assert_eq!(found(&files), Vec::<String>::new());
    }
}
