//! Tests of what `helve status` advises.

use helve_proto::v1::{Member, NodeStatus, Role};

use super::*;

mod levels;
mod quorum;
mod wiped;

fn member(id: u64, lag: Option<u64>) -> Member {
    Member {
        id,
        seat: id,
        voter: true,
        client_address: format!("127.0.0.1:740{id}"),
        peer_address: format!("127.0.0.1:741{id}"),
        lag_entries: lag,
        feature_level: 1,
        ..Default::default()
    }
}

fn answer(id: u64, role: Role, leader_id: u64) -> Answer {
    let lag = (role == Role::Leader).then_some(0);
    let node = NodeStatus {
        id,
        seat: id,
        role: role.into(),
        term: 4,
        leader_id,
        ready: leader_id != 0,
        feature_level: 1,
        last_log_index: 12,
        applied_index: 12,
        client_address: format!("127.0.0.1:740{id}"),
        peer_address: format!("127.0.0.1:741{id}"),
        ..Default::default()
    };
    let members = (1..=3).map(|id| member(id, lag)).collect();
    let reply = StatusReply {
        node: Some(node),
        members,
        cluster_id: "c".into(),
        feature_level: 1,
        ..Default::default()
    };
    Answer {
        endpoint: format!("127.0.0.1:740{id}"),
        reply: Ok(reply),
    }
}

fn silent(endpoint: &str) -> Answer {
    failing(endpoint, Cause::NothingListens)
}

fn failing(endpoint: &str, cause: Cause) -> Answer {
    let finding = Finding {
        endpoint: endpoint.into(),
        cause,
        problem: format!("cannot reach {endpoint} (a reason)"),
        next: "pass a flag".into(),
    };
    Answer {
        endpoint: endpoint.into(),
        reply: Err(finding),
    }
}

#[test]
fn a_healthy_cluster_has_a_line_a_node_and_no_advice() {
    let answers = [
        answer(1, Role::Leader, 1),
        answer(2, Role::Follower, 1),
        answer(3, Role::Follower, 1),
    ];
    let report = Report::new(&answers);
    assert!(report.quorum);
    assert_eq!(report.leader_id, 1);
    assert_eq!(report.next, [""; 0]);
    let text = page::text(&report);
    assert!(
        !text.contains("LEVEL"),
        "all nodes are of one level: {text}"
    );
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(text.ends_with("feature level 1"), "{text}");
    assert!(text.contains("leader") && text.contains("ready"), "{text}");
}

#[test]
fn an_unreachable_node_gets_a_line_and_the_command_that_starts_it() {
    let answers = [
        answer(1, Role::Leader, 1),
        answer(2, Role::Follower, 1),
        silent("127.0.0.1:7403"),
    ];
    let report = Report::new(&answers);
    assert!(report.quorum);
    assert_eq!(report.nodes.len(), 3);
    assert_eq!(report.nodes[2].health, cluster_report::Health::Unreachable);
    assert!(
        report.next[0].contains("helve serve --id 3"),
        "{:?}",
        report.next
    );
    let page = page::text(&report);
    assert!(
        page.contains("\ncannot reach 127.0.0.1:7403 (a reason)\n"),
        "{page}"
    );
}

#[test]
fn the_lag_of_a_node_is_what_it_says_itself_whatever_the_leader_believes() {
    let mut leader = answer(1, Role::Leader, 1);
    let reply = leader.reply.as_mut().unwrap();
    reply.node.as_mut().unwrap().committed_index = 12;
    reply.members[2].lag_entries = Some(7);
    let mut behind = answer(2, Role::Follower, 1);
    let reply = behind.reply.as_mut().unwrap();
    reply.node.as_mut().unwrap().applied_index = 2;
    let report = Report::new(&[leader, behind, silent("127.0.0.1:7403")]);
    let lags: Vec<_> = report.nodes.iter().map(|node| node.lag_entries).collect();
    assert_eq!(lags, [Some(0), Some(10), Some(7)]);
}

#[test]
fn a_minority_is_no_quorum_even_if_it_remembers_a_leader() {
    let answers = [
        answer(2, Role::Follower, 1),
        silent("127.0.0.1:7401"),
        silent("127.0.0.1:7403"),
    ];
    assert!(!Report::new(&answers).quorum);
    let leaderless = [answer(1, Role::Candidate, 0), answer(2, Role::Candidate, 0)];
    assert!(!Report::new(&leaderless).quorum);
    assert!(!Report::new(&[silent("127.0.0.1:7401")]).quorum);
}

