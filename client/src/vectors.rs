//! The test vectors that every client keeps, for the tests beside the code that they are about.

use std::{fs, path::Path};

use serde_json::Value;

/// One part of a file in `docs/clients/vectors/`. The file's `about` says how to read it.
pub(crate) fn part(file: &str, name: &str) -> Vec<Value> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/clients/vectors");
    let text = fs::read_to_string(directory.join(file)).expect("the file is in the checkout");
    let vectors: Value = serde_json::from_str(&text).expect("it is JSON");
    let cases = vectors[name].as_array().cloned().unwrap_or_default();
    assert!(!cases.is_empty(), "{file} has no {name}");
    cases
}

/// One part of a file that is a list of texts.
pub(crate) fn texts(file: &str, name: &str) -> Vec<String> {
    let texts = part(file, name).into_iter();
    let text = |each: Value| each.as_str().expect("it is a text").to_owned();
    texts.map(text).collect()
}
