//! The planted bug that writes a batch of rows in two: a crash between them leaves half of it, and a view sees half of it.

use bytes::Bytes;
use helve_machine::planted::{self, Plant};
use rocksdb::{DB, WriteBatch};

use super::{
    error::StorageError,
    options::{self, ROWS},
    state_meta,
};
use crate::failpoint::{self, Failpoint};

type Row = (Bytes, Option<Bytes>);

/// With the bug, writes the first half of the rows on its own. Answers what is left to write.
pub(super) fn write_half<'a>(db: &DB, rows: &'a [Row]) -> Result<&'a [Row], StorageError> {
    if rows.len() < 2 || !planted::is(Plant::TwoWrites) {
        return Ok(rows);
    }
    let (rows, rest) = rows.split_at(rows.len() / 2);
    let family = state_meta::family(db, ROWS);
    let mut batch = WriteBatch::default();
    for (key, value) in rows {
        match value {
            Some(value) => batch.put_cf(&family, key, value),
            None => batch.delete_cf(&family, key),
        }
    }
    db.write_opt(batch, &options::unlogged())
        .map_err(StorageError::engine("write the state"))?;
    // A memtable may be flushed at any time, and then a crash leaves the half.
    state_meta::flush(db)?;
    failpoint::pass(Failpoint::ApplyBetweenWrites);
    Ok(rest)
}
