//! Errors of usage without what may be secret in a value, such as a password in a URL: errors end in
//! logs.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use helve_proto::shown_url;

use super::first_paragraph;

/// Said in place of a parser's reason, which may repeat parts of the value.
const DOTS: &str =
    "what may be secret in it is shown as dots: give it in the form that --help names";

/// What an error of usage says, without what may be secret; `None` if nothing of it may be. `given`
/// are the values of the command line and of the variables.
pub(super) fn hidden(error: &clap::Error, given: &[String]) -> Option<String> {
    let value = match error.kind() {
        ErrorKind::UnknownArgument => text_of(error, ContextKind::InvalidArg),
        _ => text_of(error, ContextKind::InvalidValue)
            .or_else(|| text_of(error, ContextKind::InvalidSubcommand)),
    }?;
    let whole = whole(value, given);
    let shown = shown_url(whole);
    if shown == whole {
        return None;
    }
    if error.kind() == ErrorKind::ValueValidation {
        let flag = text_of(error, ContextKind::InvalidArg).unwrap_or_default();
        return Some(format!("invalid value '{shown}' for '{flag}': {DOTS}"));
    }
    let text = error.to_string().replace(value, &shown);
    Some(first_paragraph(&text).to_owned())
}

fn text_of(error: &clap::Error, kind: ContextKind) -> Option<&str> {
    match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text),
        _ => None,
    }
}

/// The list that has the value as an item; the value, if none has. Only the list shows where a
/// password with a comma ends.
fn whole<'a>(value: &'a str, given: &'a [String]) -> &'a str {
    let is_list = |list: &&String| {
        list.split(',').any(|item| item == value) && shown_url(list.as_str()) != **list
    };
    given.iter().find(is_list).map_or(value, String::as_str)
}

/// The value of a word of the command line: what is behind the flag, or all of it.
pub(super) fn value_of(word: &str) -> &str {
    let flag = word.strip_prefix("--");
    let value = flag.and_then(|flag| flag.split_once('='));
    value.map_or(word, |(_, value)| value)
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::{Arg, Command, CommandFactory as _};

    use super::{super::Environment, value_of};
    use crate::Cli;

    /// What is said of these words behind a command's name; `None` if nothing is wrong with them.
    fn said(command: &Command, words: &[&str]) -> Option<String> {
        let environment = Environment {
            given: words.iter().map(|word| value_of(word).to_owned()).collect(),
            ..Environment::default()
        };
        let words = ["helve"].iter().chain(words);
        let error = command.clone().try_get_matches_from(words).err()?;
        let explained = environment.explained(&error);
        Some(explained.unwrap_or_else(|| error.to_string()))
    }

    /// What is said of each option and argument of a command, and of those below it, with this value.
    fn said_of_all(command: &Command, value: &str) -> Vec<String> {
        let with = |arg: &Arg| match arg.get_long() {
            Some(long) => format!("--{long}={value}"),
            None => value.to_owned(),
        };
        let options = command.get_arguments().map(with);
        let words = options.chain([value.to_owned()]);
        let mut all: Vec<_> = words.filter_map(|word| said(command, &[&word])).collect();
        all.extend(said(command, &[value, value]));
        for below in command.get_subcommands() {
            all.extend(said_of_all(below, value));
        }
        all
    }

    #[test]
    fn password_in_any_value_is_not_repeated() {
        for value in [
            "http://user:s3cret@h.example:1",
            "user:s3cret@h.example:1",
            "http://user:s3cret@h.example",
            "http://user:s3cret,s3cret@h.example:1",
            "http://user:a,s3cret\n\ns3cret@h.example:1",
            "http://h.example:1/?key=s3cret",
            "h.example:1#s3cret,s3cret",
            "user:s3cret@h.example:1/http://i.example",
            "user:s3cret://s3cret@h.example",
            "user:a,s3cret@h.example:1,http://i.example:2",
            "h.example/?key=s3cret&next=http://i.example",
        ] {
            let all = said_of_all(&Cli::command(), value);
            for said in &all {
                assert!(!said.contains("s3cret"), "{value}: {said}");
            }
            let dotted = all.iter().filter(|said| said.contains("..."));
            assert!(dotted.count() > 20, "{value}: {all:?}");
        }
    }

    #[test]
    fn password_with_a_comma_is_not_taken_for_two_items_of_a_list() {
        let command = Cli::command();
        for flag in [
            &["status", "--endpoints"][..],
            &["mcp", "--endpoints"],
            &["mcp", "--token-jwks-url"],
            &["mcp", "--authorization-server"],
            &["mcp", "--allowed-origin"],
            &["mcp", "--allowed-host"],
        ] {
            for value in [
                "http://u:7400,s3cret@h:1",
                "http://u:s3cret,x@h:1",
                "a:1,http://u:s3cret,x@h:1",
            ] {
                let words = [flag, &[value]].concat();
                let said = said(&command, &words).unwrap_or_default();
                assert!(said.starts_with("invalid value"), "{flag:?}: {said}");
                assert!(!said.contains("s3cret"), "{flag:?}: {said}");
                assert!(!said.contains("u:"), "{flag:?}: {said}");
            }
        }
    }

    #[test]
    fn value_with_a_password_is_shown_with_dots() {
        let command = Cli::command();
        for (words, expected) in [
            (
                &["status", "--timeout", "u:s3cret@h:1"][..],
                "invalid value '...@h:1' for '--timeout <DURATION>': what may be secret in it is shown as dots: give it in the form that \
                 --help names",
            ),
            (
                &["http://u:s3cret@h:1"][..],
                "unrecognized subcommand 'http://...@h:1'",
            ),
            (
                &["status", "http://u:s3cret@h:1"][..],
                "unexpected argument 'http://...@h:1' found",
            ),
        ] {
            assert_eq!(said(&command, words).as_deref(), Some(expected));
        }
        let plain = said(&command, &["status", "--timeout", "soon"]).unwrap_or_default();
        assert!(plain.contains("`soon` is not a duration"), "{plain}");
    }

    #[test]
    fn variable_with_a_password_is_named_without_it() {
        let command = Cli::command();
        let words = ["helve", "status"].map(OsString::from);
        let value = "http://u:s3cret@h:1";
        let variable = ("HELVE_TIMEOUT".into(), value.into());
        let environment = Environment::of(&command, &words, &[variable]);
        // What clap says of a variable is what it says of its flag.
        let error = command
            .try_get_matches_from(["helve", "status", "--timeout", value])
            .unwrap_err();
        let said = environment.explained(&error).unwrap_or_default();
        assert!(
            said.starts_with("invalid value 'http://...@h:1' for HELVE_TIMEOUT: "),
            "{said}"
        );
    }

    #[cfg(feature = "demo")]
    #[test]
    fn balancer_does_not_repeat_the_password_of_a_replica() {
        for value in [
            "http://u:s3cret@h:1",
            "h:1,http://u:a,s3cret@h:1",
            "h:1,u:s3cret@h",
        ] {
            let said = said(&Cli::command(), &["balancer", "--to", value]).unwrap_or_default();
            assert!(!said.contains("s3cret"), "{said}");
            assert!(said.contains("'--to <HOST:PORT,...>'"), "{said}");
        }
    }
}
