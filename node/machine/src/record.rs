//! A handle's or key's row: how it is found, what is planned for it, and how that is written.

use bytes::Bytes;
use helve_proto::{
    command::v1::{RecordRow, Refusal, TombstoneRow},
    v1::{
        ChangeKind, EarlierLease, HandleStatus, Lifetime, OperationReply, RecordInfo, WriteStatus,
    },
};

use crate::{
    batch::Batch,
    changes::RecordChange,
    context::{Call, Stop},
    fault::Fault,
    layout::{Due, Kind, Space, Target},
    lifetime,
    limits::TOMBSTONE_TTL_MS,
    planted::{self, Plant},
    row, tombstone,
    usage::{Counter, Delta},
    view::View,
};

const TABLE: &str = "records";

/// A record's row as it is stored, live or not.
#[derive(Debug)]
pub(crate) struct Stored {
    pub(crate) row: RecordRow,
    /// Of the encoded row.
    pub(crate) bytes: usize,
}

/// What is found under a name at a time. Whether a due record has been removed yet makes no difference to `status`.
#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) status: HandleStatus,
    /// When time alone changes the status.
    pub(crate) turns_at_ms: Option<u64>,
    pub(crate) stored: Option<Stored>,
    pub(crate) tombstone: Option<TombstoneRow>,
}

impl Seen {
    pub(crate) fn live(&self) -> Option<&RecordRow> {
        let stored = self.stored.as_ref()?;
        (self.status == HandleStatus::Live).then_some(&stored.row)
    }

    /// 0 if nothing lives here.
    pub(crate) fn revision(&self) -> u64 {
        self.live().map_or(0, |row| row.revision)
    }
}

pub(crate) fn decode(bytes: &Bytes) -> Result<RecordRow, Fault> {
    row::decode(TABLE, bytes)
}

pub(crate) fn see(
    view: &impl View,
    space: Space<'_>,
    target: &Target,
    clock_ms: u64,
) -> Result<Seen, Fault> {
    let Some(bytes) = view.get(&space.record(target))? else {
        return see_tombstone(view, space, target, clock_ms);
    };
    let row = decode(&bytes)?;
    let (status, turns_at_ms) = match lifetime::expired_at(&row, clock_ms) {
        None => (HandleStatus::Live, lifetime::deadline(&row)),
        Some(at_ms) if target.kind == Kind::Handle => told(HandleStatus::Expired, at_ms, clock_ms),
        Some(_) => (HandleStatus::Unknown, None),
    };
    Ok(Seen {
        status,
        turns_at_ms,
        stored: Some(Stored {
            row,
            bytes: bytes.len(),
        }),
        tombstone: None,
    })
}

fn see_tombstone(
    view: &impl View,
    space: Space<'_>,
    target: &Target,
    clock_ms: u64,
) -> Result<Seen, Fault> {
    let tombstone = match target.kind {
        Kind::Handle => tombstone::read(view, space, &target.path)?,
        Kind::Key => None,
    };
    let (status, turns_at_ms) = match &tombstone {
        Some(row) if row.status() != HandleStatus::Unknown => {
            told(row.status(), row.at_ms, clock_ms)
        }
        _ => (HandleStatus::Unknown, None),
    };
    Ok(Seen {
        status,
        turns_at_ms,
        stored: None,
        tombstone,
    })
}

/// What the owner hears of a handle that ended at a time, and until when.
fn told(ended: HandleStatus, ended_ms: u64, clock_ms: u64) -> (HandleStatus, Option<u64>) {
    let until_ms = ended_ms.saturating_add(TOMBSTONE_TTL_MS);
    if clock_ms < until_ms {
        (ended, Some(until_ms))
    } else {
        (HandleStatus::Unknown, None)
    }
}

/// Whether the owner of a handle that ended at a time still hears how.
pub(crate) fn is_told(ended_ms: u64, clock_ms: u64) -> bool {
    clock_ms < ended_ms.saturating_add(TOMBSTONE_TTL_MS)
}

