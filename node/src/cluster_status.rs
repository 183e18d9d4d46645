//! What operators see of this node and its cluster: who leads, how far every member is, and what to look at.

use std::sync::{Arc, atomic::Ordering};

use helve_proto::v1::{Member, NodeStatus, Role as RoleName, StatusReply};

use crate::{
    disk_watch::DiskWatch,
    membership::MemberChanges,
    quantity::display_ms,
    raft::{
        Consensus,
        log_store::LogStore,
        overview::{MemberProgress, Overview, Role},
    },
    readiness::Readiness,
    stamp::Stamper,
    tls::watch::Certificates,
};

/// What this node knows of itself and its cluster.
#[derive(Clone)]
pub struct ClusterStatus {
    consensus: Consensus,
    changes: MemberChanges,
    readiness: Readiness,
    log: LogStore,
    disk: Arc<DiskWatch>,
    stamper: Arc<Stamper>,
    certificates: Certificates,
}

impl ClusterStatus {
    /// Looks at this node's consensus, readiness, log, disk, clock and certificates, and at the change of members that it carries out.
    #[must_use]
    pub fn new(
        (consensus, changes, readiness): (Consensus, MemberChanges, Readiness),
        log: LogStore,
        disk: Arc<DiskWatch>,
        stamper: Arc<Stamper>,
        certificates: Certificates,
    ) -> Self {
        Self {
            consensus,
            changes,
            readiness,
            log,
            disk,
            stamper,
            certificates,
        }
    }

    /// The leader's advertised client address; empty if unknown.
    #[must_use]
    pub fn leader_hint(&self) -> String {
        let Some(leader) = self.consensus.leading().leader else {
            return String::new();
        };
        let members = self.consensus.members();
        let address = members.member(leader).map(|node| &node.client_address);
        address.cloned().unwrap_or_default()
    }

    /// What an operator wants to see of this node and its cluster.
    #[must_use]
    pub fn now(&self) -> StatusReply {
        let overview = self.consensus.overview();
        let identity = self.consensus.identity();
        let readiness = self.readiness.at(&overview);
        let warning = self.warnings(&overview, &readiness).join("; ");
        let log = self.log.stats();
        let progress = self.consensus.applied().progress();
        let held = self.consensus.level_hold().held(progress.feature_level);
        let node = NodeStatus {
            id: identity.node_id(),
            seat: identity.record().seat,
            role: self.role(&overview).into(),
            term: overview.term,
            leader_id: overview.leader_id,
            last_log_index: overview.last_log,
            last_log_term: self.log.last().map_or(0, |last| last.term),
            committed_index: overview.committed,
            applied_index: overview.applied,
            snapshot_index: overview.snapshot,
            purged_index: overview.purged,
            clock_ms: progress.clock_ms,
            disk_used_bytes: self.disk.used_bytes(),
            disk_free_bytes: self.disk.free_bytes(),
            disk_reserve_bytes: self.disk.reserve_bytes(),
            ready: readiness.is_ok(),
            warning,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            feature_level: identity.record().feature_level,
            client_address: identity.record().client_address.clone(),
            peer_address: identity.record().peer_address.clone(),
            log_syncs: log.syncs.load(Ordering::Relaxed),
            log_entries: log.entries.load(Ordering::Relaxed),
            log_bytes: log.bytes.load(Ordering::Relaxed),
            pid: std::process::id(),
            wall_off_ms: self.stamper.wall_off_ms(),
            clock_jump_ms: self.stamper.jump_ms(),
            certificate_expires_ms: self.certificates.first_expiry_ms(),
            removal_lag_ms: progress.removal_lag_ms(),
            walls_ahead_ms: self.stamper.walls_ahead_ms(),
            repaired_rows: progress.repaired_rows,
            held_level: held.level.unwrap_or_default(),
            hold_revision: Some(held.revision),
            // How values are sealed is for who knows the keys to say.
            ..NodeStatus::default()
        };
        StatusReply {
            node: Some(node),
            members: self.members(&overview),
            cluster_id: identity.cluster_id().as_ref().clone(),
            change: self.changes.describe().unwrap_or_default(),
            joint: overview.joint,
            feature_level: self.consensus.applied().feature_level(),
        }
    }

    fn warnings(&self, overview: &Overview, readiness: &Result<(), String>) -> Vec<String> {
        let own = self.consensus.identity().node_id();
        let mut warnings: Vec<String> = readiness.as_ref().err().cloned().into_iter().collect();
        if readiness.is_ok() && self.disk.is_low() {
            warnings.push("the disk is below its reserve".to_owned());
        }
        warnings.extend(clock_warning(
            self.stamper.wall_off_ms(),
            self.stamper.walls_ahead_ms(),
            self.stamper.wall_wrong_ms(),
        ));
        let jump_ms = self.stamper.jump_ms();
        if jump_ms > 0 {
            warnings.push(format!(
                "the cluster's time had to follow this node's wall clock, {} from where it was: check that clock",
                display_ms(jump_ms)
            ));
        }
        if self.consensus.identity().is_learner
            && overview.members.iter().any(|m| m.voter && m.id == own)
        {
            warnings.push(
                "it was started with --learner, and is a voter all the same: start it again without --learner"
                    .to_owned(),
            );
        }
        warnings.extend(self.certificates.warnings());
        let is_member = |id| overview.members.iter().any(|m| m.id == id);
        let peer_problems = self.consensus.identity().peer_problems();
        let refusals = peer_problems.warnings(is_member).into_iter();
        let why = readiness.as_ref().err().map_or("", String::as_str);
        warnings.extend(refusals.filter(|refusal| !why.contains(refusal)));
        warnings
    }

