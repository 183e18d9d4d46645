//! The main judge: every record's timeline through the model, and what several records must agree on.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Instant,
};

use super::{
    bounds::Bounds,
    deeds::{Deed, Fate},
    evidence::Evidence,
    explain::Case,
    replay::{Counted, Ran, Replay},
    timeline::{Timeline, Timelines},
    verdict::{Finding, Rule},
    worlds::{Forced, World},
};
use crate::{
    history::Event,
    model::{Cell, Name},
};

/// More ways for one record to have come about are not tried.
const WAYS_MAX: usize = 64;

/// What the main judge comes to.
#[derive(Debug, Default)]
pub(super) struct Judged {
    pub(super) findings: Vec<Finding>,
    /// Why it could not tell, record by record.
    pub(super) undecided: Vec<String>,
    /// What each record may hold at the end.
    pub(super) left: BTreeMap<Name, Vec<Cell>>,
}

/// All that is known of a history.
pub(super) struct Search<'s, 'a> {
    pub(super) events: &'a [Event],
    pub(super) deeds: &'a [Deed],
    pub(super) bounds: &'s Bounds,
    pub(super) timelines: &'s Timelines<'a>,
    pub(super) evidence: &'s Evidence,
    /// When the search ends: what is not decided by then is undecided.
    pub(super) until: Instant,
}

impl Search<'_, '_> {
    /// Judges every record. A deed with several parts that no reply and no evidence tells of is taken not to have been done, until
    /// some record cannot be explained without it; then all its records must be explained with it.
    pub(super) fn run(&self) -> Judged {
        let mut judged = Judged::default();
        let mut forced = Forced::new();
        let mut counted = BTreeMap::new();
        for (name, timeline) in &self.timelines.of {
            if self.evidence.phantoms.contains(name) {
                continue;
            }
            match self.replay(name, timeline, &|deed| self.is_lone(deed), &forced) {
                Ran::TooMany => judged.undecided.push(too_many(name)),
                Ran::Through {
                    worlds,
                    counted: counts,
                } => {
                    judged.left.insert(name.clone(), cells(worlds));
                    counted.insert(name, counts);
                }
                Ran::Stuck { at, before } => {
                    let case = Case {
                        events: self.events,
                        deeds: self.deeds,
                    };
                    let plain = case.finding(name, timeline, at, &before);
                    self.explain(name, timeline, plain, &mut forced, &mut judged);
                }
            }
        }
        // What was forced later changes what earlier records may hold, and what counts may have met.
        for name in self.names_of(forced.keys().copied()) {
            let Some(timeline) = self.timelines.of.get(&name) else {
                continue;
            };
            if let Ran::Through {
                worlds,
                counted: counts,
            } = self.replay(&name, timeline, &|deed| self.is_lone(deed), &forced)
            {
                judged.left.insert(name.clone(), cells(worlds));
                if let Some((name, _)) = self.timelines.of.get_key_value(&name) {
                    counted.insert(name, counts);
                }
            }
        }
        if judged.findings.is_empty() && judged.undecided.is_empty() {
            let counted = counted.values().flatten();
            judged.findings.extend(self.check_counts(counted));
        }
        judged
    }

    fn replay(
        &self,
        name: &Name,
        timeline: &Timeline<'_>,
        allowed: &dyn Fn(usize) -> bool,
        forced: &Forced,
    ) -> Ran {
        Replay {
            name,
            timeline,
            bounds: self.bounds,
            allowed,
            forced,
            until: self.until,
        }
        .run()
    }

    fn is_lone(&self, deed: usize) -> bool {
        self.deeds[deed].fate == Fate::Unknown && self.deeds[deed].parts.len() == 1
    }

    fn names_of(&self, deeds: impl Iterator<Item = usize>) -> BTreeSet<Name> {
        deeds
            .flat_map(|deed| self.deeds[deed].names.iter().flatten().cloned())
            .collect()
    }

