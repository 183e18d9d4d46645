//! Tests of the command line.

mod doubt;
mod proxies;

use clap::{Command, CommandFactory, Parser, error::ErrorKind};

use super::Cli;

#[test]
fn the_command_line_is_well_formed() {
    Cli::command().debug_assert();
}

/// Visits a command and all below it.
fn visit(command: &Command, path: &str, check: &mut dyn FnMut(&Command, &str)) {
    let path = format!("{path} {}", command.get_name());
    check(command, &path);
    command
        .get_subcommands()
        .for_each(|sub| visit(sub, &path, check));
}

#[test]
fn every_flag_has_help_and_an_environment_variable() {
    visit(&Cli::command(), "", &mut |command, path| {
        for arg in command
            .get_arguments()
            .filter(|arg| arg.get_long().is_some())
        {
            assert!(
                arg.get_help().is_some(),
                "{path} --{} has no help",
                arg.get_id()
            );
            let env = arg
                .get_env()
                .unwrap_or_default()
                .to_string_lossy()
                .into_owned();
            assert!(
                env.starts_with("HELVE_"),
                "{path} --{} has no HELVE_ variable",
                arg.get_id()
            );
        }
    });
}

#[test]
fn every_command_says_what_it_does_and_shows_examples() {
    visit(&Cli::command(), "", &mut |command, path| {
        assert!(command.get_about().is_some(), "{path} has no description");
        let examples = command
            .get_after_long_help()
            .map(ToString::to_string)
            .unwrap_or_default();
        assert!(
            command.has_subcommands() || examples.contains("Examples:"),
            "{path} shows no examples"
        );
    });
}

#[test]
fn serve_takes_the_flags_of_the_manual() {
    let line = "helve serve --id 1 --data-dir d --listen 127.0.0.1:7400 --peer-listen 127.0.0.1:7401 \
                --http-listen 127.0.0.1:7402 --peers 1=a:7401,2=b:7401 --advertise a:7400";
    assert!(Cli::try_parse_from(line.split_whitespace()).is_ok());
}

#[test]
fn serve_refuses_numbers_that_it_cannot_run_with() {
    let refused = |more: &[&str]| {
        let line = "helve serve --id 1 --data-dir d --peers 1=a:7401";
        let words = line.split_whitespace().chain(more.iter().copied());
        let parsed = Cli::try_parse_from(words);
        parsed.map(drop).map_err(|error| error.kind())
    };
    for (flag, value) in [
        ("--audit-size", "0"),
        ("--audit-denied-size", "0"),
        ("--block-cache", "0"),
        ("--log-keep-entries", "18446744073709551615"),
        ("--raft-threads", "0"),
        ("--raft-threads", "100000"),
        ("--service-threads", "0"),
        ("--snapshot-entries", "18446744073709551615"),
    ] {
        let why = refused(&["--audit-log", "f", flag, value]);
        assert_eq!(why, Err(ErrorKind::ValueValidation), "{flag} {value}");
    }
    for flag in ["--audit-size", "--audit-denied-size"] {
        assert_eq!(refused(&["--audit-log", "f", flag, "1MiB"]), Ok(()));
    }
}
