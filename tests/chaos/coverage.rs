//! Which faults represent each kind of trouble that a cluster must survive, and what cannot be made
//! here.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use comfy_table::{Table, presets::ASCII_MARKDOWN};

/// A kind of trouble.
struct Kind {
    trouble: &'static str,
    faults: &'static [&'static str],
    /// What is otherwise than a reader may think.
    note: &'static str,
}

const fn kind(trouble: &'static str, faults: &'static [&'static str], note: &'static str) -> Kind {
    Kind {
        trouble,
        faults,
        note,
    }
}

const KINDS: [Kind; 24] = [
    kind(
        "processes killed",
        &["kill-leader", "kill-follower", "kill-random", "kill-all"],
        "",
    ),
    kind(
        "processes that are stopped for a while",
        &[
            "freeze-leader",
            "freeze-follower",
            "freeze-random",
            "freeze-all",
            "freeze-leader-long",
        ],
        "1 to 3 s, the last 15 to 30 s: longer than any lease and keep-alive between nodes and of clients, shorter than a replay \
         session's hour",
    ),
    kind(
        "partitions",
        &["partition-leader-minority", "partition-leader-majority"],
        "cut by a proxy of our own, not by the kernel",
    ),
    kind(
        "partitions one way",
        &["leader-deaf", "leader-mute", "late-answers"],
        "the last: what a leader is sent is held, then also what it sends; both are delivered once another node leads",
    ),
    kind("a bridge between two halves", &["bridge"], ""),
    kind("clients cut off from the leader", &["client-cut"], ""),
    kind(
        "late, lossy, narrow and lying links",
        &["delay", "packet-loss", "narrow-links", "corrupt-links"],
        "a TCP proxy cannot lose, double or reorder packets: loss appears as the delay that TCP makes of it; row 21 doubles and \
         reorders calls",
    ),
    kind(
        "connections reset, half open, or held by callers that never end a call",
        &["reset-links", "half-open", "slow-loris"],
        "slow callers come beside the workloads', on the client and HTTP ports of all nodes",
    ),
    kind(
        "wrong clocks",
        &[
            "clock-jump-ahead",
            "clock-jump-back",
            "leader-clock-jump-ahead",
            "clock-strobe",
            "clock-drift",
            "clock-drift-monotonic",
            "all-clocks-ahead",
            "all-clocks-back",
        ],
        "",
    ),
    kind(
        "full disks",
        &[
            "disk-low-one",
            "disk-low-all",
            "disk-full-one",
            "disk-full-majority",
            "disk-full-all",
        ],
        "",
    ),
    kind(
        "syncs that fail",
        &["fsync-error-once", "fsync-error-leader"],
        "by a file system of our own: the kernel's faulty devices are not in every kernel",
    ),
    kind(
        "power lost, with what was not synced",
        &[
            "power-loss-all",
            "power-loss-leader",
            "power-loss-random",
            "unsynced-majority",
            "unsynced-follower",
        ],
        "as ext4 with ordered data keeps and loses it",
    ),
    kind(
        "torn, cut and flipped files",
        &[
            "truncated-log",
            "truncated-rows",
            "flipped-log",
            "flipped-rows",
            "flipped-manifest",
            "flipped-side-file",
            "flipped-snapshot",
            "torn-rows",
        ],
        "",
    ),
    kind(
        "a volume that is lost, or put back to an older state",
        &["wiped-volume", "lost-voter", "restored-disk"],
        "",
    ),
    kind("slow disks", &["slow-disk", "fsync-stall"], ""),
    kind(
        "read-only disks, no files, no memory",
        &["read-only-disk", "no-open-files"],
        "a process without memory is killed by the kernel, as kill-random does",
    ),
    kind(
        "members that change",
        &["members-added-removed", "member-replaced", "joint-crash"],
        "",
    ),
    kind(
        "snapshots under load, interrupted",
        &[
            "snapshot-sender-killed",
            "snapshot-receiver-killed",
            "snapshot-received-killed",
            "snapshot-fails",
            "snapshot-corrupt",
            "install-copying-killed",
            "install-copied-killed",
            "install-switch-killed",
            "install-switched-killed",
            "torn-install",
            "blackhole-until-snapshot",
        ],
        "",
    ),
    kind(
        "rolling restarts and upgrades",
        &["rolling-restart", "rolling-upgrade"],
        "the next version is this one with one feature level more: there is no earlier release yet",
    ),
    kind(
        "restarts of all, and with one missing",
        &["restart-all", "cold-start-one-missing"],
        "",
    ),
    kind(
        "calls doubled, late, reordered or forgotten, and callers that go away",
        &["doubled-calls", "repeated-calls", "abandoned-calls"],
        "forgotten: the session was told that no copy would come; ten minutes of a request id are for the integration tests",
    ),
    kind(
        "many records that expire at once",
        &["expiry-storm"],
        "hundreds, on two processors",
    ),
    kind(
        "one record that all callers use, lists while others write, and calls over the limits",
        &["hot-handle", "over-limits"],
        "lists are workloads, under every fault",
    ),
    kind(
        "leaders that change all the time",
        &["leader-transfer-loop", "flapping-links", "swizzle-clog"],
        "",
    ),
];

/// Fails unless each of these faults, which are all, belongs to a kind of trouble, and every named
/// fault exists.
///
/// # Errors
///
/// See above: the suite does not cover what it says.
pub(crate) fn check(faults: &[&'static str]) -> Result<()> {
    let named: BTreeSet<_> = KINDS.iter().flat_map(|kind| kind.faults).collect();
    let known: BTreeSet<_> = faults.iter().collect();
    ensure!(
        named == known,
        "the suite's faults are not those that it says it covers: {:?}",
        named.symmetric_difference(&known)
    );
    Ok(())
}

/// A line for each kind of trouble.
pub(crate) fn table() -> Table {
    let mut table = Table::new();
    table.load_style(ASCII_MARKDOWN);
    table.set_header(["", "trouble", "faults", "note"]);
    for (number, kind) in (1..).zip(&KINDS) {
        table.add_row([
            number.to_string(),
            kind.trouble.to_owned(),
            kind.faults.join(", "),
            kind.note.to_owned(),
        ]);
    }
    table
}
