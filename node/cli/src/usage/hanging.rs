//! Options that have no effect without another option, or together with one. They are refused: an operator who gives one believes that
//! it works.
//!
//! Two kinds are not listed. Options that only permit something (`--insecure`, `--assume-yes`, `--allow-http`) do no harm where they
//! are not needed. Others are checked where they are read: TLS files, `--otlp-ca`, `--trace-sample`, `--operator-token-file`,
//! `--data-key-migrate`, and the flags of bearer tokens.

use clap::{Arg, ArgAction, ArgMatches, Command, parser::ValueSource};

/// Where an option has to come from to be refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    /// The command line, or its variable.
    Anywhere,
    /// The command line alone: other commands read the variable too, and it may be there for them.
    CommandLine,
}

/// The condition under which options have an effect.
#[derive(Debug, Clone, Copy)]
enum On {
    /// One of these options is there.
    Any(&'static [&'static str]),
    /// This option is not given, or not with this value (`None`: any value).
    Not(&'static str, Option<&'static str>),
}

#[derive(Debug)]
struct Rule {
    /// As the arguments are called: their flags have dashes.
    options: &'static [&'static str],
    from: Origin,
    on: On,
}

const RULES: &[Rule] = &[
    Rule {
        options: &[
            "audit",
            "audit_ids",
            "audit_size",
            "audit_keep",
            "audit_denied_size",
            "audit_denied_keep",
            "audit_keep_for",
            "audit_on_failure",
        ],
        from: Origin::Anywhere,
        on: On::Any(&["audit_log"]),
    },
    // `helve audit verify` reads its variable, too.
    Rule {
        options: &["audit_key_file"],
        from: Origin::CommandLine,
        on: On::Any(&["audit_log"]),
    },
    // The node's own log is put aside by what keeps it.
    Rule {
        options: &[
            "audit_size",
            "audit_keep",
            "audit_denied_size",
            "audit_denied_keep",
            "audit_keep_for",
        ],
        from: Origin::Anywhere,
        on: On::Not("audit_log", Some("tracing")),
    },
    Rule {
        options: &["tls_server_name"],
        from: Origin::Anywhere,
        on: On::Any(&["tls_ca"]),
    },
    Rule {
        options: &["segment_every"],
        from: Origin::Anywhere,
        on: On::Any(&["follow"]),
    },
    Rule {
        options: &["session_ttl"],
        from: Origin::CommandLine,
        on: On::Any(&["legacy_sessions"]),
    },
    Rule {
        options: &["confirm_ttl", "default_ttl"],
        from: Origin::Anywhere,
        on: On::Any(&["enable_writes"]),
    },
    Rule {
        options: &["key_file", "ephemeral_key", "ring", "idle_ttl"],
        from: Origin::CommandLine,
        on: On::Any(&["enable_writes"]),
    },
    Rule {
        options: &["confirm_ttl"],
        from: Origin::Anywhere,
        on: On::Not("assume_yes", None),
    },
    Rule {
        options: &[
            "listen",
            "allowed_host",
            "allowed_origin",
            "legacy_sessions",
            "max_connections",
            "head_timeout",
            "body_timeout",
            "drain_delay",
        ],
        from: Origin::CommandLine,
        on: On::Not("stdio", None),
    },
    Rule {
        options: &[
            "endpoints",
            "timeout",
            "token_file",
            "tls_ca",
            "tls_client_cert",
            "tls_client_key",
        ],
        from: Origin::CommandLine,
        on: On::Not("memory", None),
    },
];

/// A command, and what its command line and the environment say.
pub(super) struct Given<'a> {
    pub(super) command: &'a Command,
    pub(super) matches: &'a ArgMatches,
}

