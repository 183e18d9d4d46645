//! The language of the stories: a line is a call, `->`, and its outcome.
//!
//! `mint cart as=c ttl=10s value=v`, `put cart ID value=v if=3`, `begin pay ID digest=d lease=10s value=note`, `finish pay ID fence=3 value=v ttl=1h`, `abandon pay ID fence=3`,
//! `get|take|renew|delete cart ID`, `count cart`, `list cart`;
//! `store KEY value=v`, `retrieve KEY`, `delete_key KEY`, `exists KEY`, `keys PREFIX`, `batch_retrieve K1 K2`;
//! `transact CALL ; CALL`, `batch_store K1=v K2=v`; `info cart ID`, `info_key KEY`; `raise LEVEL`, `probe`, `tenant NAME rows=2 bytes=9` (quotas); `advance 10s`, `tick ROWS`; `session s`, `again` (the
//! last call once more, as a retry from another node). Options of every call: `owner=`, and of mutations `by=` (principal), `tenant=`,
//! `session=s seq=2 first=1`, `request=NAME` or `request=NAME@-11m`. A blank line begins a new chapter on empty rows.

use std::collections::BTreeMap;

use bytes::Bytes;
use helve_machine::{audit, check};
use helve_proto::{
    command::v1::{Command, Probe, RaiseFeatureLevel, command::Operation, outcome},
    v1::{
        BatchStoreRequest, Lifetime, OpenSessionRequest, Quotas, SetTenantRequest, StoreItem,
        TransactRequest, Unit, lifetime::Absolute,
    },
};

use crate::host::{
    GROUP, Host, START_MS, command, request_identity, session_identity, stamp_minted_ids,
};
use describe::describe;

mod call;
mod describe;
mod read;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sweep {
    Late,
    AtOnce,
}

pub(crate) struct Story {
    sweep: Sweep,
    host: Host,
    now_ms: u64,
    /// Minted ids by the name that the story gives them.
    names: BTreeMap<String, String>,
    requests: BTreeMap<String, (u64, u64)>,
    last: Option<Command>,
    calls: u64,
}

/// A call's words: plain ones, and options.
struct Words<'a> {
    plain: Vec<&'a str>,
    options: BTreeMap<&'a str, &'a str>,
}

impl<'a> Words<'a> {
    fn parse(text: &'a str) -> Self {
        let (options, plain): (Vec<_>, Vec<_>) =
            text.split_whitespace().partition(|word| word.contains('='));
        let options = options
            .into_iter()
            .filter_map(|word| word.split_once('='))
            .collect();
        Self { plain, options }
    }

    fn option(&self, name: &str) -> String {
        self.options
            .get(name)
            .copied()
            .unwrap_or_default()
            .to_owned()
    }

    fn number(&self, name: &str) -> Option<u64> {
        self.options.get(name).map(|text| text.parse().unwrap())
    }

    fn value(&self) -> Bytes {
        Bytes::from(self.option("value"))
    }

    fn lifetime(&self) -> Option<Lifetime> {
        let absolute = self.options.get("ttl").map(|text| match *text {
            "default" => Absolute::Default(Unit {}),
            "never" => Absolute::Never(Unit {}),
            "keep" => Absolute::Keep(Unit {}),
            "forever" => Absolute::AfterMs(u64::MAX),
            text => Absolute::AfterMs(duration(text)),
        });
        let idle_ttl_ms = self.options.get("idle").map(|text| duration(text));
        (absolute.is_some() || idle_ttl_ms.is_some()).then_some(Lifetime {
            absolute,
            idle_ttl_ms,
        })
    }
}

/// `10s`, `3m`, `2h`, `5` (milliseconds).
fn duration(text: &str) -> u64 {
    let units = [("ms", 1), ("s", 1000), ("m", 60_000), ("h", 3_600_000)];
    let (digits, unit) = units
        .iter()
        .find_map(|(suffix, unit)| Some((text.strip_suffix(suffix)?, *unit)))
        .unwrap_or((text, 1));
    digits.parse::<u64>().unwrap() * unit
}

impl Story {
    pub(crate) fn new(sweep: Sweep) -> Self {
        Self {
            sweep,
            host: Host::default(),
            now_ms: START_MS,
            names: BTreeMap::new(),
            requests: BTreeMap::new(),
            last: None,
            calls: 0,
        }
    }

    pub(crate) fn audit(&self, place: &str) {
        audit(&self.host.rows, GROUP).unwrap_or_else(|fault| panic!("{place}: {fault}"));
    }

    pub(crate) fn line(&mut self, line: &str, place: &str) {
        if line.starts_with('#') {
            return;
        }
        if line.trim().is_empty() {
            self.audit(place);
            *self = Self::new(self.sweep);
            return;
        }
        let (text, expected) = line.split_once("->").unwrap_or((line, ""));
        let answer = self.tell(text.trim());
        assert_eq!(answer, expected.trim(), "{place}: {text}");
    }

