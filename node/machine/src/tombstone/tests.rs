//! Tests of tombstones.

use helve_proto::v1::HandleStatus;

use super::{Batch, Bytes, Fault, Space, TOMBSTONE_TTL_MS, TombstoneRow, View, add, read, summary};
use crate::limits::Bounds;

struct NoRows;

impl View for NoRows {
    fn get(&self, _: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(None)
    }

    fn range(&self, _: &[u8], _: &[u8], _: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        Ok(Vec::new())
    }
}

#[test]
fn at_the_bound_the_oldest_tombstone_goes_first() {
    let space = Space {
        group_id: 1,
        tenant: "default",
    };
    let bounds = Bounds {
        tombstones_max: 2,
        ..Bounds::REPLICATED
    };
    let mut batch = Batch::bounded(NoRows, bounds);
    let leave = |batch: &mut Batch<NoRows>, at_ms: u64, path: &[u8]| {
        let row = TombstoneRow {
            status: HandleStatus::Taken.into(),
            at_ms,
            lease: None,
        };
        add(batch, space, path, &row).unwrap();
    };
    leave(&mut batch, 20, b"second");
    leave(&mut batch, 10, b"first");
    leave(&mut batch, 30, b"third");

    assert!(read(&batch, space, b"first").unwrap().is_none());
    assert!(read(&batch, space, b"second").unwrap().is_some());
    assert!(read(&batch, space, b"third").unwrap().is_some());
    let left = summary(&batch, space).unwrap();
    assert_eq!(left.rows, 2);
    assert!(
        left.due_ms
            .is_some_and(|due_ms| due_ms <= 20 + TOMBSTONE_TTL_MS)
    );
}
