//! A wrong count is worked out again bit by bit: a tenant may have millions of rows, and no entry of the log may take that long.
//!
//! The recount goes through the rows in the order of their keys. Meanwhile a change of a row that it has passed changes its sum, and a
//! change of one that is still to come is seen there. So it ends with the true count, whatever happens in between.

use bytes::Bytes;

use super::{Counter, Delta, Recount};
use crate::{
    batch::Batch,
    fault::Fault,
    layout::{Due, Kind, Space, Span},
    repair::Repair,
    replay::listed,
    tombstone,
    view::{View, after},
};

/// Rows that are read at once: they may hold megabytes.
const PAGE_ROWS: usize = 16;
/// Sessions that are read at once: they hold some kilobytes.
const SESSIONS_MAX: usize = 256;

/// Rows that a counter counts.
struct Counts {
    span: Span,
    each: Each,
}

/// What a row adds to a counter.
#[derive(Clone, Copy)]
enum Each {
    /// A row, and its bytes without this many at the beginning of its key.
    Row { key_from: usize },
    /// Its bytes alone.
    Bytes,
    /// A session's row of the order of sessions, counted by a tenant.
    Session,
    /// The same, counted by its principal.
    OwnSession,
    /// A tombstone's row of their order, whose path begins so far in the key.
    Tombstone { path_from: usize },
}

impl Each {
    fn adds(self, key: &[u8], value: &Bytes) -> Delta {
        let all = key.len() + value.len();
        match self {
            Self::Row { key_from } => Delta::between(None, Some(all - key_from)),
            Self::Bytes => Delta::between(None, Some(all)).bytes_only(),
            Self::Session => listed::TENANTS,
            Self::OwnSession => listed::OWN,
            Self::Tombstone { path_from } => {
                tombstone::delta(key.get(path_from..).unwrap_or_default(), value)
            }
        }
    }
}

/// What a counter counts, in the order of the keys.
fn counted_by(space: Space<'_>, counter: Counter<'_>) -> Vec<Counts> {
    let records = |kind, path: &[u8]| Counts {
        span: space.records(kind, path),
        each: Each::Row {
            key_from: space.records(kind, &[]).prefix.len(),
        },
    };
    let bytes_of = |span| Counts {
        span,
        each: Each::Bytes,
    };
    let sessions = |principal: &[u8], each| Counts {
        span: space.session_orders(principal),
        each,
    };
    let tombstones = space.tombstone_orders();
    match counter {
        Counter::Tenant => vec![
            records(Kind::Handle, &[]),
            records(Kind::Key, &[]),
            Counts {
                each: Each::Tombstone {
                    path_from: tombstones.prefix.len() + 8,
                },
                span: tombstones,
            },
            bytes_of(space.session_outcomes(&[])),
            bytes_of(space.request_outcomes()),
            sessions(&[], Each::Session),
            bytes_of(space.principal_request_outcomes(&[])),
        ],
        Counter::Principal(path) => vec![sessions(path, Each::OwnSession)],
        Counter::Store(path) | Counter::Owner(path) => vec![records(Kind::Handle, path)],
        Counter::Sessions => Vec::new(),
    }
}

/// Takes a recount further, by a bounded number of rows and bytes, and says by how many rows. At the end the counter says what was found,
/// and the recount's row of the deadline index goes.
pub(crate) fn step<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    (at_ms, clock_ms): (u64, u64),
    counter: Counter<'_>,
) -> Result<u32, Fault> {
    let rows_max = batch.bounds().tick_rows_max;
    let due = Due::Recount(counter.name());
    let Some(mut recount) = batch.recount_of(space, counter)? else {
        batch.delete_deadline(space, at_ms, &due);
        return Ok(1);
    };
    let (read, is_done) = match counter {
        Counter::Sessions => sessions(batch, space, &mut recount, rows_max)?,
        _ => records(batch, space, counter, &mut recount, rows_max)?,
    };
    if is_done {
        batch.delete_deadline(space, at_ms, &due);
        let (was, is) = batch.end_recount(space, counter, recount.sum)?;
        // A raise has it counted, whether or not it is wrong.
        if was != is {
            batch.note_repair(Repair {
                what: "usage",
                tenant: space.tenant.to_owned(),
                was: was.rows,
                is: is.rows,
            });
        }
    } else {
        // What became due meanwhile goes first.
        batch.move_deadline(space, &due, Some(at_ms), Some(clock_ms))?;
        batch.go_on_with(space, counter, recount)?;
    }
    Ok(read.max(1))
}

/// Counts rows, and says how many, and whether none is left.
fn records<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    counter: Counter<'_>,
    recount: &mut Recount,
    rows_max: u32,
) -> Result<(u32, bool), Fault> {
    let mut read = 0;
    for counts in counted_by(space, counter) {
        let end = &counts.span.end;
        loop {
            let from = (&recount.next[..]).max(&counts.span.prefix);
            if from >= &end[..] {
                break;
            }
            if read >= rows_max || batch.has_read_enough(space.group_id)? {
                return Ok((read, false));
            }
            let page_rows = ((rows_max - read) as usize).min(PAGE_ROWS);
            let page = batch.range(from, end, page_rows)?;
            let is_last = page.len() < page_rows;
            for (key, value) in page {
                if batch.has_read_enough(space.group_id)? {
                    return Ok((read, false));
                }
                batch.note_read(value.len());
                recount.sum = counts.each.adds(&key, &value).on(recount.sum);
                recount.next = after(&key).into();
                read += 1;
            }
            if is_last {
                recount.next = end.clone().into();
            }
        }
    }
    Ok((read, true))
}

fn sessions<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    recount: &mut Recount,
    rows_max: u32,
) -> Result<(u32, bool), Fault> {
    let span = space.sessions();
    let from = (&recount.next[..]).max(&span.prefix).to_vec();
    let page_rows = (rows_max as usize).min(SESSIONS_MAX);
    let found = batch.first_sessions(&from, &span.end, page_rows)?;
    let read = found.len();
    recount.sum.rows = recount.sum.rows.wrapping_add(read as u64);
    let last = found.last().filter(|_| read == page_rows);
    let is_done = last.is_none();
    recount.next = last.map_or_else(|| span.end.into(), |last| after(last).into());
    Ok((u32::try_from(read).unwrap_or(rows_max), is_done))
}