impl Given<'_> {
    /// Says which option has no effect, and why; `None` if all have.
    pub(super) fn fault(&self) -> Option<String> {
        RULES.iter().find_map(|rule| rule.fault(self))
    }

    fn arg(&self, id: &str) -> Option<&Arg> {
        let mut all = self.command.get_arguments();
        all.find(|arg| arg.get_id().as_str() == id)
    }

    /// Where an option comes from; `None` if it is not given, or is a switch that is off.
    fn source(&self, id: &str) -> Option<ValueSource> {
        let arg = self.arg(id)?;
        let source = self.matches.value_source(id)?;
        let is_off = matches!(arg.get_action(), ArgAction::SetTrue) && !self.matches.get_flag(id);
        (source != ValueSource::DefaultValue && !is_off).then_some(source)
    }

    fn has_value(&self, id: &str, value: &str) -> bool {
        let mut values = self.matches.get_raw(id).into_iter().flatten();
        values.any(|given| given == value)
    }

    fn flag(&self, id: &str) -> Option<String> {
        Some(format!("--{}", self.arg(id)?.get_long()?))
    }
}

impl Rule {
    fn fault(&self, given: &Given<'_>) -> Option<String> {
        let (why, next) = match self.on {
            On::Any(others) => {
                let flags: Vec<_> = others.iter().filter_map(|id| given.flag(id)).collect();
                let is_met = others.iter().any(|id| given.source(id).is_some());
                // A command that has none of them means something else by the option.
                if is_met || flags.is_empty() {
                    return None;
                }
                let why = format!("without {}", flags.join(" or "));
                (why, "give both, or neither")
            }
            On::Not(other, value) => {
                given.source(other)?;
                if value.is_some_and(|value| !given.has_value(other, value)) {
                    return None;
                }
                let flag = given.flag(other)?;
                let value = value.map_or(String::new(), |value| format!(" {value}"));
                (format!("with {flag}{value}"), "leave one of them out")
            }
        };
        let counts = |source: ValueSource| match self.from {
            Origin::Anywhere => true,
            Origin::CommandLine => source == ValueSource::CommandLine,
        };
        let is_given = |id: &&&str| given.source(id).is_some_and(counts);
        let flag = given.flag(self.options.iter().find(is_given)?)?;
        Some(format!("{flag} has no effect {why}: {next}"))
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;
    use crate::Cli;

    /// The command of this name, and what this line says to it.
    fn fault(name: &str, line: &str) -> Option<String> {
        fault_of(&Cli::command(), name, line)
    }

    fn fault_of(root: &Command, name: &str, line: &str) -> Option<String> {
        let words = format!("helve {name} {line}");
        let command = root.clone();
        let matches = command.try_get_matches_from(words.split_whitespace());
        let matches = matches.unwrap_or_else(|error| panic!("{words}: {error}"));
        let mut given = Given {
            command: root,
            matches: &matches,
        };
        for word in name.split(' ') {
            given = Given {
                command: given.command.find_subcommand(word).expect(name),
                matches: given.matches.subcommand_matches(word).expect(name),
            };
        }
        given.fault()
    }

    const SERVE: &str = "--id 1 --data-dir d --peers 1=127.0.0.1:7401";

    #[test]
    fn option_without_effect_is_refused_with_what_it_hangs_on() {
        let audit = [
            "--audit reads",
            "--audit-ids hash",
            "--audit-key-file k",
            "--audit-size 1MiB",
            "--audit-keep 3",
            "--audit-denied-size 1MiB",
            "--audit-denied-keep 3",
            "--audit-keep-for 1h",
            "--audit-on-failure warn",
        ];
        for option in audit {
            let flag = option.split(' ').next().unwrap_or_default();
            let said = fault("serve", &format!("{SERVE} {option}"));
            let expected =
                format!("{flag} has no effect without --audit-log: give both, or neither");
            assert_eq!(said, Some(expected));
            let with = format!("{SERVE} {option} --audit-log f");
            assert_eq!(fault("serve", &with), None, "{option}");
        }
        let table = [
            ("status", "--tls-server-name n", "without --tls-ca"),
            ("backup", "to --segment-every 1s", "without --follow"),
            ("mcp", "--session-ttl 1h", "without --legacy-sessions"),
            ("mcp", "--confirm-ttl 1m", "without --enable-writes"),
            ("mcp", "--key-file k", "without --enable-writes"),
            ("mcp", "--ephemeral-key", "without --enable-writes"),
            ("mcp", "--default-ttl 1h", "without --enable-writes"),
            ("mcp", "--idle-ttl 1m", "without --enable-writes"),
            (
                "mcp",
                "--enable-writes --assume-yes --confirm-ttl 1m",
                "with --assume-yes",
            ),
        ];
        for (name, line, why) in table {
            let said = fault(name, line).unwrap_or_default();
            assert!(said.contains(&format!("has no effect {why}: ")), "{said}");
        }
    }

    #[test]
    fn option_without_effect_beside_another_one_is_refused() {
        let to_log = format!("{SERVE} --audit-log tracing");
        let table: [(&str, &str, &str, &[&str]); 3] = [
            (
                "serve",
                to_log.as_str(),
                "--audit-log tracing",
                &[
                    "--audit-size 1MiB",
                    "--audit-keep 3",
                    "--audit-denied-size 1MiB",
                    "--audit-denied-keep 3",
                    "--audit-keep-for 1h",
                ],
            ),
            (
                "mcp",
                "--stdio",
                "--stdio",
                &[
                    "--listen 127.0.0.1:1",
                    "--allowed-host a.example",
                    "--allowed-origin https://a.example",
                    "--legacy-sessions",
                    "--max-connections 5",
                    "--head-timeout 1s",
                    "--body-timeout 1s",
                    "--drain-delay 1s",
                ],
            ),
            (
                "mcp",
                "--memory",
                "--memory",
                &[
                    "--endpoints 127.0.0.1:1",
                    "--timeout 1s",
                    "--token-file f",
                    "--tls-ca f",
                    "--tls-client-cert f",
                    "--tls-client-key f",
                ],
            ),
        ];
        for (name, line, beside, options) in table {
            for option in options {
                let flag = option.split(' ').next().unwrap_or_default();
                let said = fault(name, &format!("{line} {option}"));
                let expected = format!("{flag} has no effect with {beside}: leave one of them out");
                assert_eq!(said, Some(expected));
            }
        }
    }

    /// The variable of each option is one here that is set for every program.
    #[test]
    fn variable_is_refused_unless_other_commands_read_it() {
        for (name, line, id, is_refused) in [
            ("status", "", "tls_server_name", true),
            ("serve", SERVE, "audit_key_file", false),
            ("mcp", "", "key_file", false),
            ("mcp", "--memory", "tls_ca", false),
            ("mcp", "--memory", "token_file", false),
        ] {
            let root = Cli::command().mut_subcommand(name, |command| {
                command.mut_arg(id, |option| option.env("PATH"))
            });
            let said = fault_of(&root, name, line);
            assert_eq!(said.is_some(), is_refused, "{id}: {said:?}");
        }
    }

    #[test]
    fn option_with_what_it_hangs_on_is_taken() {
        for (name, line) in [
            ("serve", SERVE),
            ("status", "--tls-server-name n --tls-ca f"),
            ("backup", "to --follow --segment-every 1s"),
            ("backup list", "to"),
            ("mcp", "--stdio --drain-timeout 1s"),
            ("mcp", "--stdio --output json"),
            ("mcp", "--enable-writes --key-file k --ring r"),
            ("mcp", "--memory --listen 127.0.0.1:1"),
            // The same words, of commands in which they hang on nothing.
            ("key list", "--key-file k --ring r"),
            ("audit verify", "f --audit-key-file k"),
            ("handle mint", "--store s --value 1 --idle-ttl 1m"),
        ] {
            assert_eq!(fault(name, line), None, "{name} {line}");
        }
    }

    #[test]
    fn rules_name_options_that_exist() {
        fn has(command: &Command, id: &str) -> bool {
            let mut all = command.get_arguments();
            all.any(|arg| arg.get_id().as_str() == id)
        }
        fn in_one_command(command: &Command, option: &str, others: &[&str]) -> bool {
            let has_both = has(command, option) && others.iter().any(|id| has(command, id));
            let mut below = command.get_subcommands();
            has_both || below.any(|below| in_one_command(below, option, others))
        }
        let root = Cli::command();
        for rule in RULES {
            let others = match rule.on {
                On::Any(others) => others.to_vec(),
                On::Not(other, _) => vec![other],
            };
            for option in rule.options {
                assert!(in_one_command(&root, option, &others), "{option}: {rule:?}");
            }
        }
    }
}
