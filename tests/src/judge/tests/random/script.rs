//! Histories of clients that call side by side, and of a cluster that does what the model does, or one thing wrong.

use helve_client::{
    ErrorKind,
    v1::{CountRequest, Lifetime, ListKeysRequest, ListRequest, exchange_call::Call},
};
use proptest::{collection::vec, prelude::*};

use super::planted::{Plant, plant};
use crate::{
    history::{Event, Outcome, Request},
    judge::tests::history_builder::{
        HistoryBuilder, STORE, after, batch, batch_retrieve, checkout, checkout_if, delete,
        delete_key, exists, failed, get, keep, mint, name, put, put_for, renew, retrieve, store,
        take, take_if, tidy, transfer,
    },
    model::{Model, Name, parts},
};

pub(super) const CLIENTS: usize = 4;
/// Kinds of calls.
pub(super) const CALLS: u8 = 26;

/// What happens next: a client begins a call, or the call that it has under way goes on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Step {
    pub(super) client: usize,
    pub(super) call: u8,
    pub(super) record: u8,
    /// What becomes of the call: 0 is lost before it is done, 1 after, 2 never returns.
    pub(super) luck: u8,
    /// Milliseconds that pass.
    pub(super) ms: u64,
}

/// Steps of a history in which one call in eight has no luck, or half of them, or hardly any.
pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    prop::sample::select(vec![24_u8, 6, 100]).prop_flat_map(|lucks| {
        let step = (0..CLIENTS, 0..CALLS, 0..3_u8, 0..lucks, 0..12_u64);
        let step = step.prop_map(|(client, call, record, luck, ms)| Step {
            client,
            call,
            record,
            luck,
            ms,
        });
        vec(step, 1..160)
    })
}

/// A call under way.
struct UnderWay {
    event: usize,
    luck: u8,
    done: Option<Outcome>,
}

/// What a step asks for. No two of them write the same.
fn request(history: &HistoryBuilder, step: Step) -> Request {
    let record = usize::from(step.record);
    let (id, key) = (["a", "b", "c"][record], ["k", "l", "m"][record]);
    let (other_id, other_key) = (["b", "c", "a"][record], ["l", "m", "k"][record]);
    let value = format!("value {}", history.events.len());
    let value = value.as_str();
    let guess = history.index.saturating_sub(u64::from(step.luck));
    // What the caller may have read, or would have.
    let at = |name: &Name| history.model.cell(name).row().map_or(0, |row| row.revision);
    let (of_id, of_other) = (at(&name(id)), at(&name(other_id)));
    let of_key = at(&Name::key("", key));
    let idle = Lifetime {
        absolute: None,
        idle_ttl_ms: Some(50),
    };
    let call = match step.call {
        0 => put(id, value, None),
        1 => put(id, value, Some(guess)),
        2 => put_for(id, value, after(60)),
        3 => put_for(id, value, idle),
        4 => take(id),
        5 => delete(id),
        6 => renew(id, 80),
        7 => mint(value, Some(90)),
        8 => store(key, value, Some(guess)),
        9 => batch(&[("k", value), ("l", &format!("{value}, too"))]),
        10 => checkout(id, key, value),
        11 => Call::Count(CountRequest {
            store: STORE.into(),
            owner: None,
        }),
        12 | 13 => {
            return Request::ListHandles(ListRequest {
                store: STORE.into(),
                with_values: step.call == 12,
                ..ListRequest::default()
            });
        }
        14 => {
            return Request::ListKeys(ListKeysRequest {
                with_values: step.record > 0,
                ..ListKeysRequest::default()
            });
        }
        15 => put(id, value, Some(of_id)),
        16 => store(key, value, Some(of_key)),
        17 => take_if(id, of_id),
        18 => delete_key(key),
        19 => transfer([(id, of_id), (other_id, of_other)], value),
        20 => checkout_if(id, of_id, key, value),
        21 => tidy(id, key, other_key, value),
        22 => put_for(id, value, keep()),
        23 => batch_retrieve(&["k", "l", "m"]),
        24 => exists(key),
        _ => match step.record {
            0 => get(id),
            1 => retrieve(key),
            _ => get(other_id),
        },
    };
    Request::Call(call)
}