/// `if_revision` against the stored revision.
pub(crate) fn compare(if_revision: Option<u64>, seen: &Seen) -> Result<(), Stop> {
    let revision = seen.revision();
    match if_revision {
        Some(expected) if expected != revision && !planted::is(Plant::IgnoreRevision) => {
            Err(Stop::conflict(revision))
        }
        _ => Ok(()),
    }
}

/// Refuses what would change a claim behind the back of who holds its lease.
pub(crate) fn refuse_claim(seen: &Seen) -> Result<(), Stop> {
    match seen.live() {
        Some(row) if row.claim.is_some() => Err(Stop::refused(Refusal::Claimed)),
        _ => Ok(()),
    }
}

/// The row that a write at this command's time leaves.
pub(crate) fn written<V>(
    call: &Call<'_, V>,
    seen: &Seen,
    value: &Bytes,
    lifetime: Option<&Lifetime>,
) -> Result<RecordRow, Stop> {
    let present = seen.live();
    let mut row = RecordRow {
        value: value.clone(),
        revision: call.index,
        created_at_ms: present.map_or(call.clock_ms, |row| row.created_at_ms),
        updated_at_ms: call.clock_ms,
        sealed_under: call.sealed_under.clone(),
        ..RecordRow::default()
    };
    lifetime::set(&mut row, lifetime, present, call.clock_ms)?;
    Ok(row)
}

pub(crate) fn info(owner: &str, name: &str, row: &RecordRow) -> RecordInfo {
    RecordInfo {
        name: name.to_owned(),
        owner: owner.to_owned(),
        revision: row.revision,
        created_at_ms: row.created_at_ms,
        updated_at_ms: row.updated_at_ms,
        expires_at_ms: row.expires_at_ms,
        idle_ttl_ms: row.idle_ttl_ms,
        idle_deadline_ms: row.idle_deadline_ms,
        value_bytes: row::plain_bytes(row) as u64,
        sealed_under: row.sealed_under.clone(),
    }
}

/// What an operation is going to do to one record, and answer. Nothing is written before
/// [`carry_out`](Self::carry_out), so that the
/// plans of a transaction are all made before the first takes effect.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) target: Target,
    pub(crate) seen: Seen,
    pub(crate) change: Change,
    pub(crate) reply: OperationReply,
}

#[derive(Debug)]
pub(crate) enum Change {
    Write(RecordRow),
    Remove,
    /// Remove, and leave a tombstone.
    Take,
    /// Remove, and leave what the next lease of the claim is told.
    Abandon(EarlierLease),
    Nothing,
}

/// An operation on a handle that may not live.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "it is nearly always ready, and moved once"
)]
pub(crate) enum Planned {
    Ready(Plan),
    NotLive(HandleStatus),
}

impl Plan {
    /// A write of a whole row; says whether it creates or replaces.
    pub(crate) fn write(
        target: Target,
        seen: Seen,
        owner: &str,
        name: &str,
        row: RecordRow,
    ) -> Self {
        let status = match seen.live() {
            Some(_) => WriteStatus::Replaced,
            None => WriteStatus::Created,
        };
        let reply = OperationReply {
            info: Some(info(owner, name, &row)),
            value: Bytes::new(),
            status: status.into(),
        };
        Self {
            target,
            seen,
            change: Change::Write(row),
            reply,
        }
    }

    /// What it adds to the tenant's usage, in a command of this index. A renewal adds nothing, be its lifetime some bytes longer.
    pub(crate) fn growth(&self, index: u64) -> Delta {
        let old = self.seen.stored.as_ref().map(|old| old.bytes);
        match &self.change {
            Change::Write(row) if row.revision == index => {
                let path = self.target.path.len();
                let new = Some(path + row::encoded_len(row));
                Delta::between(old.map(|old| path + old), new)
            }
            Change::Remove | Change::Take | Change::Abandon(_) => {
                Delta::between(old.map(|old| self.target.path.len() + old), None)
            }
            Change::Write(_) | Change::Nothing => Delta::default(),
        }
    }

    /// The same, but over a record that has expired and is not removed yet as over none: it is to be removed, and until then counts
    /// among what the tenant uses.
    pub(crate) fn growth_of_live(&self, index: u64) -> Delta {
        match &self.change {
            Change::Write(row) if row.revision == index && self.seen.live().is_none() => {
                let bytes = self.target.path.len() + row::encoded_len(row);
                Delta::between(None, Some(bytes))
            }
            _ => self.growth(index),
        }
    }

