//! One part of a list.

use bytes::Bytes;
use helve_proto::command::v1::RecordRow;

use super::{Page, Reading};
use crate::{fault::Fault, layout::Span, lifetime, limits::SCAN_ROWS, record, view::View};

/// What a listed record costs beside its name and value.
const RECORD_BYTES: usize = 64;

/// Which part of a list is asked for.
pub(super) struct Part<'a> {
    pub(super) page: Page,
    /// What stood behind the span's prefix in the key of the last row of the part before; empty: from the start.
    pub(super) resume_token: &'a Bytes,
    /// Records at or before this whole key are passed over; empty: none are.
    pub(super) after: &'a [u8],
    /// Records after which the part ends, though it has room for more; 0: none.
    pub(super) limit: u64,
    pub(super) with_values: bool,
}

/// The records of a span that live, each made into what is listed from the rest of its key and its row; and the resume token,
/// empty if no row follows.
pub(super) fn part<V: View, T>(
    reading: &Reading<'_, V>,
    span: &Span,
    part: &Part<'_>,
    make: impl Fn(&[u8], RecordRow) -> Result<T, Fault>,
) -> Result<(Vec<T>, Bytes), Fault> {
    let start = span.prefix.len();
    let mut from = first_key(span, part);
    let rows_max = part.page.rows_max.max(1);
    let records_max = match usize::try_from(part.limit) {
        Ok(limit @ 1..) => limit,
        _ => usize::MAX,
    };
    let mut listed = Vec::new();
    let (mut rows_seen, mut bytes) = (0, 0);
    loop {
        let wanted = wanted(rows_max - rows_seen, records_max - listed.len(), rows_seen);
        // One row more than is wanted says whether any follows.
        let rows = reading.view.range(&from, &span.end, wanted + 1)?;
        for (index, (key, value)) in rows.iter().enumerate().take(wanted) {
            let row = record::decode(value)?;
            rows_seen += 1;
            if lifetime::expired_at(&row, reading.clock_ms).is_none() {
                bytes += RECORD_BYTES + key.len() - start
                    + if part.with_values { row.value.len() } else { 0 };
                listed.push(make(&key[start..], row)?);
            }
            let is_full = rows_seen == rows_max
                || listed.len() == records_max
                || bytes >= part.page.bytes_max;
            if is_full && index + 1 < rows.len() {
                return Ok((listed, token(key, start)));
            }
        }
        if rows.len() <= wanted {
            return Ok((listed, Bytes::new()));
        }
        from = [&rows[wanted - 1].0[..], &[0]].concat();
    }
}

/// Continues behind this key. An empty token would say that nothing follows a key that is the span's prefix itself; no name has a NUL, so
/// a token of one continues before every longer key, on older nodes, too.
fn token(key: &Bytes, start: usize) -> Bytes {
    match key.slice(start..) {
        rest if rest.is_empty() => Bytes::from_static(&[0]),
        rest => rest,
    }
}

/// Behind the resume token and behind `after`, whichever is later.
fn first_key(span: &Span, part: &Part<'_>) -> Vec<u8> {
    let mut from = span.prefix.clone();
    if !part.resume_token.is_empty() {
        from.extend_from_slice(part.resume_token);
        from.push(0);
    }
    if part.after.is_empty() {
        return from;
    }
    from.max([part.after, &[0]].concat())
}

/// How many rows to read next: as many as records are still wanted, and as many again each time
/// that this was not enough, because expired rows are between them.
fn wanted(rows_left: usize, records_left: usize, rows_seen: usize) -> usize {
    records_left.max(rows_seen).min(rows_left).min(SCAN_ROWS)
}

/// How many records of a list with this limit may follow a part of this many; 0: all. None: the
/// list is complete.
pub(super) fn limit_left(limit: u64, listed: usize) -> Option<u64> {
    match limit {
        0 => Some(0),
        limit => limit.checked_sub(listed as u64).filter(|left| *left > 0),
    }
}

/// A part of a key that was written as text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| Fault::Corrupt("a name in a key is no text"))
}
