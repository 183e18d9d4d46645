//! Lists that everyone appends to: each element is there once, and one that was acknowledged before
//! another was begun is before it.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use anyhow::Result;
use helve_client::{Client, HandleOptions, HandleStore, HandleStoreExt, Handles, Resolved, Ttl};
use serde::{Deserialize, Serialize};
use tonic::async_trait;

use super::{Harm, Harmed, Met, Worker, Workload, acknowledged::Acknowledged};

pub(super) const NAME: &str = "append";

/// A list of this many elements is left for a new one, so that values stay short.
const ELEMENTS_MAX: usize = 50;

/// A list, and which call began it: no two writes write the same.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Elements {
    by: String,
    elements: Vec<String>,
}

/// All lists of a run.
#[derive(Debug, Default)]
pub(super) struct Append {
    list: AtomicU64,
    told: Mutex<BTreeMap<u64, Acknowledged>>,
    /// When each acknowledged append was begun and answered.
    times: Mutex<BTreeMap<String, (Instant, Instant)>>,
}

#[async_trait]
impl Workload for Append {
    fn name(&self) -> &'static str {
        NAME
    }

    async fn turn(&self, worker: &mut Worker) -> Result<()> {
        let list = self.list.load(Ordering::Relaxed);
        let lists = lists(&worker.client());
        let element = worker.fresh();
        let push = |mut list: Elements| {
            list.elements.push(element.clone());
            list
        };
        let begun = Instant::now();
        let met = worker.met(lists.update(&id(list), push).await)?;
        match &met {
            Met::Done(Resolved::Live(record)) => {
                if record.value.elements.len() >= ELEMENTS_MAX {
                    self.list.fetch_max(list + 1, Ordering::Relaxed);
                }
                self.times()
                    .insert(element.clone(), (begun, Instant::now()));
            }
            Met::Done(_gone) => {
                // The first of a new list. If another client puts it first, that is as good.
                let empty = Elements {
                    by: element,
                    elements: Vec::new(),
                };
                let put = lists.put_if(&id(list), &empty, Ttl::Never, 0).await;
                return worker.met(put).map(drop);
            }
            Met::NotDone | Met::Unknown => {}
        }
        self.told().entry(list).or_default().note(element, &met);
        Ok(())
    }

    async fn check(&self, client: &Client) -> Result<Vec<Harmed>> {
        let numbers: Vec<u64> = self.told().keys().copied().collect();
        let mut harmed = Vec::new();
        for list in numbers {
            let found = lists(client).get(&id(list)).await?.unwrap_or_default();
            let found = found.elements;
            harmed.extend(self.told()[&list].compare(&id(list), &found));
            harmed.extend(self.out_of_order(list, &found));
        }
        Ok(harmed)
    }
}

impl Append {
    fn out_of_order(&self, list: u64, found: &[String]) -> Option<Harmed> {
        let times = self.times();
        let mut latest: Option<(&String, Instant)> = None;
        for element in found {
            let Some((begun, answered)) = times.get(element) else {
                continue;
            };
            match latest {
                Some((before, begun_before)) if *answered < begun_before => {
                    let list = id(list);
                    let seen = format!(
                        "{list}: {element} is after {before}, but was acknowledged before that was begun"
                    );
                    return Some(Harmed::new(Harm::Wrong, seen));
                }
                Some((_, begun_before)) if *begun <= begun_before => {}
                _ => latest = Some((element, *begun)),
            }
        }
        None
    }

    fn told(&self) -> MutexGuard<'_, BTreeMap<u64, Acknowledged>> {
        self.told
            .lock()
            .expect("no caller panics while it notes what it was told")
    }

    fn times(&self) -> MutexGuard<'_, BTreeMap<String, (Instant, Instant)>> {
        self.times
            .lock()
            .expect("no caller panics while it notes the time")
    }
}

fn id(list: u64) -> String {
    format!("list-{list}")
}

fn lists(client: &Client) -> Handles<Elements> {
    client.handles(HandleOptions::shared("lists"))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_was_acknowledged_first_comes_first() {
        let append = Append::default();
        let start = Instant::now();
        let at = |ms| start + Duration::from_millis(ms);
        append.times().extend([
            ("tea".to_owned(), (at(0), at(1))),
            ("milk".to_owned(), (at(0), at(9))),
            ("salt".to_owned(), (at(2), at(3))),
        ]);
        let is_wrong = |found: [&str; 3]| {
            let found = found.map(str::to_owned);
            append.out_of_order(1, &found).is_some()
        };
        assert!(!is_wrong(["tea", "milk", "salt"]));
        assert!(!is_wrong(["milk", "tea", "salt"]));
        assert!(is_wrong(["salt", "milk", "tea"]));
    }
}
