//! What replies say: of which view they are, which records they show, and what became of each part of a request.

use bytes::Bytes;
use helve_client::v1::{
    HandleStatus, ListKeysReply, ListKeysRequest, ListReply, ListRequest, Operation, RecordInfo,
    ReplyHeader, WriteStatus, exchange_answer::Answer, exchange_call::Call,
    operation::Operation as Op, transact_reply::Result as Came,
};

use crate::{
    history::{Event, Outcome, Reply, Request},
    model::Name,
};

/// A record that a reply shows, alive.
#[derive(Debug, Clone)]
pub(super) struct Sighting<'a> {
    pub(super) name: Name,
    pub(super) info: &'a RecordInfo,
    /// Unless only the description was asked for.
    pub(super) value: Option<&'a Bytes>,
}

/// What a reply says of one part of its mutation.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Heard<'a> {
    /// It took effect.
    Done {
        /// Whether the record lived before, if that is said.
        existed: Option<bool>,
        info: Option<&'a RecordInfo>,
        value: Option<&'a Bytes>,
    },
    /// It did not, nor did any other part: the handle does not live.
    NotLive(HandleStatus),
    /// It would have taken effect, had a later part not failed.
    Ready,
    /// Evidence shows that it took effect; no reply says so.
    Shown,
}

/// The reply, if there was one.
pub(super) fn reply(event: &Event) -> Option<&Reply> {
    match &event.outcome {
        Outcome::Answered(reply) => Some(reply),
        Outcome::Failed { .. } | Outcome::Open => None,
    }
}

/// The headers of a reply: of a list, one a part.
pub(super) fn headers(reply: &Reply) -> Vec<Option<&ReplyHeader>> {
    match reply {
        Reply::Answer(answer) => vec![of_answer(answer)],
        Reply::Handles(parts) => parts.iter().map(|part| part.header.as_ref()).collect(),
        Reply::Keys(parts) => parts.iter().map(|part| part.header.as_ref()).collect(),
    }
}

/// Log index and replicated clock of the view that a reply is of, by its first part.
pub(super) fn view(event: &Event) -> Option<(u64, u64)> {
    let header = headers(reply(event)?).into_iter().next()??;
    Some((header.index, header.clock_ms))
}

fn of_answer(answer: &Answer) -> Option<&ReplyHeader> {
    match answer {
        Answer::Error(_) => None,
        Answer::Mint(reply) => reply.header.as_ref(),
        Answer::Put(reply) => reply.header.as_ref(),
        Answer::Get(reply) => reply.header.as_ref(),
        Answer::Take(reply) => reply.header.as_ref(),
        Answer::Renew(reply) => reply.header.as_ref(),
        Answer::Delete(reply) => reply.header.as_ref(),
        Answer::Claim(reply) => reply.header.as_ref(),
        Answer::Count(reply) => reply.header.as_ref(),
        Answer::Store(reply) => reply.header.as_ref(),
        Answer::Retrieve(reply) => reply.header.as_ref(),
        Answer::DeleteKey(reply) => reply.header.as_ref(),
        Answer::Exists(reply) => reply.header.as_ref(),
        Answer::BatchStore(reply) => reply.header.as_ref(),
        Answer::BatchRetrieve(reply) => reply.header.as_ref(),
        Answer::Transact(reply) => reply.header.as_ref(),
        Answer::OpenSession(reply) => reply.header.as_ref(),
    }
}

/// The rows of a list of handles, in the order of its parts.
pub(super) fn listed_handles<'a>(
    list: &'a ListRequest,
    parts: &'a [ListReply],
) -> impl Iterator<Item = Sighting<'a>> {
    let rows = parts.iter().flat_map(|part| &part.handles);
    rows.filter_map(move |row| {
        let info = row.info.as_ref()?;
        Some(Sighting {
            name: Name::handle(&list.store, &info.owner, &info.name),
            info,
            value: list.with_values.then_some(&row.value),
        })
    })
}

/// The rows of a list of keys, in the order of its parts.
pub(super) fn listed_keys<'a>(
    list: &'a ListKeysRequest,
    parts: &'a [ListKeysReply],
) -> impl Iterator<Item = Sighting<'a>> {
    let rows = parts.iter().flat_map(|part| &part.records);
    rows.filter_map(move |row| {
        let info = row.info.as_ref()?;
        Some(Sighting {
            name: Name::key(&info.owner, &info.name),
            info,
            value: list.with_values.then_some(&row.value),
        })
    })
}

/// The records that the reply to a read shows.
pub(super) fn sightings(event: &Event) -> Vec<Sighting<'_>> {
    let Some(reply) = reply(event) else {
        return Vec::new();
    };
    match (&event.request, reply) {
        (Request::ListHandles(list), Reply::Handles(parts)) => {
            listed_handles(list, parts).collect()
        }
        (Request::ListKeys(list), Reply::Keys(parts)) => listed_keys(list, parts).collect(),
        (Request::Call(call), Reply::Answer(answer)) => read(call, answer),
        _ => Vec::new(),
    }
}

