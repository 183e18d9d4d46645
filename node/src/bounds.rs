//! What each owner may take up on one node: the one table of budgets, their defaults and their names.
//!
//! A bound is named after its owner and what it counts: `principal-answer-bytes`. `helve serve --bound` sets it, and the metrics
//! `helve_budget_used` and `helve_budget_limit` show it. `docs/limits.md` says what a caller hears at each. The defaults fit
//! a node of 1 GiB of memory: all budgets of bytes together are less than half of that.

mod names;

use std::{fmt, str::FromStr, time::Duration};

pub(crate) use self::names::*;

/// Who takes up what is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OwnerKind {
    /// All tenants' callers together.
    Node,
    /// All callers of one tenant.
    Tenant,
    /// One caller of a tenant, by the name in its token.
    Principal,
    /// One address, on a node that asks for no credentials.
    Address,
    /// All operators together, beside the tenants.
    Operators,
    /// All requests of which no credential is known, beside the tenants.
    Strangers,
    /// Of these, the requests of one address.
    Stranger,
}

/// What is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum What {
    /// Bytes of messages from their first byte until their calls are answered, by the larger of wire size and decoded size.
    RequestBytes,
    /// Bytes of values in answers, from before they are read until they have left the node.
    AnswerBytes,
    /// Bytes of answers without values over streams of Exchange, as they are encoded, from before they are queued until they have left
    /// the node. Apart from values, for which room is taken before a call is carried out: its small answers must not wait for it.
    ReplyBytes,
    /// Calls that are carried out, unary and exchanged.
    Calls,
    /// HTTP/2 streams from their headers until their answer has left the node.
    Streams,
    /// Of these, streams that carry many messages: Exchange and reflection.
    Exchanges,
    /// Lists.
    Lists,
    /// Watches.
    Watches,
}

/// Every owner.
pub const OWNERS: [OwnerKind; 7] = [
    OwnerKind::Node,
    OwnerKind::Tenant,
    OwnerKind::Principal,
    OwnerKind::Address,
    OwnerKind::Operators,
    OwnerKind::Strangers,
    OwnerKind::Stranger,
];

/// Everything that is counted.
pub const WHATS: [What; 8] = [
    What::RequestBytes,
    What::AnswerBytes,
    What::ReplyBytes,
    What::Calls,
    What::Streams,
    What::Exchanges,
    What::Lists,
    What::Watches,
];

impl OwnerKind {
    /// Its name in bounds and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Tenant => "tenant",
            Self::Principal => "principal",
            Self::Operators => "operators",
            Self::Address => "address",
            Self::Strangers => "strangers",
            Self::Stranger => "stranger",
        }
    }
}

impl What {
    /// Its name in bounds and metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::RequestBytes => "request-bytes",
            Self::AnswerBytes => "answer-bytes",
            Self::ReplyBytes => "reply-bytes",
            Self::Calls => "calls",
            Self::Streams => "streams",
            Self::Exchanges => "exchanges",
            Self::Lists => "lists",
            Self::Watches => "watches",
        }
    }
}

/// The bounds of one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bounds {
    /// By owner and by what is counted, in the order of [`OWNERS`] and [`WHATS`].
    budgets: [[usize; WHATS.len()]; OWNERS.len()],
    /// How long a stream of Exchange or reflection may go without a message while nothing of it is under way; then it ends.
    pub exchange_idle: Duration,
    /// How long a message may take to arrive whole; see [`crate::limits::MESSAGE_TIME_MAX`].
    pub message_time: Duration,
    /// The same, of a caller of whom no credential is known.
    pub stranger_message_time: Duration,
    /// Bytes that one message may take up once it is decoded.
    pub decoded_bytes: usize,
}

const MIB: usize = 1 << 20;

