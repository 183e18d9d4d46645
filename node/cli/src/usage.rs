//! The words of a command line, and which of its settings come from the environment: an error names
//! the variable then, not a flag that was not typed.

mod hanging;
mod secrets;

use std::ffi::{OsStr, OsString};

use clap::{Arg, ArgMatches, Command, error::ErrorKind};

use self::{
    hanging::Given,
    secrets::{hidden, value_of},
};

/// Words that ask for help or the version wherever they are.
const ASKING: [&str; 2] = ["-h", "-V"];

/// Joins a value that begins with a dash, such as `-1s`, to the flag before it. The flag's own
/// parser then says what is wrong with it; clap would look for a flag `-1`.
pub(super) fn joined(command: &Command, words: &[OsString]) -> Vec<OsString> {
    let command = chosen(command, words);
    let takes_value = |word: &OsStr| {
        let name = word.to_str().and_then(|word| word.strip_prefix("--"));
        let is_it = |arg: &Arg| arg.get_long() == name && arg.get_action().takes_values();
        name.is_some() && command.get_arguments().any(is_it)
    };
    let mut joined: Vec<OsString> = Vec::with_capacity(words.len());
    let mut is_over = false;
    for word in words {
        match joined.last_mut() {
            Some(flag) if !is_over && is_dashed(word) && takes_value(flag.as_os_str()) => {
                flag.push("=");
                flag.push(word);
            }
            _ => joined.push(word.clone()),
        }
        is_over |= word == "--";
    }
    joined
}

fn is_dashed(word: &OsStr) -> bool {
    let bytes = word.as_encoded_bytes();
    let is_asking = || ASKING.iter().any(|asking| word == *asking);
    bytes.len() > 1 && bytes[0] == b'-' && bytes[1] != b'-' && !is_asking()
}

/// The command that the words name.
fn chosen<'a>(command: &'a Command, words: &[OsString]) -> &'a Command {
    words
        .iter()
        .skip(1)
        .take_while(|word| *word != "--")
        .fold(command, |command, word| {
            command.find_subcommand(word).unwrap_or(command)
        })
}

/// Says which option of the command that is run has no effect, and why; `None` if all have.
pub(super) fn without_effect(command: &Command, matches: &ArgMatches) -> Option<String> {
    let (mut command, mut matches) = (command, matches);
    while let Some((name, below)) = matches.subcommand() {
        command = command.find_subcommand(name)?;
        matches = below;
    }
    Given { command, matches }.fault()
}

/// The flags of the command that is run whose values come from the environment.
#[derive(Default)]
pub(super) struct Environment {
    settings: Vec<Setting>,
    /// All values of the command line and of its variables.
    given: Vec<String>,
}

#[derive(Debug)]
struct Setting {
    /// Such as `--timeout`.
    flag: String,
    /// As clap's errors have it, such as `'--timeout <DURATION>'`.
    shown: String,
    variable: String,
    value: OsString,
    /// What its value is called in help.
    wanted: String,
    /// Whether the option is empty by default, so that a variable may say that, too.
    may_be_empty: bool,
}

impl Environment {
    /// Of the command that the words name, with these variables.
    pub(super) fn of(
        command: &Command,
        words: &[OsString],
        variables: &[(OsString, OsString)],
    ) -> Self {
        // Only then do its flags know how they are shown.
        let mut command = command.clone();
        command.build();
        let setting = |arg: &Arg| {
            let flag = format!("--{}", arg.get_long()?);
            let variable = arg.get_env()?;
            let (_, value) = variables.iter().find(|(name, _)| name == variable)?;
            let typed = words.iter().take_while(|word| *word != "--");
            let is_it = |word: &str| word.split('=').next() == Some(flag.as_str());
            if typed.filter_map(|word| word.to_str()).any(is_it) {
                return None;
            }
            let names = arg.get_value_names().unwrap_or_default();
            Some(Setting {
                shown: format!("'{arg}'"),
                variable: variable.to_string_lossy().into_owned(),
                value: value.clone(),
                wanted: match names.first() {
                    Some(name) if takes_value(arg) => name.to_string(),
                    _ => "true or false".to_owned(),
                },
                may_be_empty: arg
                    .get_default_values()
                    .iter()
                    .any(|value| value.is_empty()),
                flag,
            })
        };
        let arguments = chosen(&command, words).get_arguments();
        let settings: Vec<_> = arguments.filter_map(setting).collect();
        let typed = words.iter().map(|word| word.to_string_lossy());
        let typed = typed.map(|word| value_of(&word).to_owned());
        let set = settings
            .iter()
            .map(|setting| setting.value.to_string_lossy().into_owned());
        let given = typed.chain(set).collect();
        Self { settings, given }
    }

