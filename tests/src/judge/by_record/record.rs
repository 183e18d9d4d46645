//! The model of the second judge: one record, as a value that is there, is not, or was taken.

use bytes::Bytes;
use helve_client::v1::HandleStatus;

/// What is stored under a name, as far as the second judge knows. A revision is what a reply called
/// it, not its place in the log.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) enum Held {
    #[default]
    Nothing,
    /// A value, and its revision if a reply said it.
    Value(Bytes, Option<u64>),
    Taken,
}

/// What one call does to the record, or sees of it.
#[derive(Debug, Clone)]
pub(super) enum Move {
    Wrote {
        value: Bytes,
        revision: Option<u64>,
        existed: Option<bool>,
        if_revision: Option<u64>,
    },
    /// Of a take: the value that it took.
    Took {
        value: Option<Bytes>,
        if_revision: Option<u64>,
    },
    Deleted {
        existed: Option<bool>,
        if_revision: Option<u64>,
    },
    /// A value was there, of which this was seen.
    Saw {
        value: Option<Bytes>,
        revision: u64,
    },
    /// No value was there, and why if that was said.
    SawNone(Option<HandleStatus>),
    SawSome,
    /// The revision was this one, 0 for none.
    Met(u64),
    /// This, at any time, or nothing: its outcome is unknown. It has no effect where it cannot be.
    Perhaps(Box<Move>),
}

/// One record.
#[derive(Debug, Clone)]
pub(super) struct Record;

impl porcupine_rs::Model for Record {
    type State = Held;
    type Op = Move;
    type Metadata = usize;

    fn init() -> Held {
        Held::Nothing
    }

    fn step(held: &Held, op: &Move) -> (bool, Held) {
        match after(held, op) {
            Some(next) => (true, next),
            None => (false, held.clone()),
        }
    }
}

/// What is there after the call, or `None` if it cannot have been so.
fn after(held: &Held, op: &Move) -> Option<Held> {
    let is_there = matches!(held, Held::Value(..));
    match op {
        Move::Perhaps(op) => Some(after(held, op).unwrap_or_else(|| held.clone())),
        Move::Wrote {
            value,
            revision,
            existed,
            if_revision,
        } => {
            let fits = existed.is_none_or(|existed| existed == is_there)
                && *held != Held::Taken
                && is_revision(held, *if_revision);
            fits.then(|| Held::Value(value.clone(), *revision))
        }
        Move::Took { value, if_revision } => {
            let Held::Value(there, _) = held else {
                return None;
            };
            let fits = value.as_ref().is_none_or(|value| value == there);
            (fits && is_revision(held, *if_revision)).then_some(Held::Taken)
        }
        Move::Deleted {
            existed,
            if_revision,
        } => {
            let fits = existed.is_none_or(|existed| existed == is_there)
                && *held != Held::Taken
                && is_revision(held, *if_revision);
            fits.then_some(Held::Nothing)
        }
        Move::Saw { value, revision } => {
            let Held::Value(there, _) = held else {
                return None;
            };
            let fits = value.as_ref().is_none_or(|value| value == there);
            (fits && is_revision(held, Some(*revision))).then(|| held.clone())
        }
        Move::SawNone(status) => {
            let fits = match status {
                Some(HandleStatus::Taken) => *held == Held::Taken,
                Some(HandleStatus::Unknown) => *held == Held::Nothing,
                Some(_) => false,
                None => !is_there,
            };
            fits.then(|| held.clone())
        }
        Move::SawSome => is_there.then(|| held.clone()),
        Move::Met(revision) => is_revision(held, Some(*revision)).then(|| held.clone()),
    }
}

/// Whether the revision is this one, as far as it is known.
fn is_revision(held: &Held, expected: Option<u64>) -> bool {
    match (held, expected) {
        (_, None) | (Held::Value(_, None), Some(1..)) => true,
        (Held::Value(_, revision), Some(_)) => *revision == expected,
        (Held::Nothing | Held::Taken, Some(revision)) => revision == 0,
    }
}
