//! Looks whether rows that are derived from others agree with them.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use helve_proto::command::v1::{
    NumberRow, RecordRow, RequestsRow, SessionRow, TenantDeadlinesRow, TombstoneRow, TombstonesRow,
    UsageRow,
};

use crate::{
    access::tokens,
    fault::Fault,
    layout::{Due, Group, Kind, Place, Shelf, Space, Target, principal_path},
    lifetime,
    limits::{SCAN_ROWS, SESSION_BYTES, TOMBSTONE_TTL_MS},
    replay::{
        ids::{self, Ids},
        measured, noted,
    },
    row, tombstone,
    view::View,
};

/// Reads all rows of a group, and computes its deadline index, its usage rows and its summaries
/// again. For tests and for operators who doubt a disk: it holds an entry for each row in memory.
///
/// # Errors
/// [`Fault::Corrupt`], naming the first thing that does not agree, and any other fault of reading.
pub fn audit(view: &impl View, group_id: u32) -> Result<(), Fault> {
    let span = Group(group_id).all();
    let mut audit = Audit::new(group_id);
    let mut from = span.prefix;
    loop {
        let rows = view.range(&from, &span.end, SCAN_ROWS)?;
        for (key, value) in &rows {
            audit.row(key, value)?;
        }
        match rows.last() {
            Some((last, _)) if rows.len() == SCAN_ROWS => from = [last, &[0][..]].concat(),
            _ => return audit.verdict(),
        }
    }
}

/// What the rows say, and what follows from them.
#[derive(Default)]
struct Audit {
    group_id: u32,
    deadlines: BTreeSet<Bytes>,
    deadlines_due: BTreeSet<Bytes>,
    deadlines_from_ms: u64,
    earliest_ms: Option<u64>,
    tenant_deadlines: BTreeMap<String, TenantDeadlinesRow>,
    usage: BTreeMap<Bytes, UsageRow>,
    usage_due: BTreeMap<Bytes, UsageRow>,
    /// By where each session's outcomes may begin.
    sessions: BTreeMap<Bytes, SessionRow>,
    /// Bytes of sessions' outcomes, as noted and as they are.
    measured: u64,
    measured_due: u64,
    session_orders: BTreeSet<Bytes>,
    session_orders_due: BTreeSet<Bytes>,
    orders: BTreeSet<Bytes>,
    orders_due: BTreeSet<Bytes>,
    tokens: BTreeSet<Bytes>,
    tokens_due: BTreeSet<Bytes>,
    summaries: BTreeMap<Bytes, Summary>,
    summaries_due: BTreeMap<Bytes, Summary>,
}

/// How many rows of a kind a tenant has, and when the first is due.
#[derive(Clone, Copy, Default)]
struct Summary {
    rows: u64,
    due_ms: Option<u64>,
}

impl Summary {
    fn add(&mut self, due_ms: u64) {
        self.rows += 1;
        self.due_ms = Some(
            self.due_ms
                .map_or(due_ms, |earlier_ms| earlier_ms.min(due_ms)),
        );
    }
}

impl Audit {
    fn new(group_id: u32) -> Self {
        Self {
            group_id,
            ..Self::default()
        }
    }

    fn row(&mut self, key: &Bytes, value: &Bytes) -> Result<(), Fault> {
        let (tenant, place) = Group(self.group_id)
            .parse(key)
            .ok_or(Fault::Corrupt("a key is malformed"))?;
        let space = Space {
            group_id: self.group_id,
            tenant,
        };
        match place {
            Place::Record(target) => self.record(space, &target, value)?,
            Place::Deadline => {
                // A recount is not derived from any row.
                let row = Group(self.group_id).parse_deadline(key);
                if !matches!(row.due, Due::Recount(_)) {
                    self.deadlines.insert(key.clone());
                }
            }
            Place::DeadlinesFrom => {
                self.deadlines_from_ms = row::decode::<NumberRow>("deadline bounds", value)?.value;
            }
            Place::TenantDeadlines => {
                let row = row::decode("bounds of a tenant's deadlines", value)?;
                self.tenant_deadlines.insert(tenant.to_owned(), row);
            }
            Place::Tombstone(path) => self.tombstone(space, &path, value)?,
            Place::TombstoneOrder(path) => {
                self.orders.insert(key.clone());
                let bytes = tombstone::delta(&path, value).bytes;
                self.charge(space, bytes.unsigned_abs());
            }
            Place::TombstoneSummary => self.tombstones(space, key, value)?,
            Place::Session(session_id) => self.session(space, &session_id, value)?,
            Place::SessionOutcome => {
                self.session_outcome(key, value)?;
                self.count(space.usage().tenant(), 0, key.len() + value.len());
            }
            Place::SessionOrder => {
                self.session_orders.insert(key.clone());
            }
            Place::RequestOutcome(request_id) => {
                self.request_outcome(&Ids::of_tenant(space), &request_id, key, value)?;
            }
            Place::RequestSummary => self.requests(&Ids::of_tenant(space), key, value)?,
            Place::PrincipalRequestOutcome(principal, request_id) => {
                let ids = Ids::of_principal(space, principal);
                self.request_outcome(&ids, &request_id, key, value)?;
            }
            Place::PrincipalRequestSummary(principal) => {
                self.requests(&Ids::of_principal(space, principal), key, value)?;
            }
            Place::Usage => {
                // One that counts nothing may say how far a recount has come.
                let row: UsageRow = row::decode("usage", value)?;
                if row != UsageRow::default() {
                    self.usage.insert(key.clone(), row);
                }
            }
            Place::Token(hash) => self.token(space, &hash, value)?,
            Place::TokenOfTenant => {
                self.tokens.insert(key.clone());
            }
            Place::Other => {}
        }
        Ok(())
    }

