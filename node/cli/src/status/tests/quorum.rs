//! Tests of when there is a quorum, and of one cluster.

use helve_node::node::recover::MAJORITY_SILENT;

use super::*;

#[test]
fn member_that_takes_no_part_counts_for_no_majority() {
    let mut put_back = answer(2, Role::Pristine, 0);
    let reply = put_back.reply.as_mut().unwrap();
    reply.members.clear();
    reply.node.as_mut().unwrap().warning = "this node's disk was put back".into();
    let leader = answer(3, Role::Leader, 3);
    let report = Report::new(&[silent("127.0.0.1:7401"), put_back.clone(), leader.clone()]);
    assert!(!report.quorum);
    assert_eq!(report.cause.as_deref(), Some("no_quorum"));
    let next = report.next.join("\n");
    for advice in ["start a majority", "put back", "helve recover"] {
        assert!(next.contains(advice), "{next}");
    }
    let others = [answer(1, Role::Follower, 3), put_back, leader];
    assert!(Report::new(&others).quorum);
}

#[test]
fn leader_that_hears_no_majority_is_no_quorum_though_all_answer() {
    let mut leader = answer(1, Role::Leader, 1);
    let node = leader.reply.as_mut().unwrap().node.as_mut().unwrap();
    node.ready = false;
    node.warning = format!("{MAJORITY_SILENT}; start them");
    let followers = [2, 3].map(|id| answer(id, Role::Follower, 1));
    let answers: Vec<_> = std::iter::once(leader).chain(followers).collect();
    let report = Report::new(&answers);
    assert!(!report.quorum);
    assert_eq!(report.cause.as_deref(), Some("no_quorum"));
    let next = report.next.join("\n");
    assert!(next.contains("reach each other"), "{next}");
}

#[test]
fn endpoints_of_two_clusters_are_named_with_their_clusters() {
    let mut other = answer(2, Role::Leader, 2);
    other.reply.as_mut().unwrap().cluster_id = "d".into();
    let mut pristine = answer(3, Role::Pristine, 0);
    pristine.reply.as_mut().unwrap().cluster_id.clear();
    let report = Report::new(&[answer(1, Role::Leader, 1), pristine.clone(), other.clone()]);
    let problem = report.mixed.unwrap();
    for named in ["c at 127.0.0.1:7401", "d at 127.0.0.1:7402"] {
        assert!(problem.contains(named), "{problem}");
    }
    assert!(report.next.contains(&problem), "{:?}", report.next);
    let ending = of_one_cluster(&[answer(1, Role::Leader, 1), other]).unwrap_err();
    assert!(matches!(ending, Ending::Refused(_)), "{ending:?}");
    assert_eq!(ending.cause(), "several_clusters");
    let one = [answer(1, Role::Leader, 1), pristine];
    assert!(Report::new(&one).mixed.is_none());
    assert!(of_one_cluster(&one).is_ok());
}
