//! Every command of the command line, with arguments that lead it to its cluster or to its files.

use std::{collections::BTreeMap, path::Path};

use anyhow::{Context as _, Result, bail};
use clap::{Arg, Command, CommandFactory as _};
use helve_cli::Cli;
use helve_tests::token::write_secret;

/// A command without subcommands.
#[derive(Debug, Clone)]
pub(super) struct Sample {
    /// Its name, such as `handle get`.
    pub(super) name: String,
    /// The name in words, and the arguments that it cannot do without.
    pub(super) arguments: Vec<String>,
    /// What must come behind all flags.
    pub(super) trailing: Vec<String>,
    /// Whether it has `--endpoints`.
    pub(super) calls_a_cluster: bool,
    /// Whether it has `--output`.
    pub(super) prints_json: bool,
}

/// Values of arguments, by their ids.
fn values(directory: &Path) -> Result<BTreeMap<&'static str, String>> {
    let key = directory.join("sample.key");
    if !key.exists() {
        write_secret(&key, &[7; 32])?;
    }
    let at = |path: &Path| path.display().to_string();
    Ok(BTreeMap::from([
        ("command", "true".to_owned()),
        ("fence", "7".to_owned()),
        ("file", at(&directory.join("new"))),
        // A handle's id, a member's, a key's and a token's in one.
        ("id", "2074372292106741".to_owned()),
        ("items", r#"{"a":1}"#.to_owned()),
        ("key", "k".to_owned()),
        ("key_file", at(&key)),
        ("keys", "k".to_owned()),
        ("name", "sample".to_owned()),
        ("out", at(&directory.join("out"))),
        ("owner", "ann".to_owned()),
        ("peer", "127.0.0.1:9".to_owned()),
        // Else it asks no cluster.
        ("ring", "default".to_owned()),
        ("role", "operator".to_owned()),
        ("seat", "4".to_owned()),
        ("store", "cart".to_owned()),
        ("tenant", "acme".to_owned()),
        // How long it may go on.
        ("time", "200ms".to_owned()),
        ("to", at(&directory.join("backups"))),
        ("value", "1".to_owned()),
        ("wait", "1s".to_owned()),
    ]))
}

/// Arguments that are given although the command can do without them.
const ALSO: [&str; 4] = ["key_file", "ring", "time", "wait"];

/// All commands that have no subcommands, of those that are there.
pub(super) fn all(directory: &Path) -> Result<Vec<Sample>> {
    let values = values(directory)?;
    let mut samples = Vec::new();
    gather(&Cli::command(), &[], &values, &mut samples)?;
    Ok(samples)
}

fn gather(
    command: &Command,
    path: &[&str],
    values: &BTreeMap<&'static str, String>,
    samples: &mut Vec<Sample>,
) -> Result<()> {
    // `helve backup` does something by itself, too.
    if !command.is_subcommand_required_set() {
        samples.push(sample(command, path, values)?);
    }
    for below in command.get_subcommands() {
        gather(
            below,
            &[path, &[below.get_name()]].concat(),
            values,
            samples,
        )?;
    }
    Ok(())
}

fn sample(
    command: &Command,
    path: &[&str],
    values: &BTreeMap<&'static str, String>,
) -> Result<Sample> {
    let has = |id: &str| command.get_arguments().any(|arg| arg.get_id() == id);
    let name = path.join(" ");
    let calls_a_cluster = has("endpoints");
    let mut arguments: Vec<String> = path.iter().map(ToString::to_string).collect();
    let mut trailing = Vec::new();
    for arg in command.get_arguments() {
        let id = arg.get_id().as_str();
        // `token create` wants a name or a certificate.
        let is_wanted = arg.is_required_set()
            || (calls_a_cluster && ALSO.contains(&id))
            || (name == "token create" && id == "name");
        if is_wanted && calls_a_cluster {
            let value = values.get(id).with_context(|| {
                format!("`helve {name}` wants {id}: give it a value in samples.rs")
            })?;
            if arg.is_last_set() {
                trailing = vec!["--".to_owned(), value.clone()];
            } else {
                arguments.extend(given(arg, value)?);
            }
        }
    }
    if name == "mcp" {
        // Without writes it asks the ring for nothing.
        arguments.extend(["--enable-writes", "--listen", "127.0.0.1:0"].map(str::to_owned));
    }
    Ok(Sample {
        name,
        arguments,
        trailing,
        calls_a_cluster,
        prints_json: has("output"),
    })
}

fn given(arg: &Arg, value: &str) -> Result<Vec<String>> {
    if arg.is_positional() {
        return Ok(vec![value.to_owned()]);
    }
    let Some(long) = arg.get_long() else {
        bail!("{} has no long name", arg.get_id());
    };
    Ok(vec![format!("--{long}"), value.to_owned()])
}