impl Default for Bounds {
    fn default() -> Self {
        Self {
            // In the order of WHATS: bytes of requests, answers and replies, calls, streams, exchanges, lists, watches.
            budgets: [
                [96 * MIB, 96 * MIB, 32 * MIB, 4_096, 8_192, 2_048, 64, 256],
                [48 * MIB, 48 * MIB, 16 * MIB, 2_048, 4_096, 1_024, 32, 128],
                [24 * MIB, 24 * MIB, 8 * MIB, 1_024, 2_048, 512, 16, 64],
                [96 * MIB, 96 * MIB, 32 * MIB, 4_096, 8_192, 2_048, 64, 256],
                [24 * MIB, 24 * MIB, 8 * MIB, 256, 512, 64, 16, 16],
                [4 * MIB, 4 * MIB, MIB, 256, 1_024, 1, 1, 1],
                [MIB / 4, MIB / 4, MIB / 16, 32, 128, 1, 1, 1],
            ],
            exchange_idle: Duration::from_secs(300),
            message_time: crate::limits::MESSAGE_TIME_MAX,
            stranger_message_time: Duration::from_secs(5),
            decoded_bytes: 16 * MIB,
        }
    }
}

impl Bounds {
    /// How much of this an owner may take up.
    #[must_use]
    pub fn of(&self, owner: OwnerKind, what: What) -> usize {
        self.budgets[owner as usize][what as usize]
    }

    /// Sets one bound.
    pub fn set(&mut self, setting: Setting) {
        let milliseconds = Duration::from_millis(setting.value as u64);
        match setting.bound {
            Bound::Budget(owner, what) => {
                self.budgets[owner as usize][what as usize] = setting.value;
            }
            Bound::ExchangeIdle => self.exchange_idle = milliseconds,
            Bound::MessageTime => self.message_time = milliseconds,
            Bound::StrangerMessageTime => self.stranger_message_time = milliseconds,
            Bound::DecodedBytes => self.decoded_bytes = setting.value,
        }
    }

    /// The names of all bounds, and what they are set to.
    #[must_use]
    pub fn all(&self) -> Vec<(String, usize)> {
        let budgets = OWNERS
            .into_iter()
            .flat_map(|owner| WHATS.map(|what| (name(owner, what), self.of(owner, what))));
        let ms = |time: Duration| usize::try_from(time.as_millis()).unwrap_or(usize::MAX);
        let others = [
            (EXCHANGE_IDLE, ms(self.exchange_idle)),
            (MESSAGE_TIME, ms(self.message_time)),
            (STRANGER_MESSAGE_TIME, ms(self.stranger_message_time)),
            (DECODED_BYTES, self.decoded_bytes),
        ];
        let others = others.map(|(name, value)| (name.to_owned(), value));
        budgets.chain(others).collect()
    }
}

/// Why a message, or a stream without one, was given up at a bound that is no budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum GivenUp {
    /// It did not arrive whole in time.
    Late,
    /// It has too many elements, or takes too much when it is decoded.
    TooLarge,
    /// Its length says more bytes than a message may have: it is refused unread.
    OverLength,
    /// The head of its request takes more bytes than a head may have.
    LongHead,
    /// It cannot be decoded.
    Malformed,
    /// Nothing came over a stream of Exchange or reflection for too long.
    Idle,
}

/// Every reason to give a message up.
pub const GIVEN_UP: [GivenUp; 6] = [
    GivenUp::Late,
    GivenUp::TooLarge,
    GivenUp::OverLength,
    GivenUp::LongHead,
    GivenUp::Malformed,
    GivenUp::Idle,
];

impl GivenUp {
    /// Its name in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Late => "late",
            Self::TooLarge => "too-large",
            Self::OverLength => "over-length",
            Self::LongHead => "long-head",
            Self::Malformed => "malformed",
            Self::Idle => "idle",
        }
    }
}

/// What callers take up now, and what was refused.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Load {
    /// How full each budget is.
    pub budgets: Vec<Fullness>,
    /// How many messages were given up, and why.
    pub given_up: Vec<(GivenUp, u64)>,
    /// How full the bounds are that are no owner's budget.
    pub others: Vec<(&'static str, Shared)>,
}

/// How full a bound is that all callers of the node share.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shared {
    /// How much is taken: bytes, or how many.
    pub used: usize,
    /// How much there is.
    pub limit: usize,
    /// How often something was refused, or given up for others.
    pub refused: u64,
}

/// How full a budget is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fullness {
    /// Whose it is: of tenants, principals and addresses the one that has most of it.
    pub owner: OwnerKind,
    /// What is counted.
    pub what: What,
    /// How much is taken.
    pub used: usize,
    /// How much there is.
    pub limit: usize,
    /// How often something was refused for it.
    pub refused: u64,
}

