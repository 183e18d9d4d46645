//! One replica's worth of the machine: rows, log index, time.

use bytes::Bytes;
use helve_machine::{
    Batch, Context, Fault, Violation, apply, check, level, limits as machine_limits, minted_id,
    query::{self, Page, Read, Scope},
};
use helve_proto::{
    Reason,
    command::v1::{
        Command, Outcome, RaiseFeatureLevel, Tick, command::Operation, outcome::Outcome as Kind,
    },
    v1::{
        CallIdentity, ListKeysReply, ListKeysRequest, ListReply, ListRequest, OpenSessionRequest,
        ReplyHeader, SessionCall, call_identity::Identity, exchange_answer::Answer,
        exchange_call::Call,
    },
};
use prost::Message;
use sha2::{Digest, Sha256};

use crate::{
    error::{Error, ErrorKind},
    limits::LIST_BYTES_MAX,
    memory::{
        command::{self, Taken},
        feed::Feed,
        rows::Rows,
    },
};

pub(super) const GROUP_ID: u32 = 1;
pub(super) const TENANT: &str = "default";
const PRINCIPAL: &str = "anonymous";
const PAGE: Page = Page {
    rows_max: 1024,
    bytes_max: 1 << 20,
};

/// Where randomness comes from.
pub(super) type Entropy = fn(&mut [u8]) -> Result<(), getrandom::Error>;

/// The machine with its rows. Every entry is applied as soon as it is proposed: the log is but its index.
#[derive(Debug)]
pub(super) struct Host {
    rows: Rows,
    index: u64,
    /// The session of the calls that come without identity: its number, and how many calls it has had.
    session: Option<u64>,
    sessions: u64,
    calls: u64,
    entropy: Entropy,
    feed: Feed,
}

impl Host {
    pub(super) fn new(entropy: Entropy) -> Self {
        Self {
            rows: Rows::default(),
            index: 0,
            session: None,
            sessions: 0,
            calls: 0,
            entropy,
            feed: Feed::default(),
        }
    }

    pub(super) fn rows(&self) -> &Rows {
        &self.rows
    }

    pub(super) fn feed(&self) -> &Feed {
        &self.feed
    }

    pub(super) fn answer(&mut self, mut call: Call, now_ms: u64) -> Result<Answer, Error> {
        let identity = call.identity_mut().and_then(Option::take);
        match command::take(call) {
            Taken::Mutation(operation) => self.mutate(operation, identity, now_ms),
            Taken::Read(call) => self.read(call, now_ms),
        }
    }

    /// Removes all that is due.
    pub(super) fn collect(&mut self, now_ms: u64) -> Result<(), Error> {
        while self.tick(now_ms)? {}
        Ok(())
    }

    pub(super) fn list_handles(
        &mut self,
        request: ListRequest,
        now_ms: u64,
    ) -> Result<Vec<ListReply>, Error> {
        check::list(&request).map_err(violation)?;
        let mut parts: Vec<ListReply> = Vec::new();
        let mut bytes = 0;
        let mut rest = Some(request);
        while let Some(request) = rest {
            let mut part = self.query(now_ms, |rows, scope| {
                query::list(rows, scope, &request, PAGE)
            })?;
            bytes = room(bytes, &part)?;
            self.place(&mut part.header);
            rest = query::rest(request, &part);
            parts.push(part);
        }
        Ok(parts)
    }

    pub(super) fn list_keys(
        &mut self,
        request: ListKeysRequest,
        now_ms: u64,
    ) -> Result<Vec<ListKeysReply>, Error> {
        check::list_keys(&request).map_err(violation)?;
        let mut parts: Vec<ListKeysReply> = Vec::new();
        let mut bytes = 0;
        let mut rest = Some(request);
        while let Some(request) = rest {
            let mut part = self.query(now_ms, |rows, scope| {
                query::list_keys(rows, scope, &request, PAGE)
            })?;
            bytes = room(bytes, &part)?;
            self.place(&mut part.header);
            rest = query::keys_rest(request, &part);
            parts.push(part);
        }
        Ok(parts)
    }

