//! Calls that have no line of their own: how many there were of each kind in a period.

use std::{collections::BTreeMap, net::IpAddr};

use helve_http::Address;

use super::event::Event;
use crate::limits::{AUDIT_DENIED_LINES_MAX, AUDIT_DENIED_LINES_NODE_MAX, AUDIT_KINDS_MAX};

/// What calls have in common that are counted together.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    /// Where they came from; of IPv6 the network of 64 bits, which one caller may own.
    pub(super) peer: Option<IpAddr>,
    pub(super) tenant: String,
    pub(super) principal: String,
    /// Empty: any.
    pub(super) operation: &'static str,
    pub(super) outcome: &'static str,
}

impl Kind {
    /// Of a call that was turned away: from where, whose and why.
    pub(super) fn denied(event: &Event) -> Self {
        Self {
            peer: event.peer.map(|peer| Address::from(peer.ip()).into()),
            tenant: event.tenant.clone(),
            principal: event.principal.clone(),
            operation: "",
            outcome: event.outcome,
        }
    }

    /// Of a call of a tenant whose lines have no room: what was called, and how it ended.
    pub(super) fn over(event: &Event) -> Self {
        Self {
            peer: None,
            tenant: event.tenant.clone(),
            principal: String::new(),
            operation: event.operation,
            outcome: event.outcome,
        }
    }

    /// The kind of those for which there is no kind of their own left.
    fn other(&self) -> Self {
        Self {
            outcome: self.outcome,
            ..Self::default()
        }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    calls: u64,
    /// Those that have a line of their own.
    lines: u64,
}

/// How many calls there were of each kind since the period began.
#[derive(Debug, Default)]
pub(super) struct Kinds {
    kinds: BTreeMap<Kind, Count>,
    lines: u64,
}

impl Kinds {
    /// Counts a call that has no line of its own.
    pub(super) fn count(&mut self, kind: Kind) {
        self.of(kind).calls += 1;
    }

    /// Counts a call that was turned away. True if it is one of the few that have a line of their own.
    pub(super) fn count_denied(&mut self, event: &Event) -> bool {
        let is_room_left = self.lines < AUDIT_DENIED_LINES_NODE_MAX;
        let count = self.of(Kind::denied(event));
        count.calls += 1;
        let has_line = is_room_left && count.lines < AUDIT_DENIED_LINES_MAX;
        count.lines += u64::from(has_line);
        self.lines += u64::from(has_line);
        has_line
    }

    /// How many calls of each kind have no line of their own. The next period begins.
    pub(super) fn take(&mut self) -> Vec<(Kind, u64)> {
        let kinds = std::mem::take(self).kinds.into_iter();
        let left = kinds.map(|(kind, count)| (kind, count.calls - count.lines));
        left.filter(|(_, calls)| *calls > 0).collect()
    }

    fn of(&mut self, kind: Kind) -> &mut Count {
        let is_new = !self.kinds.contains_key(&kind);
        let kind = if is_new && self.kinds.len() >= AUDIT_KINDS_MAX {
            kind.other()
        } else {
            kind
        };
        self.kinds.entry(kind).or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::event::Class;

    fn denied(peer: &str, outcome: &'static str) -> Event {
        Event {
            peer: peer.parse().ok(),
            outcome,
            ..Event::of(Class::Read, "Get")
        }
    }

    #[test]
    fn calls_of_one_address_and_reason_have_a_few_lines_and_then_a_count() {
        let mut kinds = Kinds::default();
        let lines = (0..144_u16).filter(|port| {
            let peer = format!("10.0.0.1:{}", port + 1);
            kinds.count_denied(&denied(&peer, "UNAUTHENTICATED"))
        });
        assert_eq!(lines.count() as u64, AUDIT_DENIED_LINES_MAX);
        assert!(kinds.count_denied(&denied("10.0.0.2:1", "UNAUTHENTICATED")));
        let counted = kinds.take();
        let (kind, calls) = &counted[0];
        assert_eq!((counted.len(), *calls), (1, 144 - AUDIT_DENIED_LINES_MAX));
        assert_eq!(kind.peer, "10.0.0.1".parse().ok());
        assert!(kinds.take().is_empty());
    }

    #[test]
    fn a_network_of_addresses_is_one_and_many_networks_are_bounded() {
        let mut kinds = Kinds::default();
        for number in 0..100 {
            kinds.count_denied(&denied(&format!("[2001:db8::{number:x}]:1"), "DENIED"));
        }
        assert_eq!(kinds.kinds.len(), 1);
        for number in 0..10_000 {
            kinds.count_denied(&denied(&format!("[2001:db8:{number:x}::1]:1"), "DENIED"));
        }
        assert_eq!(kinds.kinds.len(), AUDIT_KINDS_MAX + 1);
        assert_eq!(kinds.lines, AUDIT_DENIED_LINES_NODE_MAX);
        let counted = kinds.take();
        let calls: u64 = counted.iter().map(|(_, calls)| calls).sum();
        assert_eq!(calls, 10_100 - AUDIT_DENIED_LINES_NODE_MAX);
    }
}
