//! What contradicts the model whatever calls of unknown outcome have done: which promise that breaks.

use std::collections::BTreeSet;

use super::{Group, Search};
use crate::{
    judge::{
        describe,
        explain::Case,
        mutations::Fate,
        replay::{Ran, Stuck},
        verdict::{Finding, Rule},
    },
    model::Name,
};

impl<'s> Search<'s, '_> {
    /// The finding about a group that no mutations of unknown outcome explain.
    pub(super) fn contradiction(&self, group: &Group<'s>, stuck: &Stuck) -> Finding {
        // Of those that contradict the model by themselves, the first; else the records contradict each other.
        for name in &group.names {
            let alone = BTreeSet::from([*name]);
            let unknown = self.unknown(&alone).collect();
            if let Ran::Stuck(stuck) = self.replay(&alone, &unknown) {
                let plain = self
                    .plain(name)
                    .unwrap_or_else(|| self.case().finding(name, &stuck));
                return self.dishonest(&alone, &plain).unwrap_or(plain);
            }
        }
        let plain = group.names.iter().find_map(|name| self.plain(name));
        let plain = plain.unwrap_or_else(|| {
            let name = group.names.iter().nth(stuck.place);
            self.case()
                .finding(name.expect("a record of the group is stuck"), stuck)
        });
        let dishonest = self.dishonest(&group.names, &plain);
        dishonest.unwrap_or_else(|| self.torn(group, plain))
    }

    fn case(&self) -> Case<'_> {
        Case { known: self.known }
    }

    /// What is wrong with the record if nothing took effect that touches others, too; `None` if nothing is.
    fn plain(&self, name: &'s Name) -> Option<Finding> {
        let alone = BTreeSet::from([name]);
        let unknown = self.unknown(&alone);
        let lone = unknown
            .filter(|mutation| self.touched[mutation].len() == 1)
            .collect();
        match self.replay(&alone, &lone) {
            Ran::Stuck(stuck) => Some(self.case().finding(name, &stuck)),
            Ran::Through { .. } | Ran::TooMany => None,
        }
    }

    /// If what was denied explains it after all.
    fn dishonest(&self, names: &BTreeSet<&'s Name>, plain: &Finding) -> Option<Finding> {
        let timelines = names
            .iter()
            .filter_map(|name| self.known.timelines.of.get(*name));
        let any = timelines
            .flat_map(|timeline| timeline.floats.iter().copied())
            .collect();
        let Ran::Through {
            possible_states, ..
        } = self.replay(names, &any)
        else {
            return None;
        };
        let is_denied = |mutation: &&usize| self.known.mutations[**mutation].fate == Fate::Denied;
        let used = possible_states.first()?.used.iter();
        let (events, why) = self.tellers(used.filter(is_denied).copied());
        Some(Finding {
            rule: Rule::Honest,
            events: [&plain.events[..], &events].concat(),
            text: format!(
                "{}\n    only this explains it, which was told to have had no effect:\n    {why}",
                plain.text
            ),
        })
    }

    fn torn(&self, group: &Group<'s>, plain: Finding) -> Finding {
        let shared = group.mutations.iter().copied();
        let shared = shared.filter(|mutation| self.known.mutations[*mutation].parts.len() > 1);
        let (events, why) = self.tellers(shared);
        if events.is_empty() {
            return plain;
        }
        Finding {
            rule: Rule::Torn,
            events: [plain.events, events].concat(),
            text: format!(
                "{}\n    only these may explain it, and their other records show that they had no effect:\n    {why}",
                plain.text
            ),
        }
    }

    /// The events that tell of these mutations, and what they are.
    fn tellers(&self, mutations: impl Iterator<Item = usize>) -> (Vec<usize>, String) {
        let events: Vec<_> = mutations
            .map(|mutation| self.known.mutations[mutation].teller)
            .collect();
        let lines = events
            .iter()
            .map(|event| describe::event(&self.known.events[*event]));
        let why = lines.collect::<Vec<_>>().join("\n    ");
        (events, why)
    }
}
