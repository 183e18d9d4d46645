//! Replies that a node makes up.

use helve_proto::v1::{ExchangeReply, GetRequest};

use super::*;

/// Reads a reply to three calls.
///
/// # Panics
/// If a call is answered that it does not name, or the other way round.
pub fn exchange_reply(bytes: &[u8]) {
    let Ok(reply) = ExchangeReply::decode(bytes) else {
        return;
    };
    let again = ExchangeReply::decode(reply.encode_to_vec().as_slice());
    assert_eq!(again.as_ref(), Ok(&reply));
    let stream = ExchangeStream {
        address: "a:1".into(),
        room: Arc::new(Semaphore::new(3)),
        state: Mutex::default(),
    };
    let mut answers = Vec::new();
    for _ in 0..3 {
        let (reply, answer) = oneshot::channel();
        let room = Arc::clone(&stream.room).try_acquire_owned();
        let waiting = Waiting {
            reply,
            _room: room.expect("room for three"),
        };
        let id = stream.enqueue(Call::Get(GetRequest::default()), Instant::now(), waiting);
        answers.push((id.expect("an open stream"), answer));
    }
    let named = |id| reply.answers.iter().any(|it| it.correlation_id == id);
    let named: Vec<_> = answers.iter().map(|(id, _)| named(*id)).collect();
    stream.settle(reply.answers);
    for ((id, mut answer), named) in answers.into_iter().zip(named) {
        assert_eq!(answer.try_recv().is_ok(), named, "call {id}");
    }
}
