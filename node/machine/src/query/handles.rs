//! Reads of handles.

use bytes::Bytes;
use helve_proto::{
    command::v1::{RecordRow, Touch, TouchHandle, touch::Record},
    v1::{GetReply, GetRequest, ListReply, ListRequest, ListedHandle},
};

use super::{Page, Read, Reading, Scope, UNCHECKED};
use crate::{
    fault::Fault,
    layout::{Kind, Target, Unfit, push_owner, split_owner, store_path},
    lifetime,
    query::scan::{self, Part},
    record,
    view::View,
};

/// One handle: what became of it, and its value if it lives.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn get<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &GetRequest,
) -> Result<Read<GetReply>, Fault> {
    let reading = Reading::new(view, scope)?;
    let target =
        Target::handle(&request.store, &request.owner, &request.id).map_err(|Unfit| UNCHECKED)?;
    let seen = record::see(view, reading.space, &target, reading.clock_ms)?;
    let mut reply = GetReply {
        header: Some(reading.header()),
        status: seen.status.into(),
        ..GetReply::default()
    };
    if reading.is_lapsed(seen.turns_at_ms) {
        return Ok(Read::Lapsed);
    }
    let Some(row) = seen.live() else {
        return Ok(Read::Answer(reply));
    };
    if lifetime::needs_renewal(row, scope.stamp_ms) {
        let handle = TouchHandle {
            store: request.store.clone(),
            owner: request.owner.clone(),
            id: request.id.clone(),
        };
        let record = Some(Record::Handle(handle));
        return Ok(Read::Renew(vec![Touch { record }]));
    }
    reply.info = Some(record::info(&request.owner, &request.id, row));
    reply.value = row.value.clone();
    Ok(Read::Answer(reply))
}

/// One part of a list: by id in lexicographic order, grouped by owner. A part may be empty though more follow: its resume token
/// says so.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn list<V: View>(
    view: &V,
    scope: &Scope<'_>,
    request: &ListRequest,
    page: Page,
) -> Result<Read<ListReply>, Fault> {
    let reading = Reading::new(view, scope)?;
    let path = path_prefix(&request.store, request.owner.as_deref())?;
    if reading.has_lapsed(Kind::Handle, &path)? {
        return Ok(Read::Lapsed);
    }
    let span = reading.space.records(Kind::Handle, &path);
    let after = match request.after.as_str() {
        "" => Vec::new(),
        id => [&span.prefix, id.as_bytes()].concat(),
    };
    let part = Part {
        page,
        resume_token: &request.resume_token,
        after: &after,
        limit: request.handles_max,
        with_values: request.with_values,
    };
    let (handles, resume_token) = scan::part(&reading, &span, &part, |rest, row| {
        let (owner, id) = match &request.owner {
            Some(owner) => (owner.as_bytes(), rest),
            None => split_owner(rest).ok_or(Fault::Corrupt("a handle's key is too short"))?,
        };
        let mut handle = listed(owner, id, row)?;
        if !request.with_values {
            handle.value = Bytes::new();
        }
        Ok(handle)
    })?;
    Ok(Read::Answer(ListReply {
        header: Some(reading.header()),
        handles,
        resume_token,
    }))
}

/// What of a list remains after one part of it; nothing after the last part.
#[must_use]
pub fn rest(mut request: ListRequest, part: &ListReply) -> Option<ListRequest> {
    request.resume_token.clone_from(&part.resume_token);
    request.handles_max = scan::limit_left(request.handles_max, part.handles.len())?;
    (!request.resume_token.is_empty()).then_some(request)
}

fn listed(owner: &[u8], id: &[u8], row: RecordRow) -> Result<ListedHandle, Fault> {
    Ok(ListedHandle {
        info: Some(record::info(scan::text(owner)?, scan::text(id)?, &row)),
        value: row.value,
    })
}

pub(super) fn path_prefix(store: &str, owner: Option<&str>) -> Result<Vec<u8>, Fault> {
    let build = || {
        let mut path = store_path(store)?;
        if let Some(owner) = owner {
            push_owner(&mut path, owner)?;
        }
        Ok(path)
    };
    build().map_err(|Unfit| UNCHECKED)
}
