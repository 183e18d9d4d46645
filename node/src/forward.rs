//! Writes on their way to the leader: one persistent stream of batches to each peer, one hop.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, PoisonError},
};

use futures::{StreamExt, stream::FuturesUnordered};
use helve_proto::peer::v1::{
    ForwardAnswer, ForwardBatch, ForwardCall, ForwardReply, forward_answer::Answer,
    rejected::Reason,
};
use prost::Message;
use tokio::{
    sync::{mpsc, oneshot},
    time::Instant,
};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::task::AbortOnDropHandle;

use crate::{
    attempt::{Attempt, Rejection, Timed},
    bounds,
    limits::{FORWARD_BATCHES_MAX, FORWARD_BYTES_MAX, FORWARD_QUEUE_MAX},
    raft::Consensus,
    traces::Trace,
};

struct Sent {
    timed: Timed,
    reply: oneshot::Sender<Attempt>,
}

/// Carries commands to the leader. Cheap to clone.
#[derive(Clone)]
pub struct Forwarder {
    consensus: Consensus,
    links: Arc<Mutex<BTreeMap<u64, Link>>>,
}

struct Link {
    uuid: String,
    address: String,
    queue: mpsc::Sender<Vec<Sent>>,
    _connected: AbortOnDropHandle<()>,
}

impl Forwarder {
    /// A forwarder that connects to peers when it first needs them.
    #[must_use]
    pub fn new(consensus: Consensus) -> Self {
        Self {
            consensus,
            links: Arc::default(),
        }
    }

    /// Sends commands to the node that leads. What becomes of each comes as soon as it is known, with its place among them: one that waits
    /// there for its turn holds up no other.
    pub fn forward(
        &self,
        leader: u64,
        commands: Vec<Timed>,
    ) -> FuturesUnordered<impl Future<Output = (usize, Attempt)> + Send + use<>> {
        let mut spans = Vec::with_capacity(commands.len());
        let (sent, answers): (Vec<_>, Vec<_>) = commands
            .into_iter()
            .map(|mut timed| {
                let trace = timed.trace.take();
                let span = trace.and_then(|trace| trace.request("forward"));
                timed.trace = span.as_ref().map(|span| span.trace().clone());
                spans.push(span);
                Sent::new(timed)
            })
            .unzip();
        let rejected = send(self.link(leader).as_ref(), sent).err();
        let attempts = answers.into_iter().zip(spans).enumerate().map(
            move |(at, (answer, span))| async move {
                let _until_answered = span;
                let attempt = match rejected {
                    None => answer.await.unwrap_or_else(|_| {
                        Attempt::Unknown("the connection to the leader was lost".to_owned())
                    }),
                    Some(rejection) => Attempt::Rejected(rejection),
                };
                (at, attempt)
            },
        );
        attempts.collect()
    }

    fn link(&self, leader: u64) -> Option<mpsc::Sender<Vec<Sent>>> {
        let members = self.consensus.members();
        let node = members.member(leader)?;
        let address = self.consensus.peer_address(leader)?;
        let mut links = self.links.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(link) = links.get(&leader)
            && link.uuid == node.uuid
            && link.address == address
            && !link.queue.is_closed()
        {
            return Some(link.queue.clone());
        }
        let (queue, queued) = mpsc::channel(FORWARD_QUEUE_MAX);
        let connected = run(
            self.consensus.clone(),
            leader,
            node.uuid.clone(),
            address.clone(),
            queued,
        );
        let connected = AbortOnDropHandle::new(tokio::spawn(connected));
        links.insert(
            leader,
            Link {
                uuid: node.uuid.clone(),
                address,
                queue: queue.clone(),
                _connected: connected,
            },
        );
        Some(queue)
    }
}

impl Sent {
    fn new(timed: Timed) -> (Self, oneshot::Receiver<Attempt>) {
        let (reply, answer) = oneshot::channel();
        (Self { timed, reply }, answer)
    }
}

/// Queues a batch for the connection to the leader, if there is one: as a whole, so that it is not in more messages than it needs. The
/// leader bounds those that it has under way.
fn send(queue: Option<&mpsc::Sender<Vec<Sent>>>, batch: Vec<Sent>) -> Result<(), Rejection> {
    let queue = queue.ok_or(Rejection::NotLeading)?;
    queue.try_send(batch).map_err(|error| match error {
        mpsc::error::TrySendError::Full(_) => Rejection::Overloaded(bounds::QUEUED_COMMANDS),
        // The connection has just ended; the next attempt makes another.
        mpsc::error::TrySendError::Closed(_) => Rejection::NotLeading,
    })
}