#[test]
fn advice_without_a_majority_names_recovery_and_nothing_that_needs_one() {
    for survivor in [answer(1, Role::Leader, 1), answer(1, Role::Candidate, 0)] {
        let mut wiped = answer(0, Role::Pristine, 0);
        wiped.reply.as_mut().unwrap().members.clear();
        let down = ["127.0.0.1:7402", "127.0.0.1:7403"].map(silent);
        for others in [down.to_vec(), vec![wiped, silent("127.0.0.1:7403")]] {
            let answers: Vec<_> = std::iter::once(survivor.clone()).chain(others).collect();
            let next = Report::new(&answers).next.join("\n");
            assert!(
                next.contains("helve recover --data-dir DIR") && next.contains("serve --id 3"),
                "{next}"
            );
            for needs_majority in ["helve member", "empty DIR"] {
                assert!(!next.contains(needs_majority), "{next}");
            }
        }
    }
    // With a majority, or with no data anywhere, there is nothing to recover.
    let mut pristine = answer(0, Role::Pristine, 0);
    pristine.reply.as_mut().unwrap().members.clear();
    let leaderless = vec![answer(1, Role::Follower, 0), answer(2, Role::Follower, 0)];
    for answers in [leaderless, vec![pristine]] {
        let next = Report::new(&answers).next.join("\n");
        assert!(!next.contains("helve recover"), "{next}");
    }
}

#[test]
fn advice_names_the_survivor_with_the_newest_last_entry() {
    let left = |id, last_log_term, last_log_index| {
        let mut answer = answer(id, Role::Candidate, 0);
        let reply = answer.reply.as_mut().unwrap();
        let node = reply.node.as_mut().unwrap();
        (node.last_log_term, node.last_log_index) = (last_log_term, last_log_index);
        reply.members = (1..=5).map(|id| member(id, None)).collect();
        answer
    };
    let advice = |answers: &[Answer]| Report::new(answers).next.pop().unwrap();
    for (one, other, named) in [
        ((3, 90), (4, 80), "node 2, seat 2"),
        ((4, 80), (3, 90), "node 1, seat 1"),
        ((4, 80), (4, 81), "node 2, seat 2"),
    ] {
        let said = advice(&[left(1, one.0, one.1), left(2, other.0, other.1)]);
        assert!(
            said.contains(named) && said.contains("helve recover --data-dir DIR"),
            "{one:?}, {other:?}: {said}"
        );
    }
    // An older version does not say the term, and one alone needs no choice.
    for answers in [vec![left(1, 4, 80), left(2, 0, 90)], vec![left(1, 4, 80)]] {
        let said = advice(&answers);
        assert!(said.contains("stop a node whose data is left"), "{said}");
    }
}

#[test]
fn json_says_nodes_with_id_seat_and_role() {
    let report = Report::new(&[answer(1, Role::Leader, 1), silent("10.0.0.9:7400")]);
    let json = serde_json::to_value(&report).unwrap();
    let nodes = json["nodes"].as_array().unwrap();
    assert_eq!(
        nodes.len(),
        4,
        "two members and a stranger do not answer: {json}"
    );
    assert_eq!((&nodes[0]["id"], &nodes[0]["seat"]), (&1.into(), &1.into()));
    assert_eq!(nodes[0]["role"], "leader");
    assert_eq!(nodes[0]["applied_index"], 12);
    assert_eq!(nodes[1]["health"], "unreachable");
    assert_eq!(nodes[3]["client_address"], "10.0.0.9:7400");
}

#[test]
fn whether_values_are_sealed_and_which_key_a_node_holds_is_shown() {
    let shown = |sealed_key_id: &str, sealing_under_way, held_key_id: &str| {
        let mut answer = answer(1, Role::Leader, 1);
        let reply = answer.reply.as_mut().unwrap();
        let node = reply.node.as_mut().unwrap();
        node.sealed_key_id = sealed_key_id.into();
        node.sealing_under_way = sealing_under_way;
        node.held_key_id = held_key_id.into();
        let report = Report::new(&[answer]);
        let json = serde_json::to_value(&report).unwrap();
        let sealed = json["nodes"][0]["sealed"].as_str().unwrap().to_owned();
        (sealed, page::text(&report))
    };
    for (asked, sealed, words) in [
        (("", false, ""), "no", "no"),
        (
            ("00000000000000a1", false, "00000000000000a1"),
            "yes",
            "yes",
        ),
        (("", true, "00000000000000a1"), "under_way", "partly"),
    ] {
        let (said, text) = shown(asked.0, asked.1, asked.2);
        assert_eq!(said, sealed);
        let shown = if asked.2.is_empty() {
            // No node seals: there is nothing to show.
            assert!(!text.contains("SEALED"), "{text}");
            "ready".to_owned()
        } else {
            format!("{words} 00000000 ready")
        };
        let line = text.lines().nth(1).unwrap();
        let cells: Vec<_> = line.split_whitespace().collect();
        assert!(cells.join(" ").contains(&shown), "{text}");
    }
}

