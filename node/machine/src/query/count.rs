//! How many handles live: those that are counted, without those that have expired and are not removed yet.

use helve_proto::v1::{CountReply, CountRequest};

use super::{Read, Reading, Scope, handles::path_prefix};
use crate::{
    deadlines::deadlines_from,
    fault::Fault,
    layout::{DueRow, Kind, Shelf},
    lifetime,
    limits::{COUNT_INDEX_ROWS_MAX, COUNT_RECORDS_MAX, SCAN_INDEX_ROWS, SCAN_ROWS},
    record, usage,
    view::View,
};

/// How much a count may look at.
#[derive(Debug, Clone, Copy)]
struct Extent {
    index_rows: usize,
    records: u64,
}

const EXTENT: Extent = Extent {
    index_rows: COUNT_INDEX_ROWS_MAX,
    records: COUNT_RECORDS_MAX,
};

/// How many handles live. Costs the rows that are due and not removed yet, up to a bound; beyond it, few handles are counted one by
/// one, and of many [`Read::Busy`] is said.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn count<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &CountRequest,
) -> Result<Read<CountReply>, Fault> {
    count_within(view, scope, request, EXTENT)
}

fn count_within<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &CountRequest,
    extent: Extent,
) -> Result<Read<CountReply>, Fault> {
    let reading = Reading::new(view, scope)?;
    let path = path_prefix(&request.store, request.owner.as_deref())?;
    if reading.has_lapsed(Kind::Handle, &path)? {
        return Ok(Read::Lapsed);
    }
    let usage_key = match request.owner {
        Some(_) => reading.space.usage().owner(&path),
        None => reading.space.usage().store(&path),
    };
    let rows = usage::stored(view, &usage_key)?.rows;
    let due = match rows {
        0 => Some(0),
        _ => due(&reading, &path, extent.index_rows)?,
    };
    // More due handles than there are show that they were miscounted, which only a command can put right.
    let live = match due.and_then(|due| rows.checked_sub(due)) {
        Some(live) => Some(live),
        None => living(&reading, &path, extent.records)?,
    };
    Ok(match live {
        Some(live) => Read::Answer(CountReply {
            header: Some(reading.header()),
            live,
        }),
        None => Read::Busy,
    })
}

/// How many handles whose path begins so are expired but not removed yet. `None` if that is not
/// known from this many rows of the index.
fn due<V: View>(
    reading: &Reading<'_, V>,
    path_prefix: &[u8],
    rows_max: usize,
) -> Result<Option<u64>, Fault> {
    let group = reading.space.group();
    let start = |at_ms| {
        let kind = Shelf::Records.first();
        let start = group.deadlines_of(at_ms, kind, reading.space.tenant);
        [&start[..], path_prefix].concat()
    };
    let first_ms = deadlines_from(reading.view, group)?;
    let (_, to) = group.deadlines(first_ms, reading.clock_ms);
    let (mut from, mut count, mut left) = (start(first_ms), 0, rows_max);
    while left > 0 {
        let page_rows = left.min(SCAN_INDEX_ROWS);
        let rows = reading.view.range(&from, &to, page_rows)?;
        left -= rows.len();
        for (key, _) in &rows {
            if key[..] < from[..] {
                continue;
            }
            let row = group.parse_deadline(key);
            from = if reading.concerns(&row, Kind::Handle, path_prefix) {
                count += 1;
                [key, &[0][..]].concat()
            } else {
                behind(&row, key, start)
            };
        }
        if rows.len() < page_rows {
            return Ok(Some(count));
        }
    }
    Ok(None)
}

/// Where the next row that counts may be behind this one, which does not.
fn behind(row: &DueRow, key: &[u8], start: impl Fn(u64) -> Vec<u8>) -> Vec<u8> {
    let at_once = start(row.at_ms);
    if at_once[..] > *key {
        return at_once;
    }
    start(row.at_ms.saturating_add(1))
}

/// How many handles whose path begins so live, looked at one by one; `None` if there are more than that.
fn living<V: View>(
    reading: &Reading<'_, V>,
    path_prefix: &[u8],
    records_max: u64,
) -> Result<Option<u64>, Fault> {
    let span = reading.space.records(Kind::Handle, path_prefix);
    let (mut from, mut seen, mut live) = (span.prefix.clone(), 0, 0);
    loop {
        let rows = reading.view.range(&from, &span.end, SCAN_ROWS)?;
        seen += rows.len() as u64;
        if seen > records_max {
            return Ok(None);
        }
        for (_, value) in &rows {
            let row = record::decode(value)?;
            live += u64::from(lifetime::expired_at(&row, reading.clock_ms).is_none());
        }
        match rows.last() {
            Some((last, _)) if rows.len() == SCAN_ROWS => from = [last, &[0][..]].concat(),
            _ => return Ok(Some(live)),
        }
    }
}

#[cfg(test)]
mod tests;
