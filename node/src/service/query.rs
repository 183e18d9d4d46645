//! The way of a read that one message answers: a linearizable view, and a pure query over it.

use std::sync::{Arc, Mutex, PoisonError};

use helve_machine::{
    Fault, Violation,
    query::{Read, Scope},
};
use helve_proto::operations::CallReply;
use prost::Message as _;

use super::{
    Services, account::Account, admit::Admitted, budget::Charge, caller::Caller, failure::Failure,
    long_reads::Turn,
};
use crate::{
    bounds::What,
    limits,
    read_index::{Place, ReadView},
    storage::state_view::StateView,
};

/// A request that reads.
pub(crate) trait Query: Send + Sync + 'static {
    /// What answers it.
    type Reply: CallReply;

    /// Where it is asked.
    const PLACE: Place = Place::Memory;

    /// Refuses what no view could answer.
    fn check(&self) -> Result<(), Violation>;

    /// Bytes that the answer may take at most; 0 if that is little whatever the rows hold.
    fn answer_bytes_max(&self) -> usize {
        0
    }

    /// Answers from a view.
    fn answer(&self, view: &StateView<'_>, scope: &Scope<'_>) -> Result<Read<Self::Reply>, Fault>;
}

/// Requests that the machine's check and query of one name answer, `from` a place other than memory if that is named.
macro_rules! queries {
    ($($name:ident: $request:ident -> $reply:ident, by $query:ident $(, from $place:ident)? $(, answering $bytes:expr)?;)*) => {$(
        impl crate::service::Call for $request {
            const RPC: &'static str = stringify!($name);
            type Reply = $reply;

            fn check(&self) -> Result<(), helve_machine::Violation> {
                helve_machine::check::$query(self)
            }

            async fn run(
                self,
                services: &crate::service::Services,
                admitted: &crate::service::admit::Admitted,
            ) -> Result<$reply, crate::service::failure::Failure> {
                services.query(self, admitted).await
            }
        }

        impl crate::service::query::Query for $request {
            type Reply = $reply;

            $(const PLACE: crate::read_index::Place = crate::read_index::Place::$place;)?

            fn check(&self) -> Result<(), helve_machine::Violation> {
                helve_machine::check::$query(self)
            }

            $(fn answer_bytes_max(&self) -> usize {
                let bytes: fn(&Self) -> usize = $bytes;
                bytes(self)
            })?

            fn answer(
                &self,
                view: &crate::storage::state_view::StateView<'_>,
                scope: &helve_machine::query::Scope<'_>,
            ) -> Result<helve_machine::query::Read<$reply>, helve_machine::Fault> {
                helve_machine::query::$query(view, scope, self)
            }
        }
    )*};
}
pub(crate) use queries;

impl Services {
    /// Has a query answered from a linearizable view.
    pub(crate) async fn query<Q: Query>(
        &self,
        query: Q,
        admitted: &Admitted,
    ) -> Result<Q::Reply, Failure> {
        query.check()?;
        let bytes_max = admitted.account.answer_room(query.answer_bytes_max());
        let query = Arc::new(query);
        let mut room = None;
        loop {
            // No caller keeps its turn while it waits for room of its own.
            let turn = match Q::PLACE {
                Place::Disk => {
                    let tenant = &admitted.caller.tenant;
                    Some(self.long_reads.turn_by(tenant, admitted.deadline).await?)
                }
                Place::Memory => None,
            };
            let asked = Asking {
                query: Arc::clone(&query),
                caller: Arc::clone(&admitted.caller),
                account: Arc::clone(&admitted.account),
                bytes_max,
                room: Mutex::new(room.take()),
                _turn: turn,
            };
            let answer = self.reader.read(
                &admitted.caller.tenant,
                admitted.deadline,
                Q::PLACE,
                move |view: &ReadView<'_>| asked.answer(view),
            );
            let answer = answer.await?;
            if let Some((reply, charge)) = answer {
                admitted.keep_answer(charge);
                return Ok(reply);
            }
            let account = Arc::clone(&admitted.account);
            let waited = account.wait(What::AnswerBytes, bytes_max, admitted.deadline);
            room = Some(waited.await?);
        }
    }
}

/// A query, and the room for its answer. That is taken where the rows are read, and given back at once but for what the answer has:
/// so only as many largest answers are reserved as threads read.
struct Asking<Q> {
    query: Arc<Q>,
    caller: Arc<Caller>,
    account: Arc<Account>,
    bytes_max: usize,
    /// What was waited for.
    room: Mutex<Option<Charge>>,
    /// Held until no thread reads: a cancelled call would otherwise return it while one reads on.
    _turn: Option<Turn>,
}

impl<Q: Query> Asking<Q> {
    /// The answer and what it takes; `None` if there is no room, and nothing was read.
    fn answer(&self, view: &ReadView<'_>) -> Result<Read<Answered<Q::Reply>>, Fault> {
        let mut room = None;
        if self.bytes_max > 0 {
            let waited = self
                .room
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .take();
            let taken =
                waited.map_or_else(|| self.account.take(What::AnswerBytes, self.bytes_max), Ok);
            match taken {
                Ok(charge) => room = Some(charge),
                Err(_) => return Ok(Read::Answer(None)),
            }
        }
        let read = self
            .query
            .answer(view.view, &scope(view, &self.caller.tenant))?;
        Ok(match stamped(read, view.index) {
            Read::Answer(reply) => {
                if let Some(room) = &mut room {
                    room.shrink_to(reply.encoded_len());
                }
                Read::Answer(Some((reply, room)))
            }
            Read::Lapsed => Read::Lapsed,
            Read::Renew(touches) => Read::Renew(touches),
            Read::Busy => Read::Busy,
            Read::TooLarge => Read::TooLarge,
        })
    }
}

/// A reply and what it takes, if there was room for it.
type Answered<R> = Option<(R, Option<Charge>)>;

/// What a query over this view may see.
pub(crate) fn scope<'a>(view: &ReadView<'_>, tenant: &'a str) -> Scope<'a> {
    Scope {
        group_id: limits::GROUP_ID,
        tenant,
        stamp_ms: view.stamp_ms,
    }
}

/// The same, with the view's index in the header.
pub(crate) fn stamped<R: CallReply>(mut read: Read<R>, index: u64) -> Read<R> {
    if let Read::Answer(reply) = &mut read {
        reply.header_mut().index = index;
    }
    read
}

#[cfg(test)]
mod tests;