    /// Names a variable that is set to nothing; `None` if none is. As if it were not set would not do: a server whose
    /// `HELVE_TOKEN_KEY_FILE` came out empty would ask for no tokens.
    pub(super) fn emptied(&self) -> Option<String> {
        let is_emptied = |setting: &&Setting| setting.value.is_empty() && !setting.may_be_empty;
        self.settings.iter().find(is_emptied).map(Setting::emptied)
    }

    /// An error of usage that is a variable's fault, naming that; `None` if a flag is at fault.
    pub(super) fn explained(&self, error: &clap::Error) -> Option<String> {
        if !error.use_stderr() {
            return None;
        }
        let hidden = hidden(error, &self.given);
        let text = error.to_string();
        let first = hidden.as_deref().unwrap_or_else(|| first_paragraph(&text));
        if error.kind() == ErrorKind::InvalidUtf8 {
            let is_odd = |setting: &&Setting| setting.value.to_str().is_none();
            let mut odd = self.settings.iter().filter(is_odd);
            // Of several it is not known which is at fault: some may hold any bytes.
            let (Some(odd), None) = (odd.next(), odd.next()) else {
                return None;
            };
            let (variable, wanted) = (&odd.variable, &odd.wanted);
            return Some(format!(
                "{variable} is not UTF-8: unset it, or give {wanted}"
            ));
        }
        let at_fault = self.settings.iter();
        let at_fault = at_fault.filter(|setting| first.contains(&setting.shown));
        let at_fault: Vec<&Setting> = at_fault.collect();
        let plain = in_plain_words(first);
        match at_fault[..] {
            [] => (hidden.is_some() || plain != first).then_some(plain),
            [it] if it.value.is_empty() => Some(it.emptied()),
            _ => Some(at_fault.iter().fold(plain, |said, setting| {
                said.replace(&setting.shown, &setting.variable)
            })),
        }
    }

    /// The error of a command, with the variable where it begins with a flag that was not typed.
    pub(super) fn named(&self, error: String) -> String {
        let is_part =
            |rest: &str| rest.starts_with(|next: char| next.is_alphanumeric() || next == '-');
        let begins = |setting: &&Setting| {
            let rest = error.strip_prefix(&setting.flag);
            rest.is_some_and(|rest| !is_part(rest))
        };
        match self.settings.iter().find(begins) {
            Some(Setting { flag, variable, .. }) => {
                error.replacen(flag.as_str(), &format!("{variable} ({flag})"), 1)
            }
            None => error,
        }
    }
}

/// What the standard library's parsers of numbers say, and what to say in its place.
const OF_NUMBERS: [(&str, &str); 3] = [
    (
        "invalid digit found in string",
        "it is not a whole number: write digits alone, such as 100",
    ),
    (
        "number too large to fit in target type",
        "it is too large: give a smaller number",
    ),
    (
        "cannot parse integer from empty string",
        "it is empty: give a whole number",
    ),
];

/// The text with the words of this command line for those of parsers.
fn in_plain_words(text: &str) -> String {
    OF_NUMBERS
        .iter()
        .fold(text.to_owned(), |text, (theirs, ours)| {
            text.replace(theirs, ours)
        })
}

impl Setting {
    /// Says that the variable is set to nothing.
    fn emptied(&self) -> String {
        let Self {
            variable, wanted, ..
        } = self;
        format!("{variable} is empty: unset it, or give {wanted}")
    }
}

/// Whether a flag has to have a value.
fn takes_value(arg: &Arg) -> bool {
    let has_to = |range: clap::builder::ValueRange| range.min_values() > 0;
    arg.get_action().takes_values() && arg.get_num_args().is_none_or(has_to)
}

