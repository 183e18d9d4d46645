//! An answer of the client port that goes out over the HTTP port.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use bytes::Bytes;
use hyper::body::{Body as HttpBody, Frame, SizeHint};
use tonic::{Status, body::Body};

use super::places::Place;
use crate::service::account::Account;

/// A body that holds what its caller is charged, and its call's place, until the transport has taken all of it, or drops it.
/// The HTTP port itself bounds what waits for callers there.
pub(super) struct Held {
    body: Body,
    _account: Option<Arc<Account>>,
    _place: Option<Place>,
}

impl Held {
    /// This body, charged to this account, of the call with this place.
    pub(super) fn new(body: Body, account: Option<Arc<Account>>, place: Option<Place>) -> Self {
        Self {
            body,
            _account: account,
            _place: place,
        }
    }
}

impl HttpBody for Held {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
