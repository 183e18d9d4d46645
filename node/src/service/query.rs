//! The way of a read that one message answers: a linearizable view, and a pure query over it.

use std::sync::Arc;

use helve_machine::{
    Fault, Violation,
    query::{Read, Scope},
};

use super::{Headed, Services, admit::Admitted, failure::Failure};
use crate::{
    limits,
    read_index::{Place, ReadView},
    storage::state_view::StateView,
    vault::Values,
};

/// A request that reads.
pub(crate) trait Query: Send + Sync + 'static {
    /// What answers it.
    type Reply: Headed + Values;

    /// Where it is asked.
    const PLACE: Place = Place::Memory;

    /// Refuses what no view could answer.
    fn check(&self) -> Result<(), Violation>;

    /// Answers from a view.
    fn answer(&self, view: &StateView<'_>, scope: &Scope<'_>) -> Result<Read<Self::Reply>, Fault>;
}

/// Requests that the machine's check and query of one name answer, `from` a place other than memory if that is named.
macro_rules! queries {
    ($($name:ident: $request:ident -> $reply:ident, by $query:ident $(, from $place:ident)?;)*) => {$(
        crate::service::headed!($reply);

        impl crate::service::Call for $request {
            const RPC: &'static str = stringify!($name);
            const CLASS: crate::audit::Class = crate::audit::Class::Read;
            type Reply = $reply;

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
        let caller = Arc::clone(&admitted.caller);
        let answer = move |view: &ReadView<'_>| {
            let read = query.answer(view.view, &scope(view, &caller.tenant))?;
            Ok(stamped(read, view.index))
        };
        Ok(self
            .reader
            .read(&admitted.caller.tenant, admitted.deadline, Q::PLACE, answer)
            .await?)
    }
}

/// What a query over this view may see.
pub(crate) fn scope<'a>(view: &ReadView<'_>, tenant: &'a str) -> Scope<'a> {
    Scope {
        group_id: limits::GROUP_ID,
        tenant,
        stamp_ms: view.stamp_ms,
    }
}

/// The same, with the view's index in the header.
pub(crate) fn stamped<R: Headed>(mut read: Read<R>, index: u64) -> Read<R> {
    if let Read::Answer(reply) = &mut read {
        reply.header_mut().index = index;
    }
    read
}