    /// A record that cannot be explained by what is told: tries deeds with several parts, then those that were denied.
    fn explain(
        &self,
        name: &Name,
        timeline: &Timeline<'_>,
        plain: Finding,
        forced: &mut Forced,
        judged: &mut Judged,
    ) {
        let is_unknown = |deed: usize| self.deeds[deed].fate == Fate::Unknown;
        match self.replay(name, timeline, &is_unknown, forced) {
            Ran::TooMany => judged.undecided.push(too_many(name)),
            Ran::Through { worlds, .. } if worlds.len() > WAYS_MAX => {
                judged.undecided.push(too_many(name));
            }
            Ran::Through { worlds, .. } => {
                let mut is_open = false;
                let mut ways = worlds.iter().map(|world| self.with_used(world, forced));
                let found = ways.find(|way| {
                    let held = self.holds_with(way);
                    is_open |= held.is_none();
                    held == Some(true)
                });
                match found {
                    Some(way) => *forced = way,
                    None if is_open => judged.undecided.push(too_many(name)),
                    None if worlds.len() == 1 => judged.findings.push(self.torn(plain, &worlds[0])),
                    None => judged.findings.push(Finding {
                        rule: Rule::Torn,
                        ..plain
                    }),
                }
            }
            Ran::Stuck { .. } => {
                let is_any = |_| true;
                match self.replay(name, timeline, &is_any, forced) {
                    Ran::TooMany => judged.undecided.push(too_many(name)),
                    Ran::Through { worlds, .. } => {
                        judged.findings.push(self.dishonest(plain, &worlds[0]));
                    }
                    Ran::Stuck { .. } if self.evidence.guesses.contains(name) => {
                        judged
                            .undecided
                            .push(format!("values do not tell which call wrote {name}"));
                    }
                    Ran::Stuck { .. } => judged.findings.push(plain),
                }
            }
        }
    }

    /// What is forced already, and the deeds with several parts that this world used up.
    fn with_used(&self, world: &World, forced: &Forced) -> Forced {
        let mut forced = forced.clone();
        for used in world.used.iter().filter(|used| !self.is_lone(used.deed)) {
            let (after, until) = forced.entry(used.deed).or_insert((used.after, used.until));
            (*after, *until) = ((*after).max(used.after), (*until).min(used.until));
        }
        forced
    }

    /// Whether all records of the forced deeds can be explained with them; `None` if that cannot be told.
    fn holds_with(&self, forced: &Forced) -> Option<bool> {
        let mut all = Some(true);
        for name in self.names_of(forced.keys().copied()) {
            let Some(timeline) = self.timelines.of.get(&name) else {
                continue;
            };
            match self.replay(&name, timeline, &|deed| self.is_lone(deed), forced) {
                Ran::Through { .. } => {}
                Ran::Stuck { .. } => return Some(false),
                Ran::TooMany => all = None,
            }
        }
        all
    }

    fn torn(&self, plain: Finding, world: &World) -> Finding {
        let used = world.used.iter().filter(|used| !self.is_lone(used.deed));
        let used: Vec<_> = used.map(|used| self.deeds[used.deed].teller).collect();
        let why = describe_all(self.events, &used);
        Finding {
            rule: Rule::Torn,
            events: [plain.events, used].concat(),
            text: format!(
                "{}\n    only this explains it, and its other records show that it had no effect:\n    {why}",
                plain.text
            ),
        }
    }

    fn dishonest(&self, plain: Finding, world: &World) -> Finding {
        let used = world
            .used
            .iter()
            .filter(|used| self.deeds[used.deed].fate == Fate::Denied);
        let used: Vec<_> = used.map(|used| self.deeds[used.deed].teller).collect();
        let why = describe_all(self.events, &used);
        Finding {
            rule: Rule::Honest,
            events: [plain.events, used].concat(),
            text: format!(
                "{}\n    only this explains it, which was told to have had no effect:\n    {why}",
                plain.text
            ),
        }
    }

    fn check_counts<'k>(&self, counted: impl Iterator<Item = &'k Counted>) -> Vec<Finding> {
        let counts = &self.timelines.counts;
        let mut bounds: Vec<(u64, u64)> = counts.iter().map(|count| (0, count.nameless)).collect();
        for counted in counted {
            let (least, most) = &mut bounds[counted.count];
            *least += u64::from(!counted.may_not);
            *most += u64::from(counted.may_live);
        }
        let off = counts
            .iter()
            .zip(bounds)
            .filter(|(count, (least, most))| !(*least..=*most).contains(&count.live));
        off.map(|(count, (least, most))| Finding {
            rule: Rule::Count,
            events: vec![count.event],
            text: format!(
                "the model has {least} to {most}: {}",
                super::describe::event(&self.events[count.event])
            ),
        })
        .collect()
    }
}

fn describe_all(events: &[Event], numbers: &[usize]) -> String {
    let lines = numbers
        .iter()
        .map(|number| super::describe::event(&events[*number]));
    lines.collect::<Vec<_>>().join("\n    ")
}

fn cells(worlds: Vec<World>) -> Vec<Cell> {
    let mut cells: Vec<Cell> = Vec::new();
    for world in worlds {
        if !cells.contains(&world.cell) {
            cells.push(world.cell);
        }
    }
    cells
}

fn too_many(name: &Name) -> String {
    format!("{name}: too many calls of unknown outcome to search through, or too little time")
}
