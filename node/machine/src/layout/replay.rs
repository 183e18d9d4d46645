//! Keys of the rows that make calls exactly once: sessions, request ids and their outcomes.

use bytes::Bytes;

use super::{
    PRINCIPAL_REQUEST_OUTCOMES, PRINCIPAL_REQUEST_SUMMARY, REQUEST_OUTCOMES, REQUEST_SUMMARY,
    SESSION_ORDER, SESSION_OUTCOMES, SESSIONS, Space, Span,
};

impl Space<'_> {
    pub(crate) fn session(self, session_id: &[u8]) -> Bytes {
        self.row(SESSIONS, session_id)
    }

    pub(crate) fn sessions(self) -> Span {
        Span::of_prefix(self.table(SESSIONS))
    }

    /// A session among those of its principal, the idlest of which comes first.
    pub(crate) fn session_order(
        self,
        principal: &[u8],
        deadline_ms: u64,
        session_id: &[u8],
    ) -> Bytes {
        let own_bytes = principal.len() + 8 + session_id.len();
        let mut key = self.begin(SESSION_ORDER, own_bytes);
        key.extend_from_slice(principal);
        key.extend_from_slice(&deadline_ms.to_be_bytes());
        key.extend_from_slice(session_id);
        key.into()
    }

    pub(crate) fn session_orders(self, principal: &[u8]) -> Span {
        Span::of_prefix(self.row(SESSION_ORDER, principal).into())
    }

    pub(crate) fn session_outcome(self, session_id: &[u8], seq: u64) -> Bytes {
        let mut key = self.begin(SESSION_OUTCOMES, session_id.len() + 8);
        key.extend_from_slice(session_id);
        key.extend_from_slice(&seq.to_be_bytes());
        key.into()
    }

    pub(crate) fn session_outcomes(self, session_id: &[u8]) -> Span {
        Span::of_prefix(self.row(SESSION_OUTCOMES, session_id).into())
    }

    pub(crate) fn request_outcome(self, request_id: &[u8]) -> Bytes {
        self.row(REQUEST_OUTCOMES, request_id)
    }

    pub(crate) fn request_outcomes(self) -> Span {
        Span::of_prefix(self.table(REQUEST_OUTCOMES))
    }

    pub(crate) fn request_summary(self) -> Bytes {
        self.table(REQUEST_SUMMARY).into()
    }

    pub(crate) fn principal_request_outcome(self, principal: &[u8], request_id: &[u8]) -> Bytes {
        let mut key = self.begin(
            PRINCIPAL_REQUEST_OUTCOMES,
            principal.len() + request_id.len(),
        );
        key.extend_from_slice(principal);
        key.extend_from_slice(request_id);
        key.into()
    }

    /// Of one principal, or with an empty part of the key of all.
    pub(crate) fn principal_request_outcomes(self, principal: &[u8]) -> Span {
        Span::of_prefix(self.row(PRINCIPAL_REQUEST_OUTCOMES, principal).into())
    }

    pub(crate) fn principal_request_summary(self, principal: &[u8]) -> Bytes {
        self.row(PRINCIPAL_REQUEST_SUMMARY, principal)
    }
}
