//! The judges' word on a history, as the suite counts it.

use helve_tests::{
    history::History,
    judge::{Finding, Rule, Verdict, judge},
    workload::{Harm, Harmed},
};

/// What the judges say.
pub(crate) enum Judged {
    Held {
        /// Records that were judged.
        records: usize,
        /// Of them, those that the second judge searched, too: the others may expire.
        searched: usize,
    },
    Broken(Vec<Harmed>),
    Undecided(String),
}

/// Judges a history.
pub(crate) fn of(history: &History) -> Judged {
    match judge(history) {
        Verdict::Held(stats) => Judged::Held {
            records: stats.records,
            searched: stats.searched,
        },
        Verdict::Broken(findings) => Judged::Broken(findings.iter().map(harmed).collect()),
        Verdict::Undecided(why) => Judged::Undecided(why),
    }
}

fn harmed(finding: &Finding) -> Harmed {
    let harm = match finding.rule {
        Rule::Lost => Harm::Lost,
        Rule::Once | Rule::Taken => Harm::Doubled,
        Rule::Stale | Rule::RealTime => Harm::Stale,
        _ => Harm::Wrong,
    };
    Harmed::new(harm, finding.to_string())
}
