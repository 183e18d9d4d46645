//! Tables of request ids: a tenant's, as below [`MENDED`](crate::level::MENDED), or one principal's.

use bytes::Bytes;
use helve_proto::command::v1::{RecountRow, RequestsRow};

use crate::{
    batch::Batch,
    clock::clock,
    fault::Fault,
    layout::{Due, Space, Span},
    limits::{IDENTITY_BYTES, REQUEST_TTL_MS},
    repair::Repair,
    row,
    view::{View, after},
};

const SUMMARY: &str = "request summaries";

/// How names of recounts begin in the deadline index: no counter of rows in use has them.
const OF_TENANT: u8 = 5;
const OF_PRINCIPAL: u8 = 6;

/// The time that a UUIDv7 bears, in milliseconds since the Unix epoch; `None` if it is none.
pub(crate) fn sent_at(request_id: &[u8]) -> Option<u64> {
    let id: &[u8; IDENTITY_BYTES] = request_id.try_into().ok()?;
    let is_version_7 = id[6] >> 4 == 7 && id[8] >> 6 == 0b10;
    let time = [0, 0, id[0], id[1], id[2], id[3], id[4], id[5]];
    is_version_7.then(|| u64::from_be_bytes(time))
}

/// The first time at which an id is below the floor.
pub(crate) fn due(sent_ms: u64) -> u64 {
    sent_ms + REQUEST_TTL_MS + 1
}

/// A table of request ids, and its summary.
#[derive(Debug, Clone)]
pub(crate) struct Ids<'a> {
    space: Space<'a>,
    /// A principal's part of a key; `None`: the tenant's table.
    principal: Option<Bytes>,
}

impl<'a> Ids<'a> {
    pub(crate) fn of_tenant(space: Space<'a>) -> Self {
        Self {
            space,
            principal: None,
        }
    }

    pub(crate) fn of_principal(space: Space<'a>, principal: Bytes) -> Self {
        Self {
            space,
            principal: Some(principal),
        }
    }

    pub(crate) fn space(&self) -> Space<'a> {
        self.space
    }

    pub(crate) fn outcome(&self, request_id: &[u8]) -> Bytes {
        match &self.principal {
            Some(principal) => self.space.principal_request_outcome(principal, request_id),
            None => self.space.request_outcome(request_id),
        }
    }

    fn outcomes(&self) -> Span {
        match &self.principal {
            Some(principal) => self.space.principal_request_outcomes(principal),
            None => self.space.request_outcomes(),
        }
    }

    pub(crate) fn summary_key(&self) -> Bytes {
        match &self.principal {
            Some(principal) => self.space.principal_request_summary(principal),
            None => self.space.request_summary(),
        }
    }

    /// The table of which a recount of this name is; `None`: of none.
    pub(crate) fn recounted_as(space: Space<'a>, name: &Bytes) -> Option<Self> {
        match name.split_first() {
            Some((&OF_TENANT, [])) => Some(Self::of_tenant(space)),
            Some((&OF_PRINCIPAL, _)) => Some(Self::of_principal(space, name.slice(1..))),
            _ => None,
        }
    }

    /// What the deadline index names a recount.
    fn recount_due(&self) -> Due {
        Due::Recount(match &self.principal {
            Some(principal) => [&[OF_PRINCIPAL][..], principal].concat().into(),
            None => Bytes::from_static(&[OF_TENANT]),
        })
    }

    pub(crate) fn due(&self) -> Due {
        match &self.principal {
            Some(principal) => Due::PrincipalRequests(principal.clone()),
            None => Due::Requests,
        }
    }
}

/// Counts an outcome that comes or goes, if a recount has passed its key.
pub(super) fn note(summary: &mut RequestsRow, key: &[u8], change: i64) {
    if let Some(recount) = &mut summary.recount
        && *key < *recount.next
    {
        recount.rows = recount.rows.wrapping_add_signed(change);
    }
}