/// What clap says is wrong, without tips, usage and its own mark.
pub(super) fn first_paragraph(text: &str) -> &str {
    let first = text.split("\n\n").next().unwrap_or_default();
    first.strip_prefix("error: ").unwrap_or(first)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    fn words(line: &str) -> Vec<OsString> {
        line.split(' ').map(OsString::from).collect()
    }

    fn refused(line: &str) -> clap::Error {
        let words = joined(&Cli::command(), &words(line));
        Cli::command().try_get_matches_from(words).unwrap_err()
    }

    #[test]
    fn value_that_begins_with_a_dash_is_its_flags() {
        for (line, flag) in [
            ("helve status --timeout -1s", "'--timeout <"),
            ("helve tenant set acme --rows -1", "'--rows <"),
            ("helve serve --id -1 --data-dir d", "'--id <"),
        ] {
            let said = refused(line).to_string();
            assert!(said.contains("invalid value '-1"), "{said}");
            assert!(said.contains(flag), "{said}");
        }
        let none = Environment::default();
        let said = none.explained(&refused("helve tenant set acme --rows -1"));
        let expected = "invalid value '-1' for '--rows <N>': it is not a whole number: write digits alone, such as 100";
        assert_eq!(said.as_deref(), Some(expected));
        let said = none.explained(&refused("helve status --timeout -1s"));
        assert_eq!(said, None, "clap's own words will do");
        for line in [
            "helve status --timeout -h",
            "helve status --insecure-token -1",
            "helve claim run k --lease 1s -- nice --timeout -1",
        ] {
            let words = words(line);
            assert_eq!(joined(&Cli::command(), &words), words);
        }
    }

    #[test]
    fn variable_that_is_set_to_nothing_is_named_in_every_command() {
        let command = Cli::command();
        let emptied = |line: &str, variable: &str| {
            let variable = (variable.into(), OsString::new());
            Environment::of(&command, &words(line), &[variable]).emptied()
        };
        for (line, variable, wanted) in [
            ("helve status", "HELVE_TOKEN_FILE", "FILE"),
            ("helve status", "HELVE_TLS_SERVER_NAME", "NAME"),
            ("helve status", "HELVE_INSECURE_TOKEN", "true or false"),
            ("helve mcp", "HELVE_TOKEN_KEY_FILE", "[ISSUER=]FILE"),
            ("helve serve", "HELVE_OTLP_ENDPOINT", "URL"),
            ("helve serve", "HELVE_FORCE_BOOTSTRAP", "true or false"),
            ("helve token create", "HELVE_TENANT", "TENANT"),
            ("helve handle list", "HELVE_OWNER", "SUBJECT"),
        ] {
            let expected = format!("{variable} is empty: unset it, or give {wanted}");
            assert_eq!(emptied(line, variable), Some(expected), "{line}");
        }
        for (line, variable) in [
            // None by default, which the variable may say, too.
            ("helve handle get a", "HELVE_OWNER"),
            ("helve handle mint", "HELVE_ID_PREFIX"),
            ("helve status --timeout 1s", "HELVE_TIMEOUT"),
            ("helve completions", "HELVE_TIMEOUT"),
        ] {
            assert_eq!(emptied(line, variable), None, "{line}");
        }
    }

    #[test]
    fn error_names_the_variable_that_no_flag_overrides() {
        let command = Cli::command();
        let of = |line: &str, value: &str| {
            let variable = ("HELVE_TIMEOUT".into(), value.into());
            Environment::of(&command, &words(line), &[variable])
        };
        // What clap says of a variable is what it says of its flag.
        let empty = refused("helve status --timeout=");
        let said = of("helve status", "").explained(&empty).unwrap();
        assert_eq!(said, "HELVE_TIMEOUT is empty: unset it, or give DURATION");
        let wrong = refused("helve status --timeout=soon");
        let said = of("helve status", "soon").explained(&wrong).unwrap();
        assert!(
            said.starts_with("invalid value 'soon' for HELVE_TIMEOUT: "),
            "{said}"
        );
        for line in ["helve status --timeout soon", "helve status --timeout=soon"] {
            assert_eq!(of(line, "9s").explained(&wrong), None, "{line}");
        }
        // The command does not take it.
        assert_eq!(of("helve completions", "").explained(&empty), None);

        let environment = of("helve status", "soon");
        let named = environment.named("--timeout: too long".to_owned());
        assert_eq!(named, "HELVE_TIMEOUT (--timeout): too long");
        for other in ["--timeout-x: no", "cannot: --timeout"] {
            assert_eq!(environment.named(other.to_owned()), other);
        }
    }
}