    fn tell(&mut self, text: &str) -> String {
        let words = Words::parse(text);
        match words.plain[0] {
            "advance" => {
                self.now_ms += duration(words.plain[1]);
                if self.sweep == Sweep::AtOnce {
                    self.host.tick(self.now_ms, 1000);
                }
                String::new()
            }
            "tick" => {
                let (removed, more) = self.host.tick(self.now_ms, words.plain[1].parse().unwrap());
                format!("removed {removed}{}", if more { ", more" } else { "" })
            }
            "again" => {
                let mut command = self.last.clone().unwrap();
                command.proposed_at_ms = self.now_ms;
                self.commit(command, "")
            }
            "get" | "info" | "count" | "list" => self.read_handles(&words),
            "retrieve" | "info_key" | "exists" | "keys" | "batch_retrieve" => {
                self.read_keys(&words)
            }
            _ => {
                let mut command = command(self.now_ms, self.mutation(text));
                self.identify(
                    &mut command,
                    &Words::parse(text.rsplit(';').next().unwrap()),
                    text,
                );
                self.commit(command, &words.option("as"))
            }
        }
    }

    fn mutation(&self, text: &str) -> Operation {
        let words = Words::parse(text);
        match words.plain[0] {
            "transact" => {
                let calls = text.trim_start_matches("transact").split(';');
                let operations = calls.map(|call| self.part(&Words::parse(call))).collect();
                Operation::Transact(TransactRequest {
                    identity: None,
                    operations,
                })
            }
            "batch_store" => {
                let items = text
                    .split_whitespace()
                    .filter_map(|word| word.split_once('='));
                let item = |(key, value): (&str, &str)| StoreItem {
                    key: key.to_owned(),
                    value: Bytes::copy_from_slice(value.as_bytes()),
                    ..StoreItem::default()
                };
                Operation::BatchStore(BatchStoreRequest {
                    items: items.map(item).collect(),
                    ..BatchStoreRequest::default()
                })
            }
            "begin" | "finish" | "abandon" => self.claim(&words),
            "session" => Operation::OpenSession(OpenSessionRequest {
                session_id: session_id(words.plain[1]),
            }),
            "raise" => Operation::RaiseFeatureLevel(RaiseFeatureLevel {
                level: words.plain[1].parse().unwrap(),
            }),
            "tenant" => Operation::SetTenant(SetTenantRequest {
                tenant: words.plain[1].to_owned(),
                quotas: Some(Quotas {
                    rows: words.number("rows").unwrap_or(0),
                    bytes: words.number("bytes").unwrap_or(0),
                    writes_per_second: 0,
                }),
                ..Default::default()
            }),
            "probe" => Operation::Probe(Probe {}),
            _ => self.single(&words),
        }
    }

    fn identify(&mut self, command: &mut Command, words: &Words<'_>, text: &str) {
        self.calls += 1;
        if let Some(tenant) = words.options.get("tenant") {
            (*tenant).clone_into(&mut command.tenant);
        }
        if let Some(principal) = words.options.get("by") {
            (*principal).clone_into(&mut command.principal);
        }
        // The fingerprint covers what is asked for, not who asks again or how.
        let asked = text.split_whitespace().filter(|word| {
            !["session=", "seq=", "first=", "request=", "as="]
                .iter()
                .any(|option| word.starts_with(option))
        });
        let sum = asked.flat_map(str::bytes).fold(7_u128, |sum, byte| {
            sum.wrapping_mul(131).wrapping_add(byte.into())
        });
        command.fingerprint = Bytes::copy_from_slice(&sum.to_be_bytes());
        command.identity = Some(if let Some(name) = words.options.get("session") {
            session_identity(
                &session_id(name),
                words.number("seq").unwrap(),
                words.number("first").unwrap_or(1),
            )
        } else {
            let (time_ms, number) = self.request(words.options.get("request").copied());
            request_identity(time_ms, number)
        });
    }

    /// The request id that a story names, made when it is named first; or one of its own.
    fn request(&mut self, name: Option<&str>) -> (u64, u64) {
        let fresh = (self.now_ms, self.calls);
        let Some(name) = name else { return fresh };
        let (key, time_ms) = match name.split_once('@') {
            None => (name, self.now_ms),
            Some((key, shift)) => match shift.strip_prefix('-') {
                Some(back) => (key, self.now_ms - duration(back)),
                None => (key, self.now_ms + duration(shift)),
            },
        };
        *self
            .requests
            .entry(key.to_owned())
            .or_insert((time_ms, fresh.1))
    }

    fn commit(&mut self, mut command: Command, name: &str) -> String {
        self.calls += 1;
        stamp_minted_ids(&mut command, self.calls);
        let is_session = matches!(command.operation, Some(Operation::OpenSession(_)));
        if is_session {
            command.identity = None;
        }
        if let Err(violation) = check(&command) {
            return violation.reason.as_str().to_lowercase();
        }
        let outcome = self.host.apply(&command);
        self.last = Some(command);
        if let Some(outcome::Outcome::Mint(reply)) = &outcome.outcome
            && !name.is_empty()
        {
            self.names
                .insert(name.to_owned(), reply.info.as_ref().unwrap().name.clone());
        }
        describe(&outcome)
    }

    fn id(&self, name: &str) -> String {
        self.names
            .get(name)
            .cloned()
            .unwrap_or_else(|| name.to_owned())
    }

    /// A minted id under its name in the story.
    fn name(&self, id: &str) -> String {
        let named = self.names.iter().find(|(_, other)| *other == id);
        named.map_or_else(|| id.to_owned(), |(name, _)| name.clone())
    }
}

fn session_id(name: &str) -> Bytes {
    Bytes::from(format!("{name:>16}"))
}
