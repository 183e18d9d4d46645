//! Which records are sealed how.

use std::collections::BTreeMap;

use bytes::Bytes;
use helve_proto::{
    command::v1::{OutcomeRow, RecordRow, TouchHandle, TouchKey, outcome},
    v1::{ClaimStatus, RecordInfo, transact_reply},
};

use crate::{
    fault::Fault,
    layout::{Group, Kind, Place, Target, split_owner},
    limits::SCAN_ROWS,
    row,
    view::View,
};

/// The name of a record.
#[derive(Debug, Clone, PartialEq)]
pub enum Name {
    /// A handle's.
    Handle(TouchHandle),
    /// A key's.
    Key(TouchKey),
}

/// A record that is sealed otherwise than asked for.
#[derive(Debug, Clone)]
pub struct Found {
    /// Whose it is.
    pub tenant: String,
    /// Which.
    pub name: Name,
    /// Its revision.
    pub revision: u64,
    /// The key that it is sealed under; empty: none.
    pub sealed_under: Bytes,
    /// Its bytes as they are stored.
    pub value: Bytes,
}

/// A stretch of a walk over all rows.
#[derive(Debug, Clone, Default)]
pub struct Walk {
    /// Rows that were looked at.
    pub rows: u64,
    /// Of these, the records that are sealed otherwise.
    pub found: Vec<Found>,
    /// Where the next stretch begins; `None`: all rows were looked at.
    pub rest: Option<Bytes>,
}

/// How many values are sealed under which key; the empty id: under none.
pub type Tally = BTreeMap<Bytes, u64>;

/// Looks for records that are sealed otherwise than under `key_id`, of all tenants, from `from` on (empty: from the start), until it
/// has looked at `rows_max` rows or found `bytes_max` bytes.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn walk(
    view: &impl View,
    group_id: u32,
    key_id: &[u8],
    from: &[u8],
    (rows_max, bytes_max): (u64, usize),
) -> Result<Walk, Fault> {
    let mut walk = Walk::default();
    let mut bytes = 0;
    walk.rest = each_row(view, group_id, from, |tenant, place, value| {
        walk.rows += 1;
        if let Place::Record(target) = place {
            let row: RecordRow = row::decode("records", value)?;
            if row.sealed_under != key_id {
                bytes += row.value.len();
                walk.found.push(found(tenant, &target, row)?);
            }
        }
        Ok(walk.rows < rows_max && bytes < bytes_max)
    })?;
    Ok(walk)
}

/// Counts a stretch of all values into `records` and those that outcomes are kept with into `outcomes`: at most `rows_max` rows.
/// Answers where to go on.
///
/// # Errors
/// A fault if the rows cannot be read.
pub fn tally(
    view: &impl View,
    group_id: u32,
    from: &[u8],
    rows_max: u64,
    (records, outcomes): (&mut Tally, &mut Tally),
) -> Result<Option<Bytes>, Fault> {
    let mut rows = 0;
    each_row(view, group_id, from, |_, place, value| {
        rows += 1;
        match place {
            Place::Record(_) => {
                let row: RecordRow = row::decode("records", value)?;
                *records.entry(row.sealed_under).or_default() += 1;
            }
            Place::SessionOutcome
            | Place::RequestOutcome(_)
            | Place::PrincipalRequestOutcome(..) => {
                let row: OutcomeRow = row::decode("outcomes", value)?;
                for info in kept_values(row) {
                    *outcomes.entry(info.sealed_under).or_default() += 1;
                }
            }
            _ => {}
        }
        Ok(rows < rows_max)
    })
}

/// What is known of the values that an outcome is kept with.
fn kept_values(row: OutcomeRow) -> Vec<RecordInfo> {
    match row.outcome.and_then(|outcome| outcome.outcome) {
        Some(outcome::Outcome::Take(reply)) => reply.info.into_iter().collect(),
        Some(outcome::Outcome::Claim(reply)) => {
            let has_value = matches!(reply.status(), ClaimStatus::InFlight | ClaimStatus::Done);
            reply.info.filter(|_| has_value).into_iter().collect()
        }
        Some(outcome::Outcome::Transact(reply)) => match reply.result {
            Some(transact_reply::Result::Committed(committed)) => {
                let taken = committed
                    .replies
                    .into_iter()
                    .filter(|reply| !reply.value.is_empty());
                taken.filter_map(|reply| reply.info).collect()
            }
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Shows the rows from a key on until it is told to stop; answers where to go on.
fn each_row(
    view: &impl View,
    group_id: u32,
    from: &[u8],
    mut look: impl FnMut(&str, Place, &Bytes) -> Result<bool, Fault>,
) -> Result<Option<Bytes>, Fault> {
    let group = Group(group_id);
    let span = group.all();
    let mut from = from.max(&span.prefix[..]).to_vec();
    loop {
        let rows = view.range(&from, &span.end, SCAN_ROWS)?;
        for (key, value) in &rows {
            let (tenant, place) = group
                .parse(key)
                .ok_or(Fault::Corrupt("a row has a key that no table has"))?;
            if !look(tenant, place, value)? {
                return Ok(Some([key, &[0][..]].concat().into()));
            }
        }
        match rows.last() {
            Some((last, _)) if rows.len() == SCAN_ROWS => from = [last, &[0][..]].concat(),
            _ => return Ok(None),
        }
    }
}

fn found(tenant: &str, target: &Target, row: RecordRow) -> Result<Found, Fault> {
    let text = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes);
        text.map(str::to_owned)
            .map_err(|_| Fault::Corrupt("a name in a key is no text"))
    };
    let short = Fault::Corrupt("a record's key is too short");
    let name = match target.kind {
        Kind::Handle => {
            let (&length, rest) = target.path.split_first().ok_or(short)?;
            let split = rest.split_at_checked(length.into());
            let named = split.and_then(|(store, rest)| Some((store, split_owner(rest)?)));
            let (store, (owner, id)) =
                named.ok_or(Fault::Corrupt("a handle's key is too short"))?;
            Name::Handle(TouchHandle {
                store: text(store)?,
                owner: text(owner)?,
                id: text(id)?,
            })
        }
        Kind::Key => {
            let (owner, key) = split_owner(&target.path).ok_or(short)?;
            Name::Key(TouchKey {
                owner: text(owner)?,
                key: text(key)?,
            })
        }
    };
    Ok(Found {
        tenant: tenant.to_owned(),
        name,
        revision: row.revision,
        sealed_under: row.sealed_under,
        value: row.value,
    })
}
