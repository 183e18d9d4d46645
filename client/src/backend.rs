//! The narrow waist: every store uses a [`Backend`], and every host is one.

use std::{fmt, time::Duration};

use async_trait::async_trait;
use helve_proto::v1::{
    self, ListKeysReply, ListKeysRequest, ListReply, ListRequest, WatchRequest,
    exchange_answer::Answer, exchange_call::Call,
};

use crate::{
    error::{Error, ErrorKind},
    promises::Promises,
    watch::WatchParts,
};

/// Something that answers the calls of `helve.v1`: a cluster, or the state machine in this process.
#[async_trait]
pub trait Backend: fmt::Debug + Send + Sync {
    /// Makes one call, and answers within `deadline`. A mutation without identity is given one, which every retry repeats; one
    /// with identity keeps it, and its retries are the caller's.
    ///
    /// # Errors
    /// Of any kind but [`Codec`](crate::ErrorKind::Codec).
    async fn call(&self, call: Call, deadline: Duration) -> Result<Answer, Error>;

    /// Lists handles: the parts of one stream, which is one view. `deadline` bounds the wait for the first part; of a request with a limit,
    /// for all of them. No more records are answered than the limit says, and none that are not behind its `after`.
    ///
    /// # Errors
    /// As [`call`](Self::call), and [`Lapsed`](crate::ErrorKind::Lapsed).
    async fn list_handles(
        &self,
        request: ListRequest,
        deadline: Duration,
    ) -> Result<Vec<ListReply>, Error>;

    /// Lists keys, as [`list_handles`](Self::list_handles) does.
    ///
    /// # Errors
    /// As [`list_handles`](Self::list_handles).
    async fn list_keys(
        &self,
        request: ListKeysRequest,
        deadline: Duration,
    ) -> Result<Vec<ListKeysReply>, Error>;

    /// Watches records: the parts of a stream that goes on where its host allows, each change told once and in order, the first
    /// part at once and without changes. `deadline` bounds the wait for the first part, and for each that follows an interruption.
    ///
    /// # Errors
    /// As [`list_handles`](Self::list_handles), and [`Unsupported`](crate::ErrorKind::Unsupported) if not told otherwise.
    async fn watch(&self, request: WatchRequest, deadline: Duration) -> Result<WatchParts, Error> {
        let _unused = (request, deadline);
        let message = "this host tells no changes: list, or use a cluster";
        Err(Error::new(ErrorKind::Unsupported, message))
    }

    /// How long a call may take if its caller says nothing.
    fn deadline(&self) -> Duration;

    /// What its stores promise. If not told: nothing.
    fn promises(&self) -> Promises {
        Promises::NONE
    }

    /// What each of its nodes says of itself, `None` where none says anything within `patience`. If not told: there are no nodes.
    async fn survey(&self, patience: Duration) -> Vec<Option<v1::StatusReply>> {
        let _unused = patience;
        Vec::new()
    }

    /// Ends this host's work: calls from now on answer [`Closed`](crate::ErrorKind::Closed), and so do those under way, but for
    /// mutations that were sent and not answered: they are [`Ambiguous`](crate::ErrorKind::Ambiguous). Closing again does nothing.
    fn close(&self);
}

/// A request of `helve.v1` that is answered by one reply.
pub trait Request: Send + Sized {
    /// Its reply.
    type Reply;

    /// The request as one of all.
    fn into_call(self) -> Call;

    /// The reply, if it is one to this request.
    fn reply(answer: Answer) -> Option<Self::Reply>;
}

macro_rules! requests {
    ($($variant:ident: $request:ident -> $reply:ident,)*) => {$(
        impl Request for v1::$request {
            type Reply = v1::$reply;

            fn into_call(self) -> Call {
                Call::$variant(self)
            }

            fn reply(answer: Answer) -> Option<Self::Reply> {
                match answer {
                    Answer::$variant(reply) => Some(reply),
                    _ => None,
                }
            }
        }
    )*

    /// The call's name, as traces have it.
    #[cfg(feature = "cluster")]
    pub(crate) fn name(call: &Call) -> &'static str {
        match call {
            $(Call::$variant(_) => stringify!($variant),)*
        }
    }};
}

helve_proto::each_call!(requests);
