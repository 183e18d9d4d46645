//! Who cannot reach whom.

use rand::{rngs::SmallRng, seq::SliceRandom as _};

use crate::fault::network::Side;

/// The shape of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// The leader and less than half of the nodes here, all others there.
    LeaderInMinority,
    /// The leader and most nodes here, the others there.
    LeaderInMajority,
    /// The leader hears none of its peers, and all of them hear it.
    LeaderDeaf,
    /// The leader hears all of its peers, and none of them hears it.
    LeaderMute,
    /// Two halves that do not reach each other, and one node that reaches both. The leader is in one of the halves.
    Bridge,
    /// No client reaches the leader; all reach the others.
    ClientsFromLeader,
}

impl Shape {
    /// The lanes to cut.
    #[must_use]
    pub fn cuts(self, seats: &[u64], leader: u64, rng: &mut SmallRng) -> Vec<(Side, Side)> {
        let mut others: Vec<u64> = seats.iter().copied().filter(|&s| s != leader).collect();
        others.shuffle(rng);
        // What can be missing while a majority is left.
        let minority = (seats.len() - 1) / 2;
        let (leaders, rest) = match self {
            Self::LeaderInMinority => others.split_at(minority.saturating_sub(1)),
            Self::LeaderInMajority => others.split_at(others.len() - minority),
            // One of those that do not lead is the bridge: it is in neither half.
            Self::Bridge => {
                let bridged = &others[1.min(others.len())..];
                bridged.split_at(bridged.len() / 2)
            }
            Self::LeaderDeaf | Self::LeaderMute => (&[][..], &others[..]),
            Self::ClientsFromLeader => return both_ways(Side::Clients, Side::Node(leader)).into(),
        };
        let here = leaders.iter().copied().chain([leader]);
        let parted = here.flat_map(|a| rest.iter().map(move |&b| (Side::Node(a), Side::Node(b))));
        match self {
            Self::LeaderDeaf => parted.map(|(leader, other)| (other, leader)).collect(),
            Self::LeaderMute => parted.collect(),
            _ => parted.flat_map(|(a, b)| both_ways(a, b)).collect(),
        }
    }
}

/// All lanes between nodes.
#[must_use]
pub(super) fn pairs(seats: &[u64]) -> Vec<(Side, Side)> {
    let pairs = seats
        .iter()
        .flat_map(|&a| seats.iter().map(move |&b| (a, b)));
    pairs
        .filter(|(a, b)| a != b)
        .map(|(a, b)| (Side::Node(a), Side::Node(b)))
        .collect()
}

fn both_ways(a: Side, b: Side) -> [(Side, Side); 2] {
    [(a, b), (b, a)]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use rand::SeedableRng as _;

    use super::*;

    const LEADER: u64 = 2;

    fn cuts(shape: Shape, nodes: u64) -> BTreeSet<(Side, Side)> {
        let seats: Vec<u64> = (1..=nodes).collect();
        let cuts = shape.cuts(&seats, LEADER, &mut SmallRng::seed_from_u64(3));
        let distinct: BTreeSet<_> = cuts.iter().copied().collect();
        assert_eq!(distinct.len(), cuts.len(), "{cuts:?}");
        distinct
    }

    /// How many nodes the leader reaches, itself included, and is reached by.
    fn reach(cuts: &BTreeSet<(Side, Side)>, nodes: u64) -> (usize, usize) {
        let leader = Side::Node(LEADER);
        let free = |lane: &(Side, Side)| !cuts.contains(lane);
        let others = (1..=nodes).filter(|&seat| seat != LEADER).map(Side::Node);
        let to = others.clone().filter(|&other| free(&(leader, other)));
        let from = others.filter(|&other| free(&(other, leader)));
        (1 + to.count(), 1 + from.count())
    }

    #[test]
    fn the_leader_is_on_the_side_that_the_shape_says() {
        for (nodes, minority, majority) in [(3, 1, 2), (5, 2, 3)] {
            let small = cuts(Shape::LeaderInMinority, nodes);
            assert_eq!(reach(&small, nodes), (minority, minority));
            let large = cuts(Shape::LeaderInMajority, nodes);
            assert_eq!(reach(&large, nodes), (majority, majority));
        }
    }

    #[test]
    fn a_deaf_leader_is_heard_and_a_mute_one_hears() {
        assert_eq!(reach(&cuts(Shape::LeaderDeaf, 3), 3), (3, 1));
        assert_eq!(reach(&cuts(Shape::LeaderMute, 3), 3), (1, 3));
    }

    #[test]
    fn a_bridge_reaches_all_and_its_ends_do_not_reach_each_other() {
        for nodes in [3, 5] {
            let cuts = cuts(Shape::Bridge, nodes);
            let whole = (1..=nodes).filter(|&seat| {
                let node = Side::Node(seat);
                cuts.iter().all(|&(from, to)| from != node && to != node)
            });
            assert_eq!(whole.count(), 1, "{cuts:?}");
            let (to, from) = reach(&cuts, nodes);
            assert!(
                to == from && to < usize::try_from(nodes).unwrap(),
                "{cuts:?}"
            );
        }
    }

    #[test]
    fn clients_that_are_cut_from_the_leader_reach_the_others() {
        let leader = Side::Node(LEADER);
        let expected = [(Side::Clients, leader), (leader, Side::Clients)];
        assert_eq!(cuts(Shape::ClientsFromLeader, 3), expected.into());
    }
}
