//! Tests of what is shown and advised during an upgrade.

use super::*;

#[test]
fn while_versions_differ_the_old_nodes_are_named() {
    let mut answers = [
        answer(1, Role::Leader, 1),
        answer(2, Role::Follower, 1),
        answer(3, Role::Follower, 1),
    ];
    for upgraded in [0, 2] {
        let reply = answers[upgraded].reply.as_mut().unwrap();
        reply.node.as_mut().unwrap().feature_level = 2;
    }
    let report = Report::new(&answers);
    assert_eq!(report.feature_level, 1);
    let [advice] = report.next.as_slice() else {
        panic!("{:?}", report.next)
    };
    assert!(advice.contains("feature level 2 on node 2"), "{advice}");
}

#[test]
fn held_level_is_shown_with_the_command_that_raises_it() {
    let mut answers = [1, 2, 3].map(|id| answer(id, Role::Follower, 1));
    for answer in &mut answers {
        let node = answer.reply.as_mut().unwrap().node.as_mut().unwrap();
        (node.feature_level, node.held_level) = (2, 1);
    }
    let report = Report::new(&answers);
    let page = page::text(&report);
    assert!(page.contains("feature level 1, held\n"), "{page}");
    assert!(page.contains("`helve upgrade finish` raises it"), "{page}");
}
