//! Answers that are not what the cluster said.

use helve_client::v1::{RecordInfo, exchange_answer::Answer, transact_reply::Result as Came};

use crate::history::{Event, Outcome, Reply};

/// Falsifies an answer so that it shows: a value that no client wrote, or an index that is
/// another's. False if it has none.
pub(super) fn falsify(event: &mut Event) -> bool {
    let info = match &mut event.outcome {
        Outcome::Answered(Reply::Handles(parts)) => {
            let mut rows = parts.iter_mut().flat_map(|part| &mut part.handles);
            rows.next().and_then(|row| row.info.as_mut())
        }
        Outcome::Answered(Reply::Keys(parts)) => {
            let mut rows = parts.iter_mut().flat_map(|part| &mut part.records);
            rows.next().and_then(|row| row.info.as_mut())
        }
        Outcome::Answered(Reply::Answer(answer)) => return falsify_answer(answer),
        Outcome::Failed { .. } | Outcome::Open => None,
    };
    info.is_some_and(|info| {
        info.value_bytes += 1_000;
        true
    })
}

fn falsify_answer(answer: &mut Answer) -> bool {
    let value = match answer {
        Answer::Count(reply) => {
            reply.live += 1_000;
            return true;
        }
        Answer::Put(reply) => return falsify_revision(reply.info.as_mut()),
        Answer::Store(reply) => return falsify_revision(reply.info.as_mut()),
        Answer::BatchStore(reply) => return falsify_revision(reply.infos.first_mut()),
        Answer::Transact(reply) => {
            let Some(Came::Committed(committed)) = &mut reply.result else {
                return false;
            };
            // The last operation is always a write.
            let last = committed.replies.last_mut();
            return falsify_revision(last.and_then(|reply| reply.info.as_mut()));
        }
        Answer::Get(reply) => reply.info.is_some().then_some(&mut reply.value),
        Answer::Take(reply) => reply.info.is_some().then_some(&mut reply.value),
        Answer::Retrieve(reply) => reply.record.as_mut().map(|record| &mut record.value),
        Answer::BatchRetrieve(reply) => {
            let mut records = reply.keys.iter_mut().map(|key| key.record.as_mut());
            let record = records.find_map(|record| record);
            record.map(|record| &mut record.value)
        }
        _ => None,
    };
    value.is_some_and(|value| {
        *value = "from nowhere".into();
        true
    })
}

fn falsify_revision(info: Option<&mut RecordInfo>) -> bool {
    info.is_some_and(|info| {
        info.revision += 1;
        true
    })
}