/// Commands that were sent and not answered yet.
type Waiting = HashMap<u64, oneshot::Sender<Attempt>>;

/// One connection's life. When it ends, what was sent is unknown, and the next command makes a new one.
async fn run(
    consensus: Consensus,
    leader: u64,
    uuid: String,
    address: String,
    mut queued: mpsc::Receiver<Vec<Sent>>,
) {
    let mut client = consensus.identity().dialler().client(&address);
    let (batches, outgoing) = mpsc::channel::<ForwardBatch>(FORWARD_BATCHES_MAX);
    let connecting = client.forward(ReceiverStream::new(outgoing));
    let mut replies = match connecting.await {
        Ok(replies) => replies.into_inner(),
        Err(status) => {
            tracing::debug!(leader, %status, "the leader cannot be reached");
            reject_queued(&mut queued);
            return;
        }
    };
    let header = consensus.identity().header(leader, &uuid);
    let mut waiting = Waiting::new();
    let mut next_id = 0;
    let (mut arrived, mut buffer) = (Vec::new(), Vec::new());
    loop {
        tokio::select! {
            reply = replies.next() => match reply {
                Some(Ok(reply)) => settle(&mut waiting, reply),
                Some(Err(status)) => {
                    tracing::debug!(leader, %status, "the connection to the leader broke");
                    break;
                }
                None => break,
            },
            permit = batches.reserve(), if !buffer.is_empty() => {
                let Ok(permit) = permit else { break };
                let calls = number(&mut buffer, &mut next_id, &mut waiting);
                if !calls.is_empty() {
                    permit.send(ForwardBatch { header: Some(header.clone()), calls });
                }
            }
            received = queued.recv_many(&mut arrived, FORWARD_QUEUE_MAX), if buffer.is_empty() => {
                if received == 0 {
                    break;
                }
                buffer.extend(arrived.drain(..).flatten());
            }
        }
    }
    queued.close();
    // Nothing of the buffer was sent.
    for sent in buffer {
        let _ = sent.reply.send(Attempt::Rejected(Rejection::NotLeading));
    }
    reject_queued(&mut queued);
}

fn reject_queued(queued: &mut mpsc::Receiver<Vec<Sent>>) {
    queued.close();
    while let Ok(batch) = queued.try_recv() {
        for sent in batch {
            // A caller that has gone away wants no answer.
            let _ = sent.reply.send(Attempt::Rejected(Rejection::NotLeading));
        }
    }
}

/// Takes what fits one message; the rest waits for the next. A command whose caller has gone is not sent.
fn number(buffer: &mut Vec<Sent>, next_id: &mut u64, waiting: &mut Waiting) -> Vec<ForwardCall> {
    let now = Instant::now();
    let mut bytes = 0;
    let fits = |sent: &&Sent| {
        bytes += sent.timed.command.encoded_len();
        bytes <= FORWARD_BYTES_MAX
    };
    let count = buffer.iter().take_while(fits).count().max(1);
    let number = |sent: Sent| {
        let Timed {
            command,
            deadline,
            trace,
        } = sent.timed;
        let timeout_ms = deadline.saturating_duration_since(now).as_millis();
        if timeout_ms == 0 {
            // A caller that has gone away wants no answer.
            let late = Rejection::Overloaded(bounds::QUEUED_COMMANDS);
            let _ = sent.reply.send(Attempt::Rejected(late));
            return None;
        }
        *next_id += 1;
        waiting.insert(*next_id, sent.reply);
        Some(ForwardCall {
            correlation_id: *next_id,
            timeout_ms: u32::try_from(timeout_ms).unwrap_or(u32::MAX),
            command: Some(command),
            span: trace.as_ref().map(Trace::to_forward),
        })
    };
    buffer
        .drain(..count.min(buffer.len()))
        .filter_map(number)
        .collect()
}

fn settle(waiting: &mut Waiting, reply: ForwardReply) {
    for ForwardAnswer {
        correlation_id,
        answer,
    } in reply.answers
    {
        let Some(reply) = waiting.remove(&correlation_id) else {
            tracing::warn!(correlation_id, "an answer to no call");
            continue;
        };
        let attempt = match answer {
            Some(Answer::Outcome(outcome)) => Attempt::Outcome(outcome),
            Some(Answer::Rejected(rejected)) => Attempt::Rejected(rejection(rejected.reason())),
            Some(Answer::Unknown(why)) => Attempt::Unknown(why),
            None => Attempt::Unknown("an answer that this version does not know".to_owned()),
        };
        // A caller that has gone away wants no answer.
        let _ = reply.send(attempt);
    }
}

