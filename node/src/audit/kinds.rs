//! Calls that have no line of their own: how many there were of each kind in a period.

use std::{collections::BTreeMap, net::IpAddr};

use helve_http::Address;

use super::event::Event;
use crate::limits::{
    AUDIT_DENIED_LINES_MAX, AUDIT_DENIED_LINES_NODE_MAX, AUDIT_KINDS_MAX, AUDIT_SHARE,
};

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

    /// Who has used up the room: a tenant, or an address of callers that no credential names.
    fn owner(&self) -> Kind {
        Self {
            peer: self.peer.filter(|_| self.tenant.is_empty()),
            tenant: self.tenant.clone(),
            ..Self::default()
        }
    }

    /// The kind of those for which there is no kind of their own left. A tenant's are counted as the tenant's.
    fn other(&self) -> Self {
        Self {
            tenant: self.tenant.clone(),
            outcome: self.outcome,
            ..Self::default()
        }
    }
}

/// What one owner has of a period's lines and kinds.
#[derive(Debug, Clone, Copy, Default)]
struct Taken {
    lines: u64,
    kinds: u64,
}

/// Whether an owner may have one more of what all have this much of: at most three times what is left free for the others.
fn has_room(own: u64, all: u64, max: u64) -> bool {
    own < max.saturating_sub(all).saturating_mul(AUDIT_SHARE)
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
    /// What has been taken, in all and by the owners of these kinds.
    all: Taken,
    owners: BTreeMap<Kind, Taken>,
}

impl Kinds {
    /// Counts a call that has no line of its own.
    pub(super) fn count(&mut self, kind: Kind) {
        self.of(kind).calls += 1;
    }

    /// Counts a call that was turned away. True if it is one of the few that have a line of their own.
    pub(super) fn count_denied(&mut self, event: &Event) -> bool {
        let kind = Kind::denied(event);
        let owner = kind.owner();
        let own = self.owners.get(&owner).map_or(0, |taken| taken.lines);
        let is_room_left = has_room(own, self.all.lines, AUDIT_DENIED_LINES_NODE_MAX);
        let count = self.of(kind);
        count.calls += 1;
        let has_line = is_room_left && count.lines < AUDIT_DENIED_LINES_MAX;
        if has_line {
            count.lines += 1;
            self.all.lines += 1;
            // Owners are as many as kinds and lines, at most.
            self.owners.entry(owner).or_default().lines += 1;
        }
        has_line
    }

    /// How many calls of each kind have no line of their own. The next period begins.
    pub(super) fn take(&mut self) -> Vec<(Kind, u64)> {
        let kinds = std::mem::take(self).kinds.into_iter();
        let left = kinds.map(|(kind, count)| (kind, count.calls - count.lines));
        left.filter(|(_, calls)| *calls > 0).collect()
    }

    fn of(&mut self, kind: Kind) -> &mut Count {
        if self.kinds.contains_key(&kind) {
            return self.kinds.entry(kind).or_default();
        }
        let owner = kind.owner();
        let own = self.owners.get(&owner).map_or(0, |taken| taken.kinds);
        if has_room(own, self.all.kinds, AUDIT_KINDS_MAX) {
            self.all.kinds += 1;
            self.owners.entry(owner).or_default().kinds += 1;
            return self.kinds.entry(kind).or_default();
        }
        let of_tenant = kind.other();
        // Kinds of tenants and outcomes alone are bounded as well.
        let is_room_left = (self.kinds.len() as u64) < 2 * AUDIT_KINDS_MAX;
        if is_room_left || self.kinds.contains_key(&of_tenant) {
            return self.kinds.entry(of_tenant).or_default();
        }
        let tenant = String::new();
        let other = Kind {
            tenant,
            ..of_tenant
        };
        self.kinds.entry(other).or_default()
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
        assert_eq!(kinds.kinds.len() as u64, AUDIT_KINDS_MAX + 1);
        assert_eq!(kinds.all.lines, AUDIT_DENIED_LINES_NODE_MAX);
        let counted = kinds.take();
        let calls: u64 = counted.iter().map(|(_, calls)| calls).sum();
        assert_eq!(calls, 10_100 - AUDIT_DENIED_LINES_NODE_MAX);
    }

    #[test]
    fn one_tenant_leaves_lines_and_kinds_to_others() {
        let mut kinds = Kinds::default();
        let of = |tenant: &str, principal: u32| Event {
            tenant: tenant.to_owned(),
            principal: principal.to_string(),
            ..denied("10.0.0.1:1", "DENIED")
        };
        for principal in 0..1_000 {
            for _ in 0..20 {
                kinds.count_denied(&of("mallory", principal));
            }
        }
        assert!(kinds.count_denied(&of("acme", 1)));
        assert!(kinds.count_denied(&denied("10.0.0.2:1", "UNAUTHENTICATED")));
        assert!(kinds.kinds.contains_key(&Kind::denied(&of("acme", 1))));
        // What of a tenant has no kind of its own is still the tenant's.
        let counted = kinds.take();
        let others = counted
            .iter()
            .find(|(kind, _)| kind.principal.is_empty() && kind.tenant == "mallory");
        assert!(
            others.is_some_and(|(_, calls)| *calls > 10_000),
            "{others:?}"
        );
    }
}
