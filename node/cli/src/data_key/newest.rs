//! Which key `helve data-key rotate` chooses: the newest one, unless that may be a retired one.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use anyhow::anyhow;
use helve_client::v1::Unit;
use helve_command::{
    cluster::{ClusterArgs, check_one_cluster},
    ending::{Cause, Caused, Ending, Outcome},
};
use helve_proto::v1::{
    DataKeyCount, DataKeyStatusReply, StatusReply, set_data_key_request::Target,
};
use tokio::time::{Instant, sleep};

use super::{LOOK_PAUSE, first};
use crate::status;

/// How long nodes may take to read a new key's file: they look every second.
const READ_MAX: Duration = Duration::from_secs(3);

/// Chooses the newest key of the node that answers.
///
/// # Errors
/// If values are sealed under it already, the newest keys of the nodes differ, it has sealed before, or the endpoints are of several
/// clusters.
pub(super) async fn choose(cluster: &ClusterArgs) -> Result<Target, Ending> {
    // Which key is new depends on the cluster.
    check_one_cluster(cluster).await?;
    let (_, now) = first(cluster).await?;
    let is_newest = now.held.last() == Some(&now.key_id);
    if is_newest && !now.under_way {
        return Err(nothing_new(&now.key_id));
    }
    agree_on_newest(cluster).await?;
    let (_, now) = first(cluster).await?;
    if let Some(problem) = goes_back(&now) {
        return Err(Ending::Refused(anyhow!(problem)));
    }
    Ok(match now.held.last() {
        Some(newest) => Target::KeyId(newest.clone()),
        None => Target::Newest(Unit {}),
    })
}

/// Refuses where the nodes that answer do not have the same newest key: the order of their files differs, and the newest key of one
/// may be a retired one.
async fn agree_on_newest(cluster: &ClusterArgs) -> Outcome {
    let end = Instant::now() + READ_MAX.min(cluster.timeout);
    loop {
        let replies = status::replies(cluster).await?;
        let Some(problem) = disagreement(&replies) else {
            return Ok(());
        };
        if Instant::now() >= end {
            return Err(Ending::Refused(anyhow!(problem)));
        }
        sleep(LOOK_PAUSE).await;
    }
}

/// What to say of nodes whose newest keys differ. A node without keys is left to the node that is asked to rotate.
fn disagreement(replies: &[StatusReply]) -> Option<String> {
    let mut newest: BTreeMap<&str, BTreeSet<u64>> = BTreeMap::new();
    for node in replies.iter().filter_map(|reply| reply.node.as_ref()) {
        if !node.held_key_id.is_empty() {
            newest.entry(&node.held_key_id).or_default().insert(node.id);
        }
    }
    let held = |(key, nodes): (&&str, &BTreeSet<u64>)| {
        let nodes: Vec<_> = nodes.iter().map(u64::to_string).collect();
        format!("{key} on node {}", nodes.join(", "))
    };
    let each: Vec<_> = newest.iter().map(held).collect();
    (each.len() > 1).then(|| {
        format!(
            "the nodes' newest keys differ: {}; one of them may be retired: name the key with --to, or give the files the same order on \
             every node",
            each.join("; ")
        )
    })
}

/// What to say if the newest key has sealed before, so that a rotation to it goes back, or if that is not certain.
fn goes_back(now: &DataKeyStatusReply) -> Option<String> {
    let newest = now.held.last()?;
    let has_sealed =
        |count: &DataKeyCount| count.key_id == *newest && (count.records > 0 || count.kept > 0);
    if now.key_id.is_empty() || *newest == now.key_id || now.under_way {
        return None;
    }
    if now.former.contains(newest) || now.counts.iter().any(has_sealed) {
        return Some(format!(
            "key {newest} is the newest of the node that answers, and has sealed values before key {}: the order of its files is wrong; \
             pass --to {newest} to go back to it",
            now.key_id
        ));
    }
    now.partial.then(|| {
        format!(
            "not all values were counted within --timeout, so key {newest} may have sealed values before key {}: pass a longer --timeout, \
             or --to {newest} if that is a new key",
            now.key_id
        )
    })
}

/// Values are sealed under the newest key already: nothing was rotated.
fn nothing_new(key_id: &str) -> Ending {
    let message = format!(
        "no newer key: values are sealed under key {key_id}, and the node that answered holds no newer one; make one with `helve \
         data-key new FILE`, give it to every node, and run this again"
    );
    Ending::Absent(Caused::new(Cause::NothingNew, message).into())
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::NodeStatus;

    use super::*;

    #[test]
    fn nodes_with_other_newest_keys_are_named_with_their_keys() {
        let reply = |id, key: &str| StatusReply {
            node: Some(NodeStatus {
                id,
                held_key_id: key.to_owned(),
                ..NodeStatus::default()
            }),
            ..StatusReply::default()
        };
        let alike = [reply(1, "a1"), reply(2, "a1"), reply(3, "")];
        assert_eq!(disagreement(&alike), None);
        let differing = [reply(1, "b2"), reply(2, "a1"), reply(3, "b2")];
        let problem = disagreement(&differing).unwrap();
        for named in ["a1 on node 2", "b2 on node 1, 3", "--to"] {
            assert!(problem.contains(named), "{problem}");
        }
    }

    #[test]
    fn newest_key_that_has_sealed_before_is_not_chosen() {
        let counted = |key: &str, records, kept| DataKeyCount {
            key_id: key.to_owned(),
            records,
            kept,
        };
        let mut now = DataKeyStatusReply {
            key_id: "b2".to_owned(),
            held: vec!["b2".to_owned(), "a1".to_owned()],
            counts: vec![counted("b2", 9, 0), counted("a1", 0, 3)],
            ..DataKeyStatusReply::default()
        };
        assert!(goes_back(&now).unwrap().contains("--to a1"));
        now.counts.pop();
        assert_eq!(goes_back(&now), None, "a key that is new");
        now.partial = true;
        let problem = goes_back(&now).unwrap();
        assert!(problem.contains("longer --timeout"), "{problem}");
        assert!(problem.contains("--to a1"), "{problem}");
        now.partial = false;
        now.former = vec!["c3".to_owned()];
        assert_eq!(goes_back(&now), None, "another key sealed before");
        now.former.push("a1".to_owned());
        let problem = goes_back(&now).unwrap();
        assert!(
            problem.contains("has sealed values before key b2"),
            "{problem}"
        );
        now.key_id.clear();
        assert_eq!(goes_back(&now), None, "sealing begins again under any key");
    }
}