    fn mutate(
        &mut self,
        operation: Operation,
        identity: Option<CallIdentity>,
        now_ms: u64,
    ) -> Result<Answer, Error> {
        self.raise_to(level::needed(&operation), now_ms)?;
        let minted = (0..command::mints(&operation)).map(|_| self.mint());
        let mut command = Command {
            minted_ids: minted.collect::<Result<_, _>>()?,
            ..bare(operation, now_ms)
        };
        command.fingerprint = fingerprint(&command);
        if identity.is_some() || matches!(command.operation, Some(Operation::OpenSession(_))) {
            command.identity = identity;
            return self.commit_checked(&command);
        }
        // An expired session is followed by a new one, in which this call is the first: it cannot expire again.
        for _ in 0..2 {
            command.identity = Some(self.next_identity(now_ms)?);
            match self.commit_checked(&command) {
                Err(error) if error.reason() == Some(Reason::SessionExpired) => self.session = None,
                answer => return answer,
            }
        }
        Err(Error::internal("a new replay session has expired already"))
    }

    /// No leader is there that would raise the feature level. It stays as low as it can: below level 4, what has expired goes with any
    /// later write.
    fn raise_to(&mut self, level: u32, now_ms: u64) -> Result<(), Error> {
        let has = helve_machine::feature_level(&self.rows, GROUP_ID).map_err(fault)?;
        if level > has {
            let raise = Operation::RaiseFeatureLevel(RaiseFeatureLevel { level });
            self.commit(&bare(raise, now_ms))?;
        }
        Ok(())
    }

    fn commit_checked(&mut self, command: &Command) -> Result<Answer, Error> {
        check(command).map_err(violation)?;
        command::answer(self.commit(command)?)
    }

    fn commit(&mut self, command: &Command) -> Result<Outcome, Error> {
        self.index += 1;
        let context = Context {
            group_id: GROUP_ID,
            index: self.index,
        };
        let mut batch = Batch::new(&self.rows);
        let outcome = apply(&context, command, &mut batch).map_err(fault)?;
        let changes = batch.take_changes();
        let writes = batch.finish().map_err(fault)?;
        self.rows.write(writes);
        let clock_ms = helve_machine::clock(&self.rows, GROUP_ID).map_err(fault)?;
        self.feed.push(self.index, changes, clock_ms);
        Ok(outcome)
    }

    fn read(&mut self, call: Call, now_ms: u64) -> Result<Answer, Error> {
        let mut answer = match call {
            Call::Get(call) => {
                check::get(&call).map_err(violation)?;
                Answer::Get(self.query(now_ms, |rows, scope| query::get(rows, scope, &call))?)
            }
            Call::Count(call) => {
                check::count(&call).map_err(violation)?;
                Answer::Count(self.query(now_ms, |rows, scope| query::count(rows, scope, &call))?)
            }
            Call::Retrieve(call) => {
                check::retrieve(&call).map_err(violation)?;
                let reply = self.query(now_ms, |rows, scope| query::retrieve(rows, scope, &call));
                Answer::Retrieve(reply?)
            }
            Call::Exists(call) => {
                check::exists(&call).map_err(violation)?;
                Answer::Exists(self.query(now_ms, |rows, scope| query::exists(rows, scope, &call))?)
            }
            Call::BatchRetrieve(call) => {
                check::batch_retrieve(&call).map_err(violation)?;
                let reply = self.query(now_ms, |rows, scope| {
                    query::batch_retrieve(rows, scope, &call)
                });
                Answer::BatchRetrieve(reply?)
            }
            _ => return Err(Error::internal("a mutation among the reads")),
        };
        if let Some(header) = answer.header_mut() {
            self.place(header);
        }
        Ok(answer)
    }

