//! Rows that give rights, or say what the cluster is. A host may authenticate them on its disk.

use super::{CLUSTER, FEATURE_LEVEL, Group, NODE_IDS, SEALING, TENANTS, TOKENS};

const TABLES: [u8; 6] = [NODE_IDS, CLUSTER, FEATURE_LEVEL, TOKENS, TENANTS, SEALING];

/// Whether a key is that of a token, a tenant, or one of the group's own rows that few commands change: how values are sealed, the
/// feature level, the cluster's name and the last node id.
#[must_use]
pub fn is_authority(group_id: u32, key: &[u8]) -> bool {
    let own = key.strip_prefix(&group_id.to_be_bytes());
    matches!(own, Some([0, table, ..]) if TABLES.contains(table))
}

/// Where these rows are: ranges of keys, each from its first key to before its second.
pub fn authority_ranges(group_id: u32) -> impl Iterator<Item = (Vec<u8>, Vec<u8>)> {
    let group = Group(group_id);
    TABLES
        .into_iter()
        .map(move |table| (group.table(table), group.table(table + 1)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Due, Kind, Space, Target};

    #[test]
    fn rows_that_give_rights_are_in_the_ranges_and_others_are_not() {
        let (group, tenant) = (Group(1), "acme");
        let space = Space {
            group_id: 1,
            tenant,
        };
        let record = Target {
            kind: Kind::Key,
            path: "a".into(),
        };
        let token = Due::Token("hash".into());
        let table = [
            (group.token(&[7; 32]), true),
            (group.tenant(tenant), true),
            (group.sealing(), true),
            (group.feature_level(), true),
            (group.cluster(), true),
            (group.node_ids(), true),
            (group.clock(), false),
            (group.deadline(5, "", &token), false),
            (group.deadlines_from(), false),
            (group.probes(), false),
            (space.token(&[7; 32]), false),
            (space.record(&record), false),
            (Group(2).token(&[7; 32]), false),
        ];
        for (key, expected) in table {
            let is_in = |(from, to): (Vec<u8>, Vec<u8>)| from[..] <= key[..] && key[..] < to[..];
            assert_eq!(is_authority(1, &key), expected, "{key:?}");
            assert_eq!(authority_ranges(1).any(is_in), expected, "{key:?}");
        }
    }
}
