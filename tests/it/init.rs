//! `helve init`: what it makes, what it keeps, and what it does not touch.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
    process::{Command, Output},
};

use anyhow::Result;
use helve_node::tls::authority::{Authority, Life};
use serde_json::Value;
use tempfile::TempDir;

use super::{
    binary,
    command_line::{USAGE, printed},
};

/// Directories for what signs, what nodes get and what callers get.
const APART: &[&str] = &["--ca-dir", "ca", "--client-dir", "clients"];
const NAMES: &[&str] = &["--token", "shop", "--client", "alice"];

/// Where `helve init` runs.
struct Place(TempDir);

impl Place {
    fn new() -> Result<Self> {
        Ok(Self(tempfile::tempdir()?))
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn run(&self, arguments: &[&[&str]]) -> Result<Output> {
        let output = Command::new(binary())
            .current_dir(self.0.path())
            .args(["init", "--dir", "nodes", "--output", "json"])
            .args(arguments.concat())
            .output()?;
        Ok(output)
    }

    /// What became of each file, by its path.
    fn states(&self, arguments: &[&[&str]]) -> Result<BTreeMap<String, String>> {
        let report: Value = serde_json::from_str(&printed(&self.run(arguments)?))?;
        let files = report["files"].as_array().cloned().unwrap_or_default();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(files
            .iter()
            .map(|file| (text(&file["file"]), text(&file["state"])))
            .collect())
    }

    /// Every file that is there, with its mode and its content.
    fn files(&self) -> Result<BTreeMap<String, (u32, Vec<u8>)>> {
        let mut files = BTreeMap::new();
        for directory in fs::read_dir(self.0.path())? {
            for file in fs::read_dir(directory?.path())? {
                let path = file?.path();
                let name = path.strip_prefix(self.0.path())?.display().to_string();
                files.insert(name, (mode(&path)?, fs::read(&path)?));
            }
        }
        Ok(files)
    }
}

fn mode(path: &Path) -> Result<u32> {
    Ok(fs::metadata(path)?.permissions().mode() & 0o777)
}

#[test]
fn secrets_are_made_once_and_kept_from_then_on() -> Result<()> {
    for apart in [&[][..], APART] {
        let place = Place::new()?;
        let first = place.states(&[NAMES, apart])?;
        assert!(first.values().all(|state| state == "made"), "{first:?}");
        let made = place.files()?;
        assert!(made.keys().eq(first.keys()), "{made:?} and {first:?}");
        for (name, (mode, _)) in &made {
            let is_public = name.ends_with(".crt");
            assert_eq!(*mode, if is_public { 0o644 } else { 0o600 }, "{name}");
        }
        assert_eq!(mode(&place.path("nodes"))?, 0o700);
        let again = place.states(&[NAMES, apart])?;
        assert!(again.values().all(|state| state == "kept"), "{again:?}");
        assert_eq!(place.files()?, made);
        // What comes later is made beside what is there.
        let grown = place.states(&[NAMES, apart, &["--node", "node-1", "--node", "node-4"]])?;
        assert_eq!(grown["nodes/node-4.key"], "made");
        assert_eq!(grown["nodes/node-1.key"], "kept");
        assert!(place.files()?.len() == made.len() + 2);
    }
    Ok(())
}

#[test]
fn nodes_are_not_given_the_key_that_signs_and_callers_nothing_of_nodes() -> Result<()> {
    let place = Place::new()?;
    place.states(&[NAMES, APART])?;
    let files = place.files()?;
    let within = |directory: &str| -> Vec<_> {
        let names = files.keys().map(String::as_str);
        names
            .filter_map(|name| name.strip_prefix(directory))
            .collect()
    };
    assert_eq!(within("ca/"), ["ca.crt", "ca.key"]);
    assert_eq!(
        within("clients/"),
        ["alice.crt", "alice.key", "ca.crt", "shop.token"]
    );
    let nodes = [
        "ca.crt",
        "data.key",
        "node-1.crt",
        "node-1.key",
        "node-2.crt",
        "node-2.key",
        "node-3.crt",
        "node-3.key",
        "operator.token",
    ];
    assert_eq!(within("nodes/"), nodes);
    Ok(())
}

#[test]
fn certificate_at_its_end_or_half_made_is_made_again() -> Result<()> {
    const PAST: Life = Life {
        not_before_ms: 1_000_000_000_000,
        not_after_ms: 1_100_000_000_000,
    };
    let place = Place::new()?;
    place.states(&[])?;
    let text = |name: &str| fs::read_to_string(place.path(name));
    let authority = Authority::load(&text("nodes/ca.crt")?, &text("nodes/ca.key")?)?;
    let expired = authority.node("node-1", &["node-1".to_owned()], PAST)?;
    fs::write(place.path("nodes/node-1.crt"), expired.certificate_pem)?;
    fs::write(place.path("nodes/node-1.key"), &*expired.key_pem)?;
    fs::remove_file(place.path("nodes/node-2.crt"))?;
    let states = place.states(&[])?;
    for (name, state) in &states {
        let expected = match name.as_str() {
            "nodes/node-1.crt" | "nodes/node-1.key" => "renewed",
            "nodes/node-2.crt" | "nodes/node-2.key" => "made",
            _ => "kept",
        };
        assert_eq!(state, expected, "{name}");
    }
    let again = place.states(&[])?;
    assert!(again.values().all(|state| state == "kept"), "{again:?}");
    Ok(())
}

#[test]
fn what_would_break_what_is_there_is_refused_and_nothing_is_touched() -> Result<()> {
    let table: [(&str, &[&str]); 5] = [
        ("ca/ca.key", &["ca.key", "restore it"]),
        ("ca/ca.crt", &["ca.crt", "restore it"]),
        ("nodes/node-1.key", &["node-1.key", "remove"]),
        ("both of the CA", &["clients/ca.crt", "start over"]),
        ("another CA", &["clients/ca.crt", "--ca-dir"]),
    ];
    for (spoilt, words) in table {
        let place = Place::new()?;
        place.states(&[APART])?;
        match spoilt {
            "both of the CA" => fs::remove_dir_all(place.path("ca"))?,
            "another CA" => fs::write(place.path("clients/ca.crt"), "another")?,
            file => fs::remove_file(place.path(file))?,
        }
        let before = place.files()?;
        assert_refused(&place.run(&[APART])?, words);
        assert_eq!(place.files()?, before, "{spoilt}");
    }
    Ok(())
}

#[test]
fn names_that_would_share_a_file_or_are_none_are_refused() -> Result<()> {
    let table: [(&[&str], &str); 9] = [
        (&["--node", "ca"], "--node"),
        (&["--node", "data"], "--node"),
        (&["--node", "a;a"], "--node"),
        (&["--node", "../up"], "--node"),
        (&["--node", "a="], "--node"),
        (&["--client", "node-1"], "--client"),
        (&["--token", "operator"], "--token"),
        (&["--token", "a,a"], "--token"),
        (&["--token", ".hidden"], "--token"),
    ];
    for (arguments, flag) in table {
        let place = Place::new()?;
        assert_refused(&place.run(&[arguments])?, &[flag]);
        assert!(place.files()?.is_empty(), "{arguments:?}");
    }
    Ok(())
}

fn assert_refused(output: &Output, words: &[&str]) {
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(USAGE), "{said}");
    for word in words {
        assert!(said.contains(word), "no `{word}` in: {said}");
    }
}
