//! How far a command is that reads or writes many bytes: one line that changes, on a terminal
//! alone.

use std::io::IsTerminal as _;

use helve_command::output::bytes;
use indicatif::ProgressBar;

/// Shows bytes on standard error while it exists.
pub(super) struct Progress {
    bar: Option<ProgressBar>,
    what: &'static str,
}

impl Progress {
    /// Nothing yet of what is counted.
    pub(super) fn new(what: &'static str) -> Self {
        let bar = std::io::stderr()
            .is_terminal()
            .then(ProgressBar::new_spinner);
        Self { bar, what }
    }

    /// This many bytes.
    pub(super) fn show(&mut self, count: u64) {
        self.say(&format!("{} {}", bytes(count), self.what));
    }

    /// What goes on, in other words.
    pub(super) fn say(&mut self, text: &str) {
        if let Some(bar) = &self.bar {
            bar.set_message(text.to_owned());
            bar.tick();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