fn rejection(reason: Reason) -> Rejection {
    match reason {
        // A leader refuses what others forwarded for its log alone.
        Reason::Overloaded => Rejection::Overloaded(bounds::LOG_QUEUED_BYTES),
        Reason::DiskFull => Rejection::DiskFull,
        Reason::WriteRate => Rejection::WriteRate,
        Reason::AuditFailing => Rejection::Unrecorded,
        // The leader is going: another one will take the command.
        Reason::Stopping | Reason::NotLeader | Reason::Unspecified => Rejection::NotLeading,
    }
}

/// Reads a reply to four forwarded calls.
///
/// # Panics
/// If a call is answered that it does not name, or the other way round.
#[cfg(any(test, fuzzing))]
pub fn forward_reply(bytes: &[u8]) {
    use prost::Message as _;

    let Ok(reply) = ForwardReply::decode(bytes) else {
        return;
    };
    let again = ForwardReply::decode(reply.encode_to_vec().as_slice());
    assert_eq!(again.as_ref(), Ok(&reply));
    let (mut waiting, mut answered) = (Waiting::new(), Vec::new());
    for id in 1..=4 {
        let (reply, answer) = oneshot::channel();
        waiting.insert(id, reply);
        answered.push((id, answer));
    }
    let named = |id| reply.answers.iter().any(|it| it.correlation_id == id);
    let named: Vec<_> = (1..=4).map(named).collect();
    settle(&mut waiting, reply);
    for ((id, mut answer), named) in answered.into_iter().zip(named) {
        assert_eq!(answer.try_recv().is_ok(), named, "call {id}");
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use helve_proto::peer::v1::Rejected;

    use super::*;
    use crate::properties::{bytes_like, check};

    fn sent(deadline: Instant) -> (Sent, oneshot::Receiver<Attempt>) {
        Sent::new(Timed {
            command: Box::default(),
            deadline,
            trace: None,
        })
    }

    #[test]
    fn batch_is_queued_as_a_whole_or_refused() {
        let (queue, mut queued) = mpsc::channel(1);
        let batch = || vec![sent(Instant::now()).0, sent(Instant::now()).0];
        assert_eq!(send(None, batch()), Err(Rejection::NotLeading));
        assert_eq!(send(Some(&queue), batch()), Ok(()));
        assert_eq!(
            send(Some(&queue), batch()),
            Err(Rejection::Overloaded(bounds::QUEUED_COMMANDS))
        );
        assert_eq!(queued.try_recv().map(|batch| batch.len()).ok(), Some(2));
        drop(queued);
        assert_eq!(send(Some(&queue), batch()), Err(Rejection::NotLeading));
    }

    #[tokio::test]
    async fn each_command_is_sent_with_the_time_that_it_has_left_and_not_at_all_without() {
        let now = Instant::now();
        let (late, late_answer) = sent(now);
        let (short, _short_answer) = sent(now + Duration::from_secs(60));
        let (long, _long_answer) = sent(now + Duration::from_secs(3_600));
        let mut waiting = Waiting::new();
        let calls = number(&mut vec![late, short, long], &mut 0, &mut waiting);
        let answered = late_answer.await;
        assert!(matches!(
            answered,
            Ok(Attempt::Rejected(Rejection::Overloaded(_)))
        ));
        let [short, long] = calls.as_slice() else {
            panic!("not two calls: {calls:?}");
        };
        assert!((1..=60_000).contains(&short.timeout_ms));
        assert!((60_001..=3_600_000).contains(&long.timeout_ms));
        assert_eq!(waiting.len(), 2);
    }

    #[test]
    fn reason_of_a_newer_leader_is_taken_for_not_leading() {
        let newer = Rejected {
            reason: i32::MAX,
            leader_id: 2,
        };
        assert_eq!(rejection(newer.reason()), Rejection::NotLeading);
        assert_eq!(rejection(Reason::AuditFailing), Rejection::Unrecorded);
    }

    #[test]
    fn answers_that_a_peer_makes_up_are_each_for_one_call_or_for_none() {
        let answer = |correlation_id, answer| ForwardAnswer {
            correlation_id,
            answer,
        };
        let rejected = Rejected {
            reason: Reason::DiskFull.into(),
            leader_id: 2,
        };
        let answers = vec![
            answer(1, Some(Answer::Outcome(Box::default()))),
            answer(2, Some(Answer::Rejected(rejected))),
            answer(3, Some(Answer::Unknown("lost".to_owned()))),
            answer(4, None),
        ];
        let real = ForwardReply { answers }.encode_to_vec();
        check(&bytes_like(vec![real]), |bytes| {
            forward_reply(&bytes);
            Ok(())
        });
    }
}