const EXCHANGE_IDLE: &str = "exchange-idle-ms";
const MESSAGE_TIME: &str = "message-ms";
const STRANGER_MESSAGE_TIME: &str = "strangers-message-ms";
const DECODED_BYTES: &str = "message-decoded-bytes";

/// The name of a budget.
#[must_use]
pub fn name(owner: OwnerKind, what: What) -> String {
    format!("{}-{}", owner.name(), what.name())
}

/// What a setting is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Bound {
    Budget(OwnerKind, What),
    ExchangeIdle,
    MessageTime,
    StrangerMessageTime,
    DecodedBytes,
}

/// One bound as an operator sets it: `NAME=NUMBER`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Setting {
    bound: Bound,
    value: usize,
}

/// A setting that names no bound, or no number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BadSetting {
    /// There is no such bound.
    NoBound(String),
    /// It is not `NAME=NUMBER`, or the number is 0.
    NoNumber(String),
}

impl fmt::Display for BadSetting {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoBound(name) => {
                let known = Bounds::default().all();
                let known: Vec<_> = known.into_iter().map(|(name, _)| name).collect();
                write!(
                    formatter,
                    "there is no bound `{name}`; the bounds are {}",
                    known.join(", ")
                )
            }
            Self::NoNumber(text) => write!(
                formatter,
                "`{text}` is not NAME=NUMBER with a number of at least 1"
            ),
        }
    }
}

impl std::error::Error for BadSetting {}

impl FromStr for Setting {
    type Err = BadSetting;

    fn from_str(text: &str) -> Result<Self, BadSetting> {
        let bad = || BadSetting::NoNumber(text.to_owned());
        let (named, number) = text.split_once('=').ok_or_else(bad)?;
        let value = number.parse().ok().filter(|value| *value > 0);
        let budgets = OWNERS
            .into_iter()
            .flat_map(|owner| WHATS.map(|what| (owner, what)));
        let bound = match named {
            EXCHANGE_IDLE => Some(Bound::ExchangeIdle),
            MESSAGE_TIME => Some(Bound::MessageTime),
            STRANGER_MESSAGE_TIME => Some(Bound::StrangerMessageTime),
            DECODED_BYTES => Some(Bound::DecodedBytes),
            _ => budgets
                .into_iter()
                .find(|(owner, what)| name(*owner, *what) == named)
                .map(|(owner, what)| Bound::Budget(owner, what)),
        };
        Ok(Self {
            bound: bound.ok_or_else(|| BadSetting::NoBound(named.to_owned()))?,
            value: value.ok_or_else(bad)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bound_is_set_by_its_name() {
        let defaults = Bounds::default();
        for (at, (name, value)) in defaults.all().into_iter().enumerate() {
            let setting: Setting = format!("{name}={}", value + 1).parse().unwrap();
            let mut bounds = defaults.clone();
            bounds.set(setting);
            let mut expected = defaults.all();
            expected[at].1 += 1;
            assert_eq!(bounds.all(), expected, "{name}");
        }
    }

    #[test]
    fn setting_that_names_no_bound_or_no_number_is_refused() {
        for (text, is_no_bound) in [
            ("principal-streams", false),
            ("principal-streams=", false),
            ("principal-streams=0", false),
            ("principal-streams=-1", false),
            ("principal-stream=1", true),
            ("=1", true),
        ] {
            let refused = text.parse::<Setting>().unwrap_err();
            let was_no_bound = matches!(refused, BadSetting::NoBound(_));
            assert_eq!(was_no_bound, is_no_bound, "{text}: {refused}");
        }
    }

    #[test]
    fn default_bytes_fit_half_a_node_of_one_gibibyte() {
        let bounds = Bounds::default();
        let roots = [OwnerKind::Node, OwnerKind::Operators, OwnerKind::Strangers];
        let bytes = [What::RequestBytes, What::AnswerBytes, What::ReplyBytes];
        let all = roots
            .into_iter()
            .flat_map(|root| bytes.map(|what| bounds.of(root, what)));
        assert!(all.sum::<usize>() < 512 * MIB);
    }
}
