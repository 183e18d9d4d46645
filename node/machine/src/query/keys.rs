//! Reads of keys.

use bytes::Bytes;
use helve_proto::{
    command::v1::{RecordRow, Touch, TouchKey, touch::Record},
    v1::{
        BatchRetrieveReply, BatchRetrieveRequest, ExistsReply, ExistsRequest, KeyRecord,
        ListKeysReply, ListKeysRequest, RetrieveReply, RetrieveRequest, RetrievedKey,
    },
};

use super::{Page, Read, Reading, Scope, UNCHECKED};
use crate::{
    fault::Fault,
    layout::{Kind, Target, Unfit, owner_path},
    lifetime,
    limits::TRANSACTION_BYTES_MAX,
    query::scan::{self, Part},
    record,
    view::View,
};

/// One key's record, if there is one.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn retrieve<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &RetrieveRequest,
) -> Result<Read<RetrieveReply>, Fault> {
    let reading = Reading::new(view, scope)?;
    Ok(match one(&reading, &request.owner, &request.key)? {
        Read::Answer(record) => Read::Answer(RetrieveReply {
            header: Some(reading.header()),
            record,
        }),
        Read::Lapsed => Read::Lapsed,
        Read::Renew(touches) => Read::Renew(touches),
        Read::Busy => Read::Busy,
        Read::TooLarge => Read::TooLarge,
    })
}

/// The records of several keys, in the order asked for. Together at most 4 MiB.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn batch_retrieve<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &BatchRetrieveRequest,
) -> Result<Read<BatchRetrieveReply>, Fault> {
    let reading = Reading::new(view, scope)?;
    let mut keys = Vec::with_capacity(request.keys.len());
    let mut bytes = 0;
    let mut touches = Vec::new();
    for key in &request.keys {
        let record = match one(&reading, &request.owner, key)? {
            Read::Answer(record) => record,
            Read::Lapsed => return Ok(Read::Lapsed),
            // Each commit is a round: the idle keys of one pass are renewed together.
            Read::Renew(touched) => {
                touches.extend(touched);
                continue;
            }
            Read::Busy => return Ok(Read::Busy),
            Read::TooLarge => return Ok(Read::TooLarge),
        };
        let info = record.as_ref().and_then(|record| record.info.as_ref());
        bytes += info.map_or(0, |info| info.value_bytes);
        if bytes > TRANSACTION_BYTES_MAX as u64 {
            return Ok(Read::TooLarge);
        }
        keys.push(RetrievedKey { record });
    }
    if !touches.is_empty() {
        return Ok(Read::Renew(touches));
    }
    Ok(Read::Answer(BatchRetrieveReply {
        header: Some(reading.header()),
        keys,
    }))
}

/// Whether there is such a key. Does not restart its idle time.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn exists<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &ExistsRequest,
) -> Result<Read<ExistsReply>, Fault> {
    let reading = Reading::new(view, scope)?;
    let target = Target::key(&request.owner, &request.key).map_err(|Unfit| UNCHECKED)?;
    let seen = record::see(view, reading.space, &target, reading.clock_ms)?;
    if reading.is_lapsed(seen.turns_at_ms) {
        return Ok(Read::Lapsed);
    }
    Ok(Read::Answer(ExistsReply {
        header: Some(reading.header()),
        exists: seen.live().is_some(),
    }))
}

/// One part of a list: keys that begin with the prefix, in lexicographic order of their bytes. A part may be empty though more
/// follow: its resume token says so.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn list_keys<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &ListKeysRequest,
    page: Page,
) -> Result<Read<ListKeysReply>, Fault> {
    let reading = Reading::new(view, scope)?;
    let mut path = owner_path(&request.owner).map_err(|Unfit| UNCHECKED)?;
    path.extend_from_slice(request.prefix.as_bytes());
    if reading.has_lapsed(Kind::Key, &path)? {
        return Ok(Read::Lapsed);
    }
    let span = reading.space.records(Kind::Key, &path);
    let after = match request.after.as_str() {
        "" => Vec::new(),
        key => {
            let before_key = span.prefix.len() - request.prefix.len();
            [&span.prefix[..before_key], key.as_bytes()].concat()
        }
    };
    let part = Part {
        page,
        resume_token: &request.resume_token,
        after: &after,
        limit: request.keys_max,
        with_values: request.with_values,
    };
    let (records, resume_token) = scan::part(&reading, &span, &part, |rest, row| {
        let key = [request.prefix.as_bytes(), rest].concat();
        let mut record = key_record(&request.owner, scan::text(&key)?, &row);
        if !request.with_values {
            record.value = Bytes::new();
        }
        Ok(record)
    })?;
    Ok(Read::Answer(ListKeysReply {
        header: Some(reading.header()),
        records,
        resume_token,
    }))
}

/// What of a list of keys remains after one part of it; nothing after the last part.
#[must_use]
pub fn keys_rest(mut request: ListKeysRequest, part: &ListKeysReply) -> Option<ListKeysRequest> {
    request.resume_token.clone_from(&part.resume_token);
    request.keys_max = scan::limit_left(request.keys_max, part.records.len())?;
    (!request.resume_token.is_empty()).then_some(request)
}

fn one<V: View>(
    reading: &Reading<'_, V>,
    owner: &str,
    key: &str,
) -> Result<Read<Option<KeyRecord>>, Fault> {
    let target = Target::key(owner, key).map_err(|Unfit| UNCHECKED)?;
    let seen = record::see(reading.view, reading.space, &target, reading.clock_ms)?;
    if reading.is_lapsed(seen.turns_at_ms) {
        return Ok(Read::Lapsed);
    }
    let Some(row) = seen.live() else {
        return Ok(Read::Answer(None));
    };
    if lifetime::needs_renewal(row, reading.stamp_ms) {
        let key = TouchKey {
            owner: owner.to_owned(),
            key: key.to_owned(),
        };
        let record = Some(Record::Key(key));
        return Ok(Read::Renew(vec![Touch { record }]));
    }
    Ok(Read::Answer(Some(key_record(owner, key, row))))
}

fn key_record(owner: &str, key: &str, row: &RecordRow) -> KeyRecord {
    KeyRecord {
        info: Some(record::info(owner, key, row)),
        value: row.value.clone(),
    }
}
