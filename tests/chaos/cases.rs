//! Which chaos test is there for which planted bug, and what harm the bug does.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use helve_machine::planted::Plant;
use helve_tests::workload::Harm::{self, Doubled, Lost, Stale};

use self::Sign::{Of, Says};
use super::plan::{NODES, Plan};

/// A chaos test, by the bug that it finds.
pub(crate) struct Case {
    pub(crate) plant: &'static str,
    pub(crate) faults: &'static [&'static str],
    pub(crate) workloads: &'static [&'static str],
    /// The harm that the bug does, as one of the findings says it. What else a run may find shows nothing: a node that did not come
    /// back, say.
    harm: &'static [Sign],
}

/// How a harm is told.
#[derive(Debug, Clone, Copy)]
enum Sign {
    /// A finding of this kind.
    Of(Harm),
    /// A finding that says this.
    Says(&'static str),
}

impl Sign {
    fn is_in(self, finding: &str) -> bool {
        match self {
            Self::Of(harm) => finding.starts_with(&format!("{harm:?}: ")),
            Self::Says(words) => finding.contains(words),
        }
    }
}

pub(crate) const CASES: [Case; 22] = [
    case(
        "ack-before-sync",
        &["unsynced-majority"],
        &["set", "register", "cart"],
        // Of two entries that were both acknowledged at one index, one is lost.
        &[Of(Lost), Of(Stale), Says("Clock: the clock is")],
    ),
    case(
        "apply-before-durable",
        &["unsynced-follower"],
        &["set", "register", "append"],
        &[Says("held rows, and not the entries")],
    ),
    case(
        "read-without-quorum",
        &["partition-leader-minority"],
        &["register", "hot-handle", "batch"],
        &[Of(Stale)],
    ),
    case(
        "answer-ahead",
        &["late-answers"],
        &["register", "hot-handle", "batch"],
        &[Of(Stale)],
    ),
    case(
        "local-clock",
        &["kill-follower"],
        &["lifecycle", "expiry-storm", "register"],
        &[
            Says("Clock:"),
            Says("Lifetime:"),
            Says("hold different rows"),
        ],
    ),
    case(
        "replay-off",
        &["kill-leader"],
        &["append", "hot-handle", "cart"],
        &[Of(Doubled)],
    ),
    case(
        "two-writes",
        &["torn-rows"],
        &["batch", "list", "cart"],
        &[Says("Torn:"), Says("List:"), Says("hold different rows")],
    ),
    case(
        "half-install",
        &["torn-install"],
        &["set", "register", "batch"],
        &[
            Of(Lost),
            Of(Stale),
            Says("hold different rows"),
            Says("cannot open the state: Corruption"),
        ],
    ),
    case(
        "reuse-id",
        &["lost-voter"],
        &["set", "register", "append"],
        &[Of(Lost), Of(Stale)],
    ),
    case(
        "trust-old-disk",
        &["restored-disk"],
        &["set", "register", "append"],
        &[Of(Lost), Of(Stale)],
    ),
    case(
        "owner-not-in-key",
        &["kill-follower"],
        &["lifecycle", "cart", "set"],
        &[Says("Owner:"), Says("a stranger asked")],
    ),
    case(
        "skip-fsync",
        &["power-loss-all"],
        &["set", "register", "cart"],
        &[Of(Lost), Of(Stale)],
    ),
    case(
        "read-without-read-index",
        &["kill-follower"],
        &["register", "hot-handle", "append"],
        &[Of(Stale)],
    ),
    case(
        "ignore-revision",
        &["kill-follower"],
        &["hot-handle", "append", "list"],
        &[Of(Lost)],
    ),
    case(
        "serve-expired",
        &["kill-follower"],
        &["lifecycle", "expiry-storm", "register"],
        &[Says("Lifetime:")],
    ),
    case(
        "early-expiry",
        &["kill-follower"],
        &["lifecycle", "expiry-storm", "register"],
        &[Says("Lifetime:"), Says("Answer:")],
    ),
    case(
        "no-limit",
        &["over-limits"],
        &["set", "register", "cart"],
        &[Says("over the limit")],
    ),
    case(
        "usage-off",
        &["kill-follower"],
        &["lifecycle", "expiry-storm", "register"],
        &[Says("Count:")],
    ),
    case(
        "watch-gap",
        &["kill-follower"],
        &["watch", "set", "append"],
        &[Says("never told the put"), Says("a list of")],
    ),
    case(
        "wild-stamp",
        &["clock-jump-ahead"],
        &["lifecycle", "expiry-storm", "register"],
        &[Says("the cluster's time went on by")],
    ),
    case(
        "lease-twice",
        &["kill-follower"],
        &["claim", "set", "register"],
        &[Says("two leases are out"), Says("was lost before its end")],
    ),
    case(
        "time-stays",
        &["all-clocks-ahead"],
        &["lifecycle", "expiry-storm", "register"],
        &[Says("the cluster's time does not return to the walls")],
    ),
];

/// Fails unless there is a test for each bug. That a node has no entropy is no bug of its own, and no node but an MCP server is without
/// CORS: `browser::page_cannot_call_a_server_without_cors`.
///
/// # Errors
///
/// See above: a bug would be planted nowhere.
pub(crate) fn check() -> Result<()> {
    let known: BTreeSet<_> = Plant::ALL.iter().map(|plant| plant.as_str()).collect();
    let tried: BTreeSet<_> = CASES.iter().map(|case| case.plant).collect();
    let elsewhere = [Plant::NoEntropy, Plant::NoCors].map(Plant::as_str);
    let tried = &tried | &BTreeSet::from(elsewhere);
    ensure!(
        known == tried,
        "chaos tests are not there for the bugs that there are: {:?}",
        known.symmetric_difference(&tried)
    );
    Ok(())
}

const fn case(
    plant: &'static str,
    faults: &'static [&'static str],
    workloads: &'static [&'static str],
    harm: &'static [Sign],
) -> Case {
    Case {
        plant,
        faults,
        workloads,
        harm,
    }
}

impl Case {
    /// The run that this seed draws.
    pub(crate) fn plan(&self, seed: u64) -> Plan {
        let workloads: Vec<String> = self.workloads.iter().map(ToString::to_string).collect();
        Plan::draw(seed, self.faults, &workloads).with_nodes(Some(NODES))
    }

    /// The first of these findings that tells of the bug's harm.
    pub(crate) fn harm_in<'f>(&self, findings: &'f [String]) -> Option<&'f String> {
        let tells = |finding: &&String| self.harm.iter().any(|sign| sign.is_in(finding));
        findings.iter().find(tells)
    }
}