    /// Asks again after every step that the answer needs; each can be needed only once a record.
    fn query<R>(
        &mut self,
        now_ms: u64,
        query: impl Fn(&Rows, &Scope<'_>) -> Result<Read<R>, Fault>,
    ) -> Result<R, Error> {
        let scope = Scope {
            group_id: GROUP_ID,
            tenant: TENANT,
            stamp_ms: now_ms,
        };
        loop {
            match query(&self.rows, &scope).map_err(fault)? {
                Read::Answer(answer) => return Ok(answer),
                Read::Lapsed => {
                    self.tick(now_ms)?;
                }
                Read::Renew(touches) => {
                    for touch in touches {
                        self.commit(&bare(Operation::Touch(touch), now_ms))?;
                    }
                }
                // No other task removes expired rows here.
                Read::Busy => self.collect(now_ms)?,
                Read::TooLarge => {
                    let message = "the values are too large for one reply: ask for fewer keys";
                    return Err(Error::refused(Reason::TooLarge, message, 0, 0));
                }
            }
        }
    }

    /// Lets time pass. True if due rows remain.
    fn tick(&mut self, now_ms: u64) -> Result<bool, Error> {
        let tick = Tick {
            rows_max: machine_limits::TICK_ROWS_MAX,
        };
        match self.commit(&bare(Operation::Tick(tick), now_ms))?.outcome {
            Some(Kind::Tick(ticked)) => Ok(ticked.more),
            _ => Err(Error::internal("the outcome of another command")),
        }
    }

    fn mint(&self) -> Result<String, Error> {
        let mut random = [0; machine_limits::IDENTITY_BYTES];
        (self.entropy)(&mut random).map_err(|error| {
            Error::new(ErrorKind::Entropy, "no randomness for an id").with_source(error)
        })?;
        Ok(minted_id(&random))
    }

    /// Calls are applied one after the other, so each is the lowest incomplete one.
    fn next_identity(&mut self, now_ms: u64) -> Result<CallIdentity, Error> {
        let session = match self.session {
            Some(session) => session,
            None => self.open_session(now_ms)?,
        };
        self.calls += 1;
        Ok(CallIdentity {
            identity: Some(Identity::Session(SessionCall {
                session_id: session_id(session),
                seq: self.calls,
                first_incomplete: self.calls,
            })),
        })
    }

    fn open_session(&mut self, now_ms: u64) -> Result<u64, Error> {
        self.sessions += 1;
        self.calls = 0;
        let open = OpenSessionRequest {
            session_id: session_id(self.sessions),
        };
        let command = bare(Operation::OpenSession(open), now_ms);
        command::answer(self.commit(&command)?)?;
        self.session = Some(self.sessions);
        Ok(self.sessions)
    }

    /// Writes the index of its view into a reply.
    fn place(&self, header: &mut Option<ReplyHeader>) {
        if let Some(header) = header {
            header.index = self.index;
        }
    }
}

/// Known to this host alone, so it need not be random.
fn session_id(number: u64) -> Bytes {
    let mut id = *b"helve-in-process";
    id[8..].copy_from_slice(&number.to_be_bytes());
    Bytes::copy_from_slice(&id)
}

/// A command that is not stamped yet but with its time.
fn bare(operation: Operation, now_ms: u64) -> Command {
    Command {
        feature_level: level::needed(&operation),
        tenant: TENANT.to_owned(),
        principal: PRINCIPAL.to_owned(),
        proposed_at_ms: now_ms,
        operation: Some(operation),
        ..Command::default()
    }
}

/// Of what the caller asked for, not of this try.
fn fingerprint(command: &Command) -> Bytes {
    let asked = Command {
        principal: command.principal.clone(),
        operation: command.operation.clone(),
        ..Command::default()
    };
    let digest = Sha256::digest(asked.encode_to_vec());
    Bytes::copy_from_slice(&digest[..machine_limits::FINGERPRINT_BYTES])
}

fn room(bytes: usize, part: &impl Message) -> Result<usize, Error> {
    let bytes = bytes + part.encoded_len();
    if bytes > LIST_BYTES_MAX {
        let message =
            "the list is too large for one answer: list without values, or by owner or prefix";
        return Err(Error::refused(Reason::TooLarge, message, 0, 0));
    }
    Ok(bytes)
}

pub(super) fn violation(violation: Violation) -> Error {
    let operation = violation
        .operation
        .and_then(|operation| u32::try_from(operation).ok());
    Error::refused(
        violation.reason,
        violation.message,
        0,
        operation.unwrap_or(0),
    )
}

fn fault(fault: Fault) -> Error {
    Error::internal("the state machine stopped").with_source(fault)
}
