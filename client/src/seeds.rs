//! Runs a fuzz target on its seeds, which hold what once made it fail, too. Shared with `helve-mcp`
//! and the node.

use std::{fs, path::Path};

/// Runs a target on each of its seeds: the files of `tests/fuzz/seeds/TARGET`.
///
/// # Panics
/// If there is none, or if the target does.
pub(crate) fn each(target: &str, run: fn(&[u8])) {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors();
    let mut seeds = crates.map(|it| it.join("tests/fuzz/seeds").join(target));
    let seeds = seeds.find(|it| it.is_dir()).expect("the target has seeds");
    let mut ran = 0;
    for seed in fs::read_dir(seeds).expect("a directory") {
        let path = seed.expect("a file").path();
        run(&fs::read(&path).expect("it can be read"));
        ran += 1;
    }
    assert!(ran > 0, "{target} has no seed");
}