    fn tombstone(&mut self, space: Space<'_>, path: &[u8], value: &Bytes) -> Result<(), Fault> {
        let row: TombstoneRow = row::decode("tombstones", value)?;
        let order = space.tombstone_order(row.at_ms, path);
        self.orders_due.insert(order);
        let summary = self.summaries_due.entry(space.tombstone_summary());
        let due_ms = row.at_ms.saturating_add(TOMBSTONE_TTL_MS);
        summary.or_default().add(due_ms);
        Ok(())
    }

    fn tombstones(&mut self, space: Space<'_>, key: &Bytes, value: &Bytes) -> Result<(), Fault> {
        let summary: TombstonesRow = row::decode("tombstone summaries", value)?;
        let TombstonesRow { rows, due_ms, .. } = summary;
        self.summary(space, key, &Due::Tombstones, Summary { rows, due_ms });
        Ok(())
    }

    fn session(
        &mut self,
        space: Space<'_>,
        session_id: &Bytes,
        value: &Bytes,
    ) -> Result<(), Fault> {
        let row: SessionRow = row::decode("sessions", value)?;
        self.deadline(space, row.deadline_ms, &Due::Session(session_id.clone()));
        if row.listed {
            let principal = principal_path(&row.principal)
                .map_err(|_| Fault::Corrupt("a listed session's principal fits no key"))?;
            let order = space.session_order(&principal, row.deadline_ms, session_id);
            self.session_orders_due.insert(order);
            self.count(space.usage().principal(&principal), 1, 0);
            self.charge(space, SESSION_BYTES);
        }
        let bytes = row.outcome_bytes.iter().copied().map(u64::from);
        self.measured += bytes.sum::<u64>();
        self.sessions
            .insert(space.session_outcome(session_id, row.floor), row);
        self.count(space.usage().sessions(), 1, 0);
        Ok(())
    }

    /// A session's floor sorts before its outcomes, and after those of the session before.
    fn session_outcome(&mut self, key: &Bytes, value: &Bytes) -> Result<(), Fault> {
        let session = self.sessions.range(..=key.clone()).next_back();
        let (path, seq) = key
            .split_last_chunk()
            .ok_or(Fault::Corrupt("an outcome's key is too short"))?;
        let session = session.filter(|(floor, _)| floor.starts_with(path));
        let (_, row) = session.ok_or(Fault::Corrupt(
            "an outcome is kept below its session's floor",
        ))?;
        let seq = u64::from_be_bytes(*seq);
        if !noted::may_have_outcome(row, seq) {
            return Err(Fault::Corrupt("a call has an outcome and is not noted"));
        }
        if let Some(bytes) = measured::bytes(row, seq) {
            if bytes as usize != value.len() {
                return Err(Fault::Corrupt("an outcome takes other bytes than noted"));
            }
            self.measured_due += u64::from(bytes);
        }
        Ok(())
    }

    fn request_outcome(
        &mut self,
        ids: &Ids<'_>,
        request_id: &[u8],
        key: &Bytes,
        value: &Bytes,
    ) -> Result<(), Fault> {
        self.count(ids.space().usage().tenant(), 0, key.len() + value.len());
        let sent_ms =
            ids::sent_at(request_id).ok_or(Fault::Corrupt("a request id is malformed"))?;
        let summary = self.summaries_due.entry(ids.summary_key()).or_default();
        summary.add(ids::due(sent_ms));
        Ok(())
    }

    fn requests(&mut self, ids: &Ids<'_>, key: &Bytes, value: &Bytes) -> Result<(), Fault> {
        let RequestsRow { rows, due_ms, .. } = row::decode("request summaries", value)?;
        self.summary(ids.space(), key, &ids.due(), Summary { rows, due_ms });
        Ok(())
    }