/// Has the count worked out from the outcomes, which may hold megabytes: bit by bit.
#[cold]
pub(super) fn begin_recount<V: View>(
    batch: &mut Batch<V>,
    ids: &Ids<'_>,
    summary: &mut RequestsRow,
) -> Result<(), Fault> {
    if summary.recount.is_none() {
        summary.recount = Some(RecountRow::default());
        let now = Some(clock(batch, ids.space.group_id)?);
        batch.move_deadline(ids.space, &ids.recount_due(), None, now)?;
    }
    Ok(())
}

/// Takes the recount further, by a bounded number of rows and bytes, and says by how many rows. At the end the summary says what was
/// found.
pub(crate) fn step<V: View>(
    batch: &mut Batch<V>,
    ids: &Ids<'_>,
    (at_ms, clock_ms): (u64, u64),
) -> Result<u32, Fault> {
    let (space, rows_max) = (ids.space, batch.bounds().tick_rows_max);
    let old = summary(batch, ids)?;
    let mut new = old.clone();
    let Some(mut recount) = new.recount.take() else {
        batch.delete_deadline(space, at_ms, &ids.recount_due());
        return Ok(1);
    };
    let (span, mut read) = (ids.outcomes(), 0);
    let is_done = loop {
        if read >= rows_max || batch.has_read_enough(space.group_id)? {
            break false;
        }
        let from = (&recount.next[..]).max(&span.prefix);
        let Some((key, value)) = batch.range(from, &span.end, 1)?.pop() else {
            break true;
        };
        batch.note_read(value.len());
        recount.rows = recount.rows.wrapping_add(1);
        recount.next = after(&key).into();
        read += 1;
    };
    if is_done {
        batch.delete_deadline(space, at_ms, &ids.recount_due());
        new.rows = recount.rows;
        let oldest = oldest(batch, ids, None)?;
        new.due_ms = oldest.map(|(sent_ms, ..)| due(sent_ms));
        batch.note_repair(Repair {
            what: SUMMARY,
            tenant: space.tenant.to_owned(),
            was: old.rows,
            is: new.rows,
        });
    } else {
        batch.move_deadline(space, &ids.recount_due(), Some(at_ms), Some(clock_ms))?;
        new.recount = Some(recount);
    }
    set_summary(batch, ids, &old, &new)?;
    Ok(read.max(1))
}

/// The oldest outcome: when its call was sent, its key and its value. That none is due before `due_ms` spares the look at those
/// long removed.
pub(super) fn oldest(
    view: &impl View,
    ids: &Ids<'_>,
    due_ms: Option<u64>,
) -> Result<Option<(u64, Bytes, Bytes)>, Fault> {
    let span = ids.outcomes();
    let from_ms = due_ms.map_or(0, |due_ms| due_ms.saturating_sub(due(0)));
    // An id begins with its time, six bytes of it.
    let from = ids.outcome(&from_ms.to_be_bytes()[2..]);
    let Some((key, value)) = view.range(&from, &span.end, 1)?.pop() else {
        return Ok(None);
    };
    let sent_ms = sent_at(&key[span.prefix.len()..])
        .ok_or(Fault::Corrupt("an outcome's request id is malformed"))?;
    Ok(Some((sent_ms, key, value)))
}

/// When the oldest outcome is due.
pub(crate) fn due_ms(view: &impl View, ids: &Ids<'_>) -> Result<Option<u64>, Fault> {
    Ok(summary(view, ids)?.due_ms)
}

pub(super) fn summary(view: &impl View, ids: &Ids<'_>) -> Result<RequestsRow, Fault> {
    Ok(row::read(view, SUMMARY, &ids.summary_key())?.unwrap_or_default())
}

/// A principal's summary goes with its last outcome: its floor is older than the time that outcomes are kept for by then.
pub(super) fn set_summary<V: View>(
    batch: &mut Batch<V>,
    ids: &Ids<'_>,
    old: &RequestsRow,
    new: &RequestsRow,
) -> Result<(), Fault> {
    if old == new {
        return Ok(());
    }
    batch.move_deadline(ids.space, &ids.due(), old.due_ms, new.due_ms)?;
    let is_empty = new.rows == 0 && new.due_ms.is_none() && new.recount.is_none();
    if is_empty && ids.principal.is_some() {
        batch.delete(ids.summary_key());
    } else {
        batch.put(ids.summary_key(), row::encode(new));
    }
    Ok(())
}