    /// The members, and on the leader what it knows of them.
    fn members(&self, overview: &Overview) -> Vec<Member> {
        let peer_problems = self.consensus.identity().peer_problems();
        let leads = overview.role == Role::Leader;
        let member = |m: &MemberProgress| Member {
            id: m.id,
            seat: m.record.seat,
            voter: m.voter,
            client_address: m.record.client_address.clone(),
            peer_address: m.record.peer_address.clone(),
            // What a node that refuses this leader's messages once acknowledged says nothing of what it holds.
            lag_entries: m
                .matched
                .filter(|_| !peer_problems.is_refused_by(m.id))
                .map(|matched| overview.last_log.saturating_sub(matched)),
            feature_level: m.record.feature_level,
            uuid: m.record.uuid.clone(),
            silent_ms: m
                .silent_for
                .and_then(|silent| u64::try_from(silent.as_millis()).ok()),
            wall_ahead_ms: leads.then(|| self.stamper.wall_ahead_ms(m.id)).flatten(),
        };
        overview.members.iter().map(member).collect()
    }

    fn role(&self, overview: &Overview) -> RoleName {
        let identity = self.consensus.identity();
        let is_member = overview.members.iter().any(|m| m.id == identity.node_id());
        if identity.is_removed() {
            RoleName::Removed
        } else if overview.role == Role::Learner && !is_member {
            RoleName::Pristine
        } else {
            role_name(overview.role)
        }
    }
}

/// What an operator should know of a node's wall clock, which is `off_ms` from the cluster's time, 0 if that is near. A majority of the
/// nodes' walls agrees on a time that is `walls_ahead_ms` ahead of the cluster's, and this node's wall is `wrong_ms` from that.
fn clock_warning(
    off_ms: u64,
    walls_ahead_ms: Option<i64>,
    wrong_ms: Option<u64>,
) -> Option<String> {
    let (Some(ahead_ms), Some(wrong_ms)) = (walls_ahead_ms, wrong_ms) else {
        return (off_ms > 0).then(|| {
            format!(
                "its wall clock is {} from the cluster's time, which does not follow it, and no majority of the nodes' wall clocks is \
                 known to agree: compare `date` on all nodes, and set right those that are wrong",
                display_ms(off_ms)
            )
        });
    };
    if wrong_ms > 0 {
        return Some(format!(
            "its wall clock is {} from what a majority of the nodes' wall clocks agrees on, and is not followed: set it right",
            display_ms(wrong_ms)
        ));
    }
    let returns = if ahead_ms > 0 {
        "behind the nodes' wall clocks, and catches up"
    } else {
        "ahead of the nodes' wall clocks, and runs at half speed until they meet"
    };
    (off_ms > 0).then(|| {
        let distance = display_ms(ahead_ms.unsigned_abs());
        format!("the cluster's time is {distance} {returns}: nothing is to be done")
    })
}

fn role_name(role: Role) -> RoleName {
    match role {
        Role::Leader => RoleName::Leader,
        Role::Follower => RoleName::Follower,
        Role::Candidate => RoleName::Candidate,
        Role::Learner => RoleName::Learner,
        Role::Stopping => RoleName::Stopping,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: u64 = 3_600_000;

    fn warned(off_ms: u64, ahead_ms: Option<i64>, wrong_ms: Option<u64>) -> String {
        clock_warning(off_ms, ahead_ms, wrong_ms).unwrap_or_default()
    }

    #[test]
    fn only_the_owner_of_a_wrong_clock_is_told_to_set_it_right() {
        let set_right = "set it right";
        let wrong = warned(HOUR, Some(0), Some(HOUR));
        assert!(
            wrong.contains(set_right) && wrong.contains("is 1h from"),
            "{wrong}"
        );
        // The cluster's time is wrong, and this node's clock with it.
        assert!(warned(0, Some(7_200_000), Some(HOUR)).contains(set_right));
        for ahead_ms in [3_600_000, -3_600_000] {
            let right = warned(HOUR, Some(ahead_ms), Some(0));
            assert!(right.contains("time is 1h "), "{right}");
            assert!(!right.contains("set"), "{right}");
            assert!(right.contains("nothing is to be done"), "{right}");
        }
        let unknown = warned(HOUR, None, None);
        assert!(unknown.contains("compare `date` on all nodes"), "{unknown}");
        assert!(unknown.contains("is 1h from"), "{unknown}");
        assert_eq!(warned(0, None, None), "");
        assert_eq!(warned(0, Some(4_000), Some(0)), "");
    }
}
