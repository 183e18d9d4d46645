//! What one HTTP/2 stream has taken of its caller's budgets: its place, its requests and its answers.
//!
//! The account is in the extensions of the request, for handlers, and of the response, for the transport. It ends with the stream.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::time::Instant;
use tonic::Request;

use super::{
    budget::{Budgets, Charge, Full, Owner},
    failure::Failure,
};
use crate::bounds::What;

/// The account of one stream.
#[derive(Debug)]
pub(crate) struct Account {
    budgets: Budgets,
    owner: Arc<Owner>,
    /// What the stream takes by being open.
    _places: Vec<Charge>,
    taken: Mutex<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    /// Messages that have come, or are coming, and were not handed to a call.
    request: Option<Charge>,
    /// Answers that the transport has not taken yet.
    answers: Vec<Charge>,
}

impl Account {
    /// Opens an account for a stream of this owner, which takes one of each of these places.
    pub(crate) fn open(
        budgets: Budgets,
        owner: Arc<Owner>,
        places: &[What],
    ) -> Result<Arc<Self>, Full> {
        let places = places.iter().map(|what| budgets.take(&owner, *what, 1));
        let places = places.collect::<Result<_, _>>()?;
        Ok(Arc::new(Self {
            budgets,
            owner,
            _places: places,
            taken: Mutex::default(),
        }))
    }

    /// The account of the stream that this request came over.
    pub(crate) fn of<T>(request: &Request<T>) -> Result<Arc<Self>, Failure> {
        let account = request.extensions().get::<Arc<Self>>().cloned();
        account.ok_or(Failure::Unauthenticated)
    }

    /// The budgets that it takes from.
    pub(crate) fn budgets(&self) -> &Budgets {
        &self.budgets
    }

    /// Takes this much, or says which budget is used up.
    pub(crate) fn take(&self, what: What, amount: usize) -> Result<Charge, Full> {
        self.budgets.take(&self.owner, what, amount)
    }

    /// Takes this much as soon as there is room.
    pub(crate) async fn wait(
        self: Arc<Self>,
        what: What,
        amount: usize,
        deadline: Instant,
    ) -> Result<Charge, Full> {
        self.budgets.wait(&self.owner, what, amount, deadline).await
    }

    /// How much to take for an answer of at most this size: no more than the owner can ever have.
    pub(crate) fn answer_room(&self, bytes_max: usize) -> usize {
        bytes_max.min(self.budgets.attainable(&self.owner, What::AnswerBytes))
    }

    /// Takes room for answers without values, as soon as there is some: no more than the owner can ever have.
    pub(crate) async fn wait_for_replies(
        self: Arc<Self>,
        bytes: usize,
        deadline: Instant,
    ) -> Result<Charge, Full> {
        let bytes = bytes.min(self.budgets.attainable(&self.owner, What::ReplyBytes));
        self.wait(What::ReplyBytes, bytes, deadline).await
    }

    /// Keeps a charge for messages until [`Account::take_request`].
    pub(crate) fn keep_request(&self, charge: Charge) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        match &mut taken.request {
            Some(request) => request.add(charge),
            none => *none = Some(charge),
        }
    }

    /// Hands over what the messages that have come took, for as long as their calls are under way.
    pub(crate) fn take_request(&self) -> Option<Charge> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.request.take()
    }

    /// Keeps a charge for an answer until [`Account::take_answers`], or until the stream ends.
    pub(crate) fn keep_answer(&self, charge: Charge) {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        taken.answers.push(charge);
    }

    /// Hands over what answers took, for as long as the transport holds what it was taken for.
    pub(crate) fn take_answers(&self) -> Vec<Charge> {
        let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::take(&mut taken.answers)
    }

    /// Tells this account's owner from others.
    pub(crate) fn owner_id(&self) -> usize {
        Arc::as_ptr(&self.owner).addr()
    }
}
