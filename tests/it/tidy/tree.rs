//! The source tree on disk: every path is relative to the top of the checkout and uses `/`.

use std::{
    fs,
    path::{Path, PathBuf},
};

use super::source::Source;

fn top() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests crate lies in the workspace")
        .to_owned()
}

/// Names in the top directory.
pub(super) fn top_level() -> Vec<String> {
    names(&top())
}

/// Every file, but for build output and version control.
pub(super) fn paths() -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![String::new()];
    while let Some(directory) = open.pop() {
        for name in names(&top().join(&directory)) {
            let path = if directory.is_empty() {
                name.clone()
            } else {
                format!("{directory}/{name}")
            };
            if top().join(&path).is_dir() {
                if !matches!(name.as_str(), "target" | ".git") {
                    open.push(path);
                }
            } else if path != ".git" {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

pub(super) fn rust_sources() -> Vec<Source> {
    of_kind(".rs")
}

pub(super) fn manifests() -> Vec<Source> {
    of_kind("Cargo.toml")
}

/// Names of tests, as `module::test`, and with each module around it before that: `parent::module::test`.
pub(super) fn tests() -> Vec<String> {
    let mut tests = Vec::new();
    for path in paths() {
        let Some(module) = path.strip_suffix(".rs") else {
            continue;
        };
        let module = module.trim_end_matches("/mod");
        let text = read(&path);
        let functions = text.split("fn ").skip(1);
        for name in functions.filter_map(|rest| rest.split(['(', '<']).next()) {
            let mut around = String::new();
            for part in module.rsplit('/') {
                around = if around.is_empty() {
                    part.to_owned()
                } else {
                    format!("{part}::{around}")
                };
                tests.push(format!("{around}::{name}"));
            }
        }
    }
    tests
}

fn of_kind(suffix: &str) -> Vec<Source> {
    let paths = paths().into_iter().filter(|path| path.ends_with(suffix));
    paths.map(|path| Source::new(&path, &read(&path))).collect()
}

pub(super) fn read(path: &str) -> String {
    fs::read_to_string(top().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

pub(super) fn exists(path: &str) -> bool {
    top().join(path).exists()
}

fn names(directory: &Path) -> Vec<String> {
    let entries =
        fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let names = entries.map(|entry| entry.expect("the directory can be read").file_name());
    names
        .map(|name| name.into_string().expect("names are UTF-8"))
        .collect()
}