    pub(crate) fn carry_out<V: View>(
        self,
        call: &mut Call<'_, V>,
    ) -> Result<OperationReply, Fault> {
        let (space, clock_ms) = (call.space, call.clock_ms);
        match self.change {
            Change::Write(row) => write(call.batch, space, &self.target, &self.seen, &row)?,
            Change::Remove => {
                let stored = self.seen.stored.as_ref();
                remove(call.batch, space, &self.target, stored, ChangeKind::Deleted)?;
            }
            Change::Take => {
                let stored = self.seen.stored.as_ref();
                remove(call.batch, space, &self.target, stored, ChangeKind::Taken)?;
                let tombstone = TombstoneRow {
                    status: HandleStatus::Taken.into(),
                    at_ms: clock_ms,
                    lease: None,
                };
                tombstone::add(call.batch, space, &self.target.path, &tombstone)?;
            }
            Change::Abandon(lease) => {
                let stored = self.seen.stored.as_ref();
                remove(call.batch, space, &self.target, stored, ChangeKind::Deleted)?;
                let tombstone = TombstoneRow {
                    status: HandleStatus::Unknown.into(),
                    at_ms: clock_ms,
                    lease: Some(lease),
                };
                tombstone::add(call.batch, space, &self.target.path, &tombstone)?;
            }
            Change::Nothing => {}
        }
        Ok(self.reply)
    }
}

/// Writes a record over what was seen there.
pub(crate) fn write<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    target: &Target,
    seen: &Seen,
    row: &RecordRow,
) -> Result<(), Fault> {
    if let Some(tombstone) = &seen.tombstone {
        tombstone::remove(batch, space, &target.path, tombstone)?;
    }
    let old = seen.stored.as_ref();
    let value = row::encode(row);
    let old_deadline = old.and_then(|old| lifetime::deadline(&old.row));
    batch.move_deadline(
        space,
        &Due::Record(target.clone()),
        old_deadline,
        lifetime::deadline(row),
    )?;
    count(
        batch,
        space,
        target,
        old.map(|old| old.bytes),
        Some(value.len()),
    )?;
    let key = space.record(target);
    if old.is_some() && seen.live().is_none() {
        batch.note_change(RecordChange::end(ChangeKind::Expired, key.clone()));
    }
    if old.is_none_or(|old| old.row.revision != row.revision) {
        batch.note_change(RecordChange::put(key.clone(), row));
    }
    match old {
        Some(_) => batch.put(key, value),
        None => batch.put_new(key, value),
    }
    Ok(())
}

/// Removes a record, if there is one. `kind` is how it ends.
pub(crate) fn remove<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    target: &Target,
    stored: Option<&Stored>,
    kind: ChangeKind,
) -> Result<(), Fault> {
    let Some(stored) = stored else { return Ok(()) };
    batch.move_deadline(
        space,
        &Due::Record(target.clone()),
        lifetime::deadline(&stored.row),
        None,
    )?;
    count(batch, space, target, Some(stored.bytes), None)?;
    let key = space.record(target);
    batch.note_change(RecordChange::end(kind, key.clone()));
    batch.delete(key);
    Ok(())
}

/// Counts a record's row, key and value, for its tenant, store and owner.
fn count<V: View>(
    batch: &mut Batch<V>,
    space: Space<'_>,
    target: &Target,
    old_bytes: Option<usize>,
    new_bytes: Option<usize>,
) -> Result<(), Fault> {
    let whole = |bytes: Option<usize>| bytes.map(|bytes| target.path.len() + bytes);
    let delta = Delta::between(whole(old_bytes), whole(new_bytes));
    let key = || space.record(target);
    batch.count(space, Counter::Tenant, delta, key)?;
    if target.kind == Kind::Handle {
        let (store, owner) = target.store_and_owner()?;
        batch.count(space, Counter::Store(store), delta, key)?;
        batch.count(space, Counter::Owner(owner), delta, key)?;
    }
    Ok(())
}
