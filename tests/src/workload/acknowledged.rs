//! What callers were told of the things that they added, to compare with what is there.

use std::{collections::BTreeMap, fmt, sync::Mutex};

use super::Met;

/// In which way something acknowledged was not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// Acknowledged, and not there.
    Lost,
    /// There more often than it was written, or without having been written.
    Doubled,
    /// An answer from the past.
    Stale,
    /// None of these: half of a whole, a wrong order, a wrong error.
    Wrong,
}

/// One breach, for people.
#[derive(Debug, Clone)]
pub struct Harmed {
    /// How.
    pub harm: Harm,
    /// What was seen instead of what was promised.
    pub seen: String,
}

impl Harmed {
    /// Of this kind.
    #[must_use]
    pub fn new(harm: Harm, seen: String) -> Self {
        Self { harm, seen }
    }
}

impl fmt::Display for Harmed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {}", self.harm, self.seen)
    }
}

/// Things that were to be added once each, and whether callers were told so.
#[derive(Debug, Default)]
pub(super) struct Acknowledged {
    /// True: acknowledged; false: in doubt.
    things: Mutex<BTreeMap<String, bool>>,
}

impl Acknowledged {
    /// Notes what became of the call that added a thing.
    pub(super) fn note<T>(&self, thing: String, met: &Met<T>) {
        let known = match met {
            Met::Done(_) => true,
            Met::Unknown => false,
            Met::NotDone => return,
        };
        self.things().insert(thing, known);
    }

    /// What is wrong with what was found where the things should be.
    pub(super) fn compare(&self, place: &str, found: &[String]) -> Vec<Harmed> {
        let mut count = BTreeMap::<&str, usize>::new();
        for thing in found {
            *count.entry(thing).or_default() += 1;
        }
        let things = self.things();
        let lost = things
            .iter()
            .filter(|(thing, known)| **known && !count.contains_key(thing.as_str()))
            .map(|(thing, _)| {
                let seen = format!("{place}: {thing} was acknowledged and is not there");
                Harmed::new(Harm::Lost, seen)
            });
        let doubled = count
            .iter()
            .filter(|(thing, times)| **times > 1 || !things.contains_key(**thing))
            .map(|(thing, times)| {
                let wrote = match things.get(*thing) {
                    Some(true) => "was acknowledged once",
                    Some(false) => "was sent once",
                    None => "was refused, or never sent",
                };
                let seen = format!("{place}: {thing} {wrote} and is there {times} times");
                Harmed::new(Harm::Doubled, seen)
            });
        lost.chain(doubled).collect()
    }

    fn things(&self) -> std::sync::MutexGuard<'_, BTreeMap<String, bool>> {
        self.things
            .lock()
            .expect("no caller panics while it notes what it was told")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told() -> Acknowledged {
        let told = Acknowledged::default();
        told.note("tea".to_owned(), &Met::Done(()));
        told.note("milk".to_owned(), &Met::<()>::Unknown);
        told.note("salt".to_owned(), &Met::<()>::NotDone);
        told
    }

    fn harms(found: &[&str]) -> Vec<Harm> {
        let found: Vec<_> = found.iter().map(ToString::to_string).collect();
        let harmed = told().compare("a cart", &found);
        harmed.into_iter().map(|harmed| harmed.harm).collect()
    }

    #[test]
    fn what_is_in_doubt_may_be_there_or_not() {
        assert_eq!(harms(&["tea"]), []);
        assert_eq!(harms(&["milk", "tea"]), []);
    }

    #[test]
    fn what_was_acknowledged_and_is_gone_is_lost() {
        assert_eq!(harms(&["milk"]), [Harm::Lost]);
    }

    #[test]
    fn what_is_there_twice_or_was_refused_is_doubled() {
        assert_eq!(harms(&["tea", "tea"]), [Harm::Doubled]);
        assert_eq!(harms(&["tea", "milk", "milk"]), [Harm::Doubled]);
        assert_eq!(harms(&["tea", "salt"]), [Harm::Doubled]);
    }
}