fn read<'a>(call: &'a Call, answer: &'a Answer) -> Vec<Sighting<'a>> {
    match (call, answer) {
        (Call::Get(get), Answer::Get(reply)) => reply
            .info
            .iter()
            .map(|info| Sighting {
                name: Name::handle(&get.store, &get.owner, &get.id),
                info,
                value: Some(&reply.value),
            })
            .collect(),
        (Call::Retrieve(get), Answer::Retrieve(reply)) => {
            let records = reply.record.iter();
            records
                .filter_map(|record| {
                    Some(Sighting {
                        name: Name::key(&get.owner, &get.key),
                        info: record.info.as_ref()?,
                        value: Some(&record.value),
                    })
                })
                .collect()
        }
        (Call::BatchRetrieve(get), Answer::BatchRetrieve(reply)) => {
            let records = get.keys.iter().zip(&reply.keys);
            records
                .filter_map(|(key, found)| {
                    let record = found.record.as_ref()?;
                    Some(Sighting {
                        name: Name::key(&get.owner, key),
                        info: record.info.as_ref()?,
                        value: Some(&record.value),
                    })
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

/// What the reply to a mutation says of each of its parts; `None` for those after one that failed. `None` if it is the reply to
/// another request.
pub(super) fn heard<'a>(call: &Call, answer: &'a Answer) -> Option<Vec<Option<Heard<'a>>>> {
    let single = |heard| Some(vec![Some(heard)]);
    match (call, answer) {
        (Call::Mint(_), Answer::Mint(reply)) => single(done(Some(false), reply.info.as_ref())),
        (Call::Put(_), Answer::Put(reply)) => single(match reply.status() {
            WriteStatus::Expired => Heard::NotLive(HandleStatus::Expired),
            WriteStatus::Taken => Heard::NotLive(HandleStatus::Taken),
            status => done(existed(status), reply.info.as_ref()),
        }),
        (Call::Take(_), Answer::Take(reply)) => single(match reply.status() {
            HandleStatus::Live => Heard::Done {
                existed: Some(true),
                info: reply.info.as_ref(),
                value: Some(&reply.value),
            },
            status => Heard::NotLive(status),
        }),
        (Call::Renew(_), Answer::Renew(reply)) => single(match reply.status() {
            HandleStatus::Live => done(Some(true), reply.info.as_ref()),
            status => Heard::NotLive(status),
        }),
        (Call::Delete(_), Answer::Delete(reply)) => single(match reply.status() {
            HandleStatus::Live => done(Some(true), None),
            status => Heard::NotLive(status),
        }),
        (Call::Claim(_), Answer::Claim(_)) => Some(Vec::new()),
        (Call::Store(_), Answer::Store(reply)) => {
            single(done(existed(reply.status()), reply.info.as_ref()))
        }
        (Call::DeleteKey(_), Answer::DeleteKey(reply)) => single(done(Some(reply.existed), None)),
        (Call::BatchStore(call), Answer::BatchStore(reply)) => {
            let infos = (0..call.items.len()).map(|item| reply.infos.get(item));
            Some(infos.map(|info| Some(done(None, info))).collect())
        }
        (Call::Transact(call), Answer::Transact(reply)) => {
            transacted(&call.operations, reply.result.as_ref()?)
        }
        _ => None,
    }
}

fn done(existed: Option<bool>, info: Option<&RecordInfo>) -> Heard<'_> {
    Heard::Done {
        existed,
        info,
        value: None,
    }
}

/// A status that a write does not have says what no model does.
fn existed(status: WriteStatus) -> Option<bool> {
    match status {
        WriteStatus::Created => Some(false),
        WriteStatus::Replaced => Some(true),
        _ => None,
    }
}

fn transacted<'a>(operations: &[Operation], came: &'a Came) -> Option<Vec<Option<Heard<'a>>>> {
    Some(match came {
        Came::Committed(committed) => {
            if committed.replies.len() != operations.len() {
                return None;
            }
            let replies = operations.iter().zip(&committed.replies);
            replies
                .map(|(operation, reply)| {
                    let deletes = matches!(operation.operation, Some(Op::DeleteKey(_)));
                    Some(Heard::Done {
                        existed: existed(reply.status()).or(deletes.then_some(false)),
                        info: reply.info.as_ref(),
                        value: (!reply.value.is_empty()).then_some(&reply.value),
                    })
                })
                .collect()
        }
        Came::Aborted(aborted) => {
            let failed = usize::try_from(aborted.operation).ok()?;
            let part = |part: usize| match part.cmp(&failed) {
                std::cmp::Ordering::Less => Some(Heard::Ready),
                std::cmp::Ordering::Equal => Some(Heard::NotLive(aborted.status())),
                std::cmp::Ordering::Greater => None,
            };
            (0..operations.len()).map(part).collect()
        }
    })
}