#[test]
fn the_next_thing_to_type_about_members_is_named() {
    let mut leader = answer(1, Role::Leader, 1);
    let reply = leader.reply.as_mut().unwrap();
    reply.joint = true;
    reply.members[1].voter = false;
    let mut outside = answer(9, Role::Pristine, 0);
    let waiting = outside.reply.as_mut().unwrap();
    waiting.members.clear();
    waiting.node.as_mut().unwrap().applied_index = 0;
    waiting.node.as_mut().unwrap().warning = "`helve member add --seat 9 --peer h:1`".into();
    let mut learner = answer(2, Role::Learner, 1);
    let reply = learner.reply.as_mut().unwrap();
    reply.joint = true;
    for no_voter in [1, 2] {
        reply.members[no_voter].voter = false;
    }
    let answers = [leader, learner, silent("127.0.0.1:7403"), outside];
    let next = Report::new(&answers).next.join("\n");
    for named in [
        "helve member replace 3 --seat SEAT --peer HOST:PORT",
        "helve member remove 3",
        "helve member promote 2",
        "helve member add --seat 9 --peer h:1",
        "half done",
    ] {
        assert!(next.contains(named), "{named} is not in {next}");
    }
}

#[test]
fn time_that_is_far_from_the_walls_is_told_in_one_line_and_in_json() {
    let off = |ahead_ms| {
        let mut answers = vec![answer(1, Role::Leader, 1), answer(2, Role::Follower, 1)];
        if let Ok(reply) = &mut answers[0].reply {
            reply.node.as_mut().unwrap().walls_ahead_ms = ahead_ms;
        }
        let report = Report::new(&answers);
        (page::text(&report), serde_json::to_value(&report).unwrap())
    };
    for (ahead_ms, line) in [
        (
            7_200_000,
            "2h behind the nodes' wall clocks, and catches up",
        ),
        (
            -606_000,
            "10m6s ahead of the nodes' wall clocks, and runs at half speed",
        ),
    ] {
        let (text, json) = off(Some(ahead_ms));
        assert_eq!(text.matches(line).count(), 1, "{text}");
        assert_eq!(json["nodes"][0]["walls_ahead_ms"], ahead_ms);
    }
    for near in [Some(10_000), Some(-10_000), None] {
        assert!(!off(near).0.contains("wall clocks"), "{near:?}");
    }
}

#[test]
fn what_is_wrong_with_the_command_is_advised_once_and_starts_no_node() {
    let refused = |endpoint| failing(endpoint, Cause::TokenRefused);
    let report = Report::new(&[refused("127.0.0.1:7401"), refused("127.0.0.1:7402")]);
    assert_eq!(report.next, ["pass a flag"]);
    assert_eq!(report.cause.as_deref(), Some("token_refused"));
    // A member that refuses the token runs.
    let report = Report::new(&[answer(1, Role::Leader, 1), refused("127.0.0.1:7402")]);
    assert!(
        !report.next.join("\n").contains("--id 2"),
        "{:?}",
        report.next
    );
    assert_eq!(
        Report::new(&[answer(1, Role::Candidate, 0)])
            .cause
            .as_deref(),
        Some("no_quorum")
    );
}

#[test]
fn lag_of_a_node_is_advised_in_millions() {
    let mut leader = answer(1, Role::Leader, 1);
    let node = leader.reply.as_mut().unwrap().node.as_mut().unwrap();
    node.committed_index = 12_345_690;
    node.applied_index = 12_345_690;
    let report = Report::new(&[
        leader,
        answer(2, Role::Follower, 1),
        answer(3, Role::Follower, 1),
    ]);
    let next = report.next.join("\n");
    assert!(next.contains("node 2 lacks 12.35M entries"), "{next}");
}

#[test]
fn table_fits_a_terminal_with_every_column_and_large_numbers() {
    let mut answers: Vec<_> = (1..=3).map(|id| answer(id, Role::Follower, 1)).collect();
    for (number, answer) in answers.iter_mut().enumerate() {
        let reply = answer.reply.as_mut().unwrap();
        let node = reply.node.as_mut().unwrap();
        node.term = 999_999;
        node.last_log_index = 123_456_789_012;
        node.applied_index = 123_456_789_011;
        node.disk_used_bytes = 999 << 30;
        node.sealing_under_way = true;
        node.held_key_id = "00000000000000a1".into();
        node.feature_level = u32::try_from(number).unwrap() + 1;
        node.warning = "a long story, ".repeat(20);
    }
    let page = page::text(&Report::new(&answers));
    for line in page.lines().take(4) {
        assert!(
            line.chars().count() <= 120,
            "{} columns: {page}",
            line.chars().count()
        );
    }
    assert!(page.contains("\n127.0.0.1:7402: a long story"), "{page}");
}
