//! Tests of members whose directories were emptied: what is said of them agrees.

use super::*;

/// The node that runs with an empty directory where this member ran.
fn wiped(id: u64) -> Answer {
    let mut answer = answer(id, Role::Pristine, 0);
    let reply = answer.reply.as_mut().unwrap();
    reply.members.clear();
    reply.cluster_id.clear();
    let node = reply.node.as_mut().unwrap();
    (node.id, node.ready) = (0, false);
    (node.last_log_index, node.applied_index) = (0, 0);
    node.warning = "the cluster has no leader to join through".into();
    answer
}

fn lines(report: &Report, text: &str) -> usize {
    report
        .next
        .iter()
        .filter(|next| next.contains(text))
        .count()
}

#[test]
fn wiped_majority_is_to_be_found_or_recovered_from() {
    for survivor in [answer(1, Role::Candidate, 0), answer(1, Role::Follower, 2)] {
        let report = Report::new(&[survivor, wiped(2), wiped(3)]);
        assert!(!report.quorum);
        let next = report.next.join("\n");
        // They run: to start them as they are, or a majority, is no use.
        for useless in ["start node", "start a majority", "--id"] {
            assert!(!next.contains(useless), "{useless}: {next}");
        }
        assert_eq!(
            lines(&report, "hold no data: 2 (seat 2), 3 (seat 3)"),
            1,
            "{next}"
        );
        assert_eq!(lines(&report, "helve recover"), 1, "{next}");
        assert_eq!(lines(&report, "no leader to join"), 0, "{next}");
        let page = page::text(&report);
        assert!(!page.contains("not asked"), "{page}");
        assert!(page.contains("the data of node 2 is not there"), "{page}");
    }
}

#[test]
fn wiped_minority_without_quorum_needs_the_others_started() {
    let report = Report::new(&[
        answer(1, Role::Candidate, 0),
        wiped(2),
        silent("127.0.0.1:7403"),
    ]);
    let next = report.next.join("\n");
    assert_eq!(lines(&report, "serve --id 3"), 1, "{next}");
    assert_eq!(lines(&report, "start a majority"), 1, "{next}");
    assert_eq!(lines(&report, "hold no data: 2 (seat 2);"), 1, "{next}");
    assert!(!next.contains("--id 2"), "{next}");
}

#[test]
fn wiped_member_of_a_quorum_takes_its_seat_over_by_itself() {
    let report = Report::new(&[
        answer(1, Role::Leader, 1),
        answer(2, Role::Follower, 1),
        wiped(3),
    ]);
    assert!(report.quorum);
    let next = report.next.join("\n");
    assert!(!next.contains("start node 3"), "{next}");
    assert_eq!(lines(&report, "no leader to join"), 1, "{next}");
    assert_eq!(report.unready(), ["127.0.0.1:7403"]);
}

#[test]
fn leader_whose_data_is_gone_is_no_quorum_though_others_name_it() {
    let report = Report::new(&[
        wiped(1),
        answer(2, Role::Follower, 1),
        answer(3, Role::Follower, 1),
    ]);
    assert!(!report.quorum);
    assert_eq!(report.cause.as_deref(), Some("no_quorum"));
    assert!(!report.next.join("\n").contains("helve recover"));
}

#[test]
fn nodes_that_are_all_wiped_wait_for_each_other_alone() {
    let report = Report::new(&[wiped(1), wiped(2), wiped(3)]);
    let next = report.next.join("\n");
    assert_eq!(report.next.len(), 3, "{next}");
    for useless in ["start", "helve recover", "hold no data"] {
        assert!(!next.contains(useless), "{useless}: {next}");
    }
}
