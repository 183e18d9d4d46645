//! A call as it is, whatever its type: for what passes calls on.

use helve_client::{
    Request,
    v1::{exchange_answer::Answer, exchange_call::Call},
};

/// The call.
pub(crate) struct Untyped(pub(crate) Call);

impl Request for Untyped {
    type Reply = Answer;

    fn into_call(self) -> Call {
        self.0
    }

    fn reply(answer: Answer) -> Option<Answer> {
        Some(answer)
    }
}