    fn token(&mut self, space: Space<'_>, hash: &Bytes, value: &Bytes) -> Result<(), Fault> {
        let row = tokens::decode(value)?;
        if let Some(at_ms) = tokens::gone_at(&row) {
            self.deadline(space, at_ms, &Due::Token(hash.clone()));
        }
        let tenant = tokens::index(Group(self.group_id), tokens::tenant_of(&row));
        self.tokens_due.insert(tenant.token(hash));
        Ok(())
    }

    fn record(&mut self, space: Space<'_>, target: &Target, value: &Bytes) -> Result<(), Fault> {
        let row: RecordRow = row::decode("records", value)?;
        if let Some(at_ms) = lifetime::deadline(&row) {
            self.deadline(space, at_ms, &Due::Record(target.clone()));
        }
        let bytes = target.path.len() + value.len();
        self.count(space.usage().tenant(), 1, bytes);
        if target.kind == Kind::Handle {
            let (store, owner) = target.store_and_owner()?;
            self.count(space.usage().store(store), 1, bytes);
            self.count(space.usage().owner(owner), 1, bytes);
        }
        Ok(())
    }

    fn summary(&mut self, space: Space<'_>, key: &Bytes, due: &Due, summary: Summary) {
        if let Some(at_ms) = summary.due_ms {
            self.deadline(space, at_ms, due);
        }
        self.summaries.insert(key.clone(), summary);
    }

    fn deadline(&mut self, space: Space<'_>, at_ms: u64, due: &Due) {
        let key = space.group().deadline(at_ms, space.tenant, due);
        self.deadlines_due.insert(key);
        self.earliest_ms = Some(
            self.earliest_ms
                .map_or(at_ms, |earlier_ms| earlier_ms.min(at_ms)),
        );
    }

    fn count(&mut self, key: Bytes, rows: u64, bytes: usize) {
        let sum = self.usage_due.entry(key).or_default();
        sum.rows += rows;
        sum.bytes += bytes as u64;
    }

    /// Counts bytes that no row of their own takes.
    fn charge(&mut self, space: Space<'_>, bytes: u64) {
        if bytes > 0 {
            let sum = self.usage_due.entry(space.usage().tenant()).or_default();
            sum.bytes += bytes;
        }
    }

    fn tenants_deadlines(&self) -> Result<(), Fault> {
        let group = Group(self.group_id);
        for key in &self.deadlines {
            let row = group.parse_deadline(key);
            let from = self.tenant_deadlines.get(&row.tenant);
            let from_ms = match (Shelf::of(&row.due), from) {
                (Some(Shelf::Records), Some(from)) => from.records_from_ms,
                (Some(Shelf::Sessions), Some(from)) => from.sessions_from_ms,
                (Some(Shelf::Requests), Some(from)) => from.requests_from_ms,
                _ => 0,
            };
            if row.at_ms < from_ms {
                return Err(Fault::Corrupt(
                    "a tenant's deadline is before the time that its own begin at",
                ));
            }
        }
        Ok(())
    }

    fn verdict(&self) -> Result<(), Fault> {
        if self.deadlines != self.deadlines_due {
            return Err(Fault::Corrupt(
                "the deadline index differs from the records' deadlines",
            ));
        }
        if self
            .earliest_ms
            .is_some_and(|at_ms| at_ms < self.deadlines_from_ms)
        {
            return Err(Fault::Corrupt(
                "a deadline is before the time that the index begins at",
            ));
        }
        self.tenants_deadlines()?;
        if self.measured != self.measured_due {
            return Err(Fault::Corrupt(
                "sessions note bytes of outcomes that are not kept",
            ));
        }
        if self.usage != self.usage_due {
            return Err(Fault::Corrupt("the usage rows differ from what is in use"));
        }
        if self.session_orders != self.session_orders_due {
            return Err(Fault::Corrupt("the sessions' order differs from them"));
        }
        if self.orders != self.orders_due {
            return Err(Fault::Corrupt(
                "the tombstones' order differs from the tombstones",
            ));
        }
        if self.tokens != self.tokens_due {
            return Err(Fault::Corrupt("the list of tokens differs from the tokens"));
        }
        for (key, due) in &self.summaries_due {
            let stored = self.summaries.get(key).copied().unwrap_or_default();
            // A summary may say an earlier time: then the sweep finds nothing due, and moves it.
            if stored.rows != due.rows || stored.due_ms.is_none() || stored.due_ms > due.due_ms {
                return Err(Fault::Corrupt(
                    "a summary differs from the rows that it sums up",
                ));
            }
        }
        for (key, stored) in &self.summaries {
            if !self.summaries_due.contains_key(key) && stored.rows > 0 {
                return Err(Fault::Corrupt("a summary counts rows that are not there"));
            }
        }
        Ok(())
    }
}