/// The cluster does what was asked, at some time between invocation and return.
pub(super) fn carry_out(history: &mut HistoryBuilder, request: &Request) -> Outcome {
    if let Some(call) = mutation(request) {
        return history.effect(call);
    }
    if let Request::Call(Call::Get(get)) = request {
        renew_if_due(history, &get.id);
    }
    history.view(request)
}

/// The call, if it changes something.
pub(super) fn mutation(request: &Request) -> Option<&Call> {
    match request {
        Request::Call(call) => Some(call).filter(|call| !parts(call).is_empty()),
        Request::ListHandles(_) | Request::ListKeys(_) => None,
    }
}

/// A get commits a renewal if at most one idle time is left.
fn renew_if_due(history: &mut HistoryBuilder, id: &str) {
    let (name, clock_ms) = (name(id), history.clock_ms);
    let cell = history.model.cell(&name);
    let Some((ttl_ms, idle)) = cell
        .row()
        .and_then(|row| row.idle_ttl_ms.zip(row.idle_deadline_ms))
    else {
        return;
    };
    if clock_ms < idle.from && idle.from - clock_ms <= ttl_ms {
        history.model.touch(&name, clock_ms);
        history.index += 1;
    }
}

/// The history of these steps, and at its end a look at every record.
pub(super) fn history(steps: &[Step]) -> Vec<Event> {
    planted(steps, None)
}

/// As it is if the cluster does one thing wrong: the call that is carried out as the so-manieth.
pub(super) fn planted(steps: &[Step], bug: Option<(usize, Plant)>) -> Vec<Event> {
    let mut history = HistoryBuilder::new();
    let mut under_way: [Option<UnderWay>; CLIENTS] = Default::default();
    let (mut carried_out, mut past) = (0, Model::default());
    for step in steps {
        history.now_ns += 1 + step.ms * 1_000_000;
        history.clock_ms += step.ms;
        // The clock moves by entries alone: this one is no client's.
        history.index += 1;
        let slot = &mut under_way[step.client];
        match slot.take() {
            None => *slot = Some(begin(&mut history, *step)),
            Some(mut call) if call.done.is_none() => {
                let request = history.events[call.event].request.clone();
                let before = bug.map(|_| history.model.clone());
                call.done = Some(match (call.luck, bug) {
                    (0, _) => failed(ErrorKind::Ambiguous),
                    (_, Some((number, bug))) if number == carried_out => {
                        plant(&mut history, &request, bug, &past)
                    }
                    _ => carry_out(&mut history, &request),
                });
                carried_out += usize::from(call.luck > 0);
                if mutation(&request).is_some() {
                    past = before.unwrap_or_default();
                }
                *slot = Some(call);
            }
            Some(call) if call.luck == 2 => {}
            Some(call) => end(&mut history, call),
        }
    }
    for call in under_way.into_iter().flatten() {
        if call.done.is_some() && call.luck != 2 {
            end(&mut history, call);
        }
    }
    look_at_all(&mut history);
    history.events
}

fn look_at_all(history: &mut HistoryBuilder) {
    for (id, key) in [("a", "k"), ("b", "l"), ("c", "m")] {
        renew_if_due(history, id);
        history.read(get(id));
        history.read(retrieve(key));
    }
    history.list();
}

fn begin(history: &mut HistoryBuilder, step: Step) -> UnderWay {
    let request = request(history, step);
    let event = history.tell(request, Outcome::Open);
    history.events[event].client = step.client as u64;
    UnderWay {
        event,
        luck: step.luck,
        done: None,
    }
}

fn end(history: &mut HistoryBuilder, call: UnderWay) {
    let now_ns = history.now_ns;
    let event = &mut history.events[call.event];
    event.returned_ns = Some(now_ns);
    event.outcome = match call.luck {
        0 | 1 if event.is_mutation() => failed(ErrorKind::Ambiguous),
        0 => failed(ErrorKind::Unavailable),
        _ => call.done.expect("a call ends when it was carried out"),
    };
}
