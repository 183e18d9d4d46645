//! The injectors of faults themselves: each does what it says, shows that it did, and leaves a cluster that works.

use anyhow::{Context as _, Result};
use helve_tests::{fault, ledger::Ledger};
use rand::{SeedableRng as _, rngs::SmallRng};

use super::nodes;

/// Starts three nodes as the fault wants them, strikes, heals, and compares what was acknowledged with what is there.
async fn strike_and_heal(name: &str) -> Result<()> {
    let mut fault = fault::named(name).context("there is such a fault")?;
    if fault::left_out(name, fault.missing()).is_some() {
        return Ok(());
    }
    let mut cluster = fault.prepare(nodes(3))?.start().await?;
    let ledger = Ledger::new("carts");
    let callers: Vec<_> = cluster
        .seats()
        .into_iter()
        .map(|seat| cluster.caller(seat))
        .collect();
    ledger.mint_many(&callers, 20).await?;
    let seen = fault
        .strike(&mut cluster, &mut SmallRng::seed_from_u64(7))
        .await?;
    println!("{name}: {seen}");
    assert!(!seen.evidence().is_empty(), "{name} left no evidence");
    fault.heal(&mut cluster).await?;
    ledger.mint_many(&callers, 20).await?;
    ledger.check(&cluster).await
}

macro_rules! struck_and_healed {
    ($($test:ident: $name:literal;)*) => {$(
        #[tokio::test]
        async fn $test() -> Result<()> {
            strike_and_heal($name).await
        }
    )*};
}

struck_and_healed! {
    a_killed_leader_comes_back: "kill-leader";
    all_killed_nodes_come_back: "kill-all";
    a_frozen_leader_goes_on: "freeze-leader";
    all_nodes_restart_in_turn: "rolling-restart";
    a_cluster_starts_without_one_node_and_goes_on_without_another: "cold-start-one-missing";
    a_wiped_node_comes_back_under_a_new_id: "wiped-volume";
    a_leader_in_the_minority_is_replaced_and_comes_back: "partition-leader-minority";
    answers_that_come_late_depose_a_leader: "late-answers";
    a_leader_that_hears_no_peer_is_replaced_or_served: "leader-deaf";
    a_bridge_is_crossed: "bridge";
    clients_that_are_cut_off_are_let_in_again: "client-cut";
    flapping_links_hold_still_again: "flapping-links";
    late_links_are_quick_again: "delay";
    links_that_flip_bits_are_true_again: "corrupt-links";
    all_nodes_lose_power_and_no_acknowledged_write: "power-loss-all";
    a_node_whose_sync_fails_stops_and_comes_back: "fsync-error-leader";
    a_full_disk_has_room_again: "disk-full-one";
    a_low_disk_is_noticed: "disk-low-all";
    a_disk_that_stalls_goes_on: "fsync-stall";
    a_read_only_disk_is_written_again: "read-only-disk";
    a_damaged_log_is_replaced: "truncated-log";
    a_clock_that_is_ahead_is_set_right: "clock-jump-ahead";
    all_clocks_that_are_ahead_are_followed_and_met_again: "all-clocks-ahead";
    all_clocks_that_are_behind_slow_time_down: "all-clocks-back";
    a_node_without_files_has_some_again: "no-open-files";
    a_member_is_replaced_and_comes_back: "member-replaced";
    calls_that_come_twice_are_answered_alike: "doubled-calls";
    a_storm_of_expiries_passes: "expiry-storm";
    a_hot_handle_counts_right: "hot-handle";
    leadership_goes_round: "leader-transfer-loop";
    a_majority_of_full_disks_has_room_again: "disk-full-majority";
    callers_that_never_end_their_calls_hold_up_no_other: "slow-loris";
    what_is_over_a_limit_is_refused_and_what_is_at_it_is_kept: "over-limits";
}
