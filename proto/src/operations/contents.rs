//! What requests and replies have in them, whichever operation they are of. The implementations are generated (`build/contents.rs`).

use bytes::Bytes;

use super::CallFacts;
use crate::v1::{ClaimStatus, RecordInfo, ReplyHeader};

/// A request of one call of the public services.
pub trait CallRequest {
    /// What the table says of the call.
    const CALL: &'static CallFacts;
}

/// What is called for a record in a reply: with the number of the request's target that it belongs to, what is known of it, and its
/// value if the reply may hand it out.
pub type SeeRecord<'a, E> =
    dyn FnMut(usize, &mut RecordInfo, Option<&mut Bytes>) -> Result<(), E> + 'a;

/// A reply of the public services, with the header that every reply has.
pub trait CallReply: prost::Message + 'static {
    /// The header, made if it is not there yet.
    fn header_mut(&mut self) -> &mut ReplyHeader;

    /// Shows each record in the reply, until `see` fails.
    ///
    /// # Errors
    /// The first of `see`.
    fn records_mut<E>(&mut self, see: &mut SeeRecord<'_, E>) -> Result<(), E>;

    /// The record's revision; 0 if the reply is about none, or about several.
    fn revision(&self) -> u64;

    /// How the record was found or what was done to it, by the contract's name of the status; `None` if the reply does not say.
    fn status_name(&self) -> Option<&'static str>;

    /// The name of the record that was minted.
    fn minted(&self) -> Option<&str>;
}

impl ClaimStatus {
    /// Whether a reply with this status hands out the claim's value. With another one it only describes the record.
    #[must_use]
    pub fn hands_out(self) -> bool {
        matches!(self, Self::InFlight | Self::Done)
    }
}
