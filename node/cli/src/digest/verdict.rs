//! What the digests of all nodes come to.

use std::collections::{BTreeMap, BTreeSet};

use super::View;

/// Everything that each node has answered so far, by its id.
pub(super) type Views = BTreeMap<u64, Vec<View>>;

/// Whether nodes agree.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// All were seen at one entry, with the same rows: so.
    Equal(BTreeMap<u64, View>),
    /// Some were seen at one entry with different rows: so.
    Differ(BTreeMap<u64, View>),
    /// Not all were seen at one entry, and those that were agree.
    Undecided,
}

/// Compares what `members` nodes have answered, wherever they were seen at the same entry.
pub(super) fn judge(views: &Views, members: usize) -> Verdict {
    let mut by_index: BTreeMap<u64, BTreeMap<u64, View>> = BTreeMap::new();
    for (id, views) in views {
        for view in views {
            let at_index = by_index.entry(view.applied_index).or_default();
            at_index.insert(*id, view.clone());
        }
    }
    let mut equal = None;
    // The newest last: a node that has gone wrong stays so, and the newest views say the most about now.
    for at_index in by_index.into_values() {
        if digests(&at_index).len() > 1 {
            return Verdict::Differ(at_index);
        }
        if at_index.len() == members {
            equal = Some(at_index);
        }
    }
    equal.map_or(Verdict::Undecided, Verdict::Equal)
}

fn digests(views: &BTreeMap<u64, View>) -> BTreeSet<&str> {
    views.values().map(|view| view.digest.as_str()).collect()
}

/// The nodes that differ from a majority of those that were compared; `None` if no majority agrees.
pub(super) fn minority(views: &BTreeMap<u64, View>) -> Option<Vec<u64>> {
    let holders = |digest: &str| views.values().filter(|view| view.digest == digest).count();
    let right = digests(views)
        .into_iter()
        .find(|digest| holders(digest) * 2 > views.len())?;
    let wrong = views.iter().filter(|(_, view)| view.digest != right);
    Some(wrong.map(|(id, _)| *id).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn views(said: &[(u64, u64, &str)]) -> Views {
        let mut views = Views::default();
        for &(id, applied_index, digest) in said {
            let digest = digest.to_owned();
            views.entry(id).or_default().push(View {
                applied_index,
                rows: 1,
                digest,
            });
        }
        views
    }

    #[test]
    fn nodes_are_equal_only_where_all_were_seen_at_one_entry() {
        let apart = [(1, 7, "a"), (2, 7, "a"), (3, 8, "b")];
        assert_eq!(judge(&views(&apart), 3), Verdict::Undecided);
        // The entries of different rounds count.
        let met = [&apart[..], &[(3, 7, "a"), (1, 9, "c")]].concat();
        assert!(matches!(judge(&views(&met), 3), Verdict::Equal(at) if at.len() == 3));
    }

    #[test]
    fn two_digests_of_one_entry_are_a_difference_though_a_node_is_silent() {
        let Verdict::Differ(at) = judge(&views(&[(1, 7, "a"), (2, 7, "b")]), 3) else {
            panic!("they differ");
        };
        assert_eq!(minority(&at), None);
    }

    #[test]
    fn the_majority_is_right() {
        let said = [(1, 7, "a"), (2, 7, "b"), (3, 7, "a")];
        let Verdict::Differ(at) = judge(&views(&said), 3) else {
            panic!("they differ");
        };
        assert_eq!(minority(&at), Some(vec![2]));
    }
}
