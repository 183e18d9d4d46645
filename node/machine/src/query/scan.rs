//! One part of a list.

use bytes::Bytes;
use helve_proto::command::v1::RecordRow;

use super::{Page, Reading};
use crate::{batch::View, fault::Fault, layout::Span, lifetime, limits::SCAN_ROWS, record};

/// What a listed record costs beside its name and value.
const RECORD_BYTES: usize = 64;

/// Which part of a list is asked for.
pub(super) struct Part<'a> {
    pub(super) page: Page,
    /// What stood behind the span's prefix in the key of the last row of the part before; empty: from the start.
    pub(super) resume_token: &'a Bytes,
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
    let mut from = span.prefix.clone();
    if !part.resume_token.is_empty() {
        from.extend_from_slice(part.resume_token);
        from.push(0);
    }
    let rows_max = part.page.rows_max.max(1);
    let mut listed = Vec::new();
    let (mut rows_seen, mut bytes) = (0, 0);
    loop {
        let wanted = (rows_max - rows_seen).min(SCAN_ROWS);
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
            let is_full = rows_seen == rows_max || bytes >= part.page.bytes_max;
            if is_full && index + 1 < rows.len() {
                return Ok((listed, key.slice(start..)));
            }
        }
        if rows.len() <= wanted {
            return Ok((listed, Bytes::new()));
        }
        from = [&rows[wanted - 1].0[..], &[0]].concat();
    }
}

/// A part of a key that was written as text.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Fault> {
    std::str::from_utf8(bytes).map_err(|_| Fault::Corrupt("a name in a key is no text"))
}
