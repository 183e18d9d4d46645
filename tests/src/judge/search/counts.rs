//! Counts: of one view, and so of as many records as the model has there.

use std::collections::BTreeSet;

use super::Search;
use crate::judge::{
    describe,
    replay::{Counted, Ran},
    timeline::{Seen, What},
    verdict::{Finding, Rule},
};

/// How many records a count may have met.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: u64,
    most: u64,
}

impl Range {
    fn add(&mut self, counted: &Counted) {
        self.least += u64::from(!counted.may_not);
        self.most += u64::from(counted.may_live);
    }
}

impl Search<'_, '_> {
    /// Counts that do not fit to what explains each record, nor to anything that may.
    pub(super) fn check_counts(&self) -> Vec<Finding> {
        let counts = &self.known.timelines.counts;
        let nameless = counts.iter().map(|count| Range {
            least: 0,
            most: count.nameless,
        });
        let mut ranges: Vec<Range> = nameless.collect();
        let wide = ranges.clone();
        for counted in self.groups.iter().flat_map(|group| &group.counted) {
            ranges[counted.count].add(counted);
        }
        let is_off = |ranges: &[Range], number: usize| {
            let Range { least, most } = ranges[number];
            !(least..=most).contains(&counts[number].live)
        };
        if !(0..counts.len()).any(|number| is_off(&ranges, number)) {
            return Vec::new();
        }
        let ranges = self.widest(wide);
        let off = (0..counts.len()).filter(|number| is_off(&ranges, *number));
        off.map(|number| Finding {
            rule: Rule::Count,
            events: vec![counts[number].event],
            text: format!(
                "the model has {} to {}: {}",
                ranges[number].least,
                ranges[number].most,
                describe::event(&self.known.events[counts[number].event])
            ),
        })
        .collect()
    }

    /// How many there may be if every mutation of unknown outcome may have taken effect, in each record by itself.
    fn widest(&self, mut ranges: Vec<Range>) -> Vec<Range> {
        for (name, timeline) in &self.known.timelines.of {
            let names = BTreeSet::from([name]);
            match self.replay(&names, &self.unknown(&names).collect()) {
                Ran::Through {
                    counted,
                    is_whole: true,
                    ..
                } => {
                    for counted in &counted {
                        ranges[counted.count].add(counted);
                    }
                }
                Ran::Through { .. } | Ran::Stuck(_) | Ran::TooMany => {
                    for entry in &timeline.entries {
                        if let What::Look(Seen::Counted(count)) = entry.what {
                            ranges[count].most += 1;
                        }
                    }
                }
            }
        }
        ranges
    }
}
