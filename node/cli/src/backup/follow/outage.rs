//! What is wrong with the endpoints of an archive, and when the next one is tried.

use std::{collections::BTreeMap, time::Duration};

use helve_command::ending::{Ending, said};

use super::{
    super::take::Asked,
    ends::{say, waits, waits_for},
};

/// The pause behind the first failure; each further one doubles it.
const PAUSE: Duration = Duration::from_millis(100);

/// Pauses grow no longer than to this many times the first.
const PAUSES_MAX: u32 = 50;

/// Failures since a node sent something. They are reported once, however many there are, and once
/// more when some endpoints refuse and others are down.
#[derive(Debug, Default)]
pub(super) struct Outage {
    failures: u32,
    /// Tries, one after the other, that were refused while no endpoint was down.
    refusals: usize,
    /// Nodes whose logs begin too late.
    pub(super) purged: usize,
    /// What was wrong with each endpoint when it was last asked.
    wrong: BTreeMap<String, Wrong>,
    is_mixed_said: bool,
}

/// What is wrong with an endpoint.
#[derive(Debug)]
enum Wrong {
    /// It refuses what this command asks for.
    Refuses(String),
    /// Another try may help.
    Down(String),
}

impl Wrong {
    fn of(ending: &Ending) -> Self {
        let why = said(&**ending.error());
        match ending {
            Ending::Refused(_) => Self::Refuses(why),
            _ => Self::Down(why),
        }
    }
}

impl Outage {
    /// The endpoints have said what they are, or what is wrong with them.
    pub(super) fn asked(&mut self, asked: &Asked) {
        for (endpoint, ending) in asked.untold() {
            self.wrong.insert(endpoint.to_owned(), Wrong::of(&ending));
        }
        for endpoint in &asked.unready {
            let why = format!("{endpoint} is not ready");
            self.wrong.insert(endpoint.clone(), Wrong::Down(why));
        }
        if let Some((endpoint, _)) = &asked.answer {
            self.answers(endpoint);
        }
    }

    /// A node answers at this endpoint.
    pub(super) fn answers(&mut self, endpoint: &str) {
        self.wrong.remove(endpoint);
    }

    /// A try failed at an endpoint, or at all of them, and another one may help.
    pub(super) fn fails(&mut self, endpoint: Option<&str>, ending: &Ending) {
        self.met(endpoint, ending);
        self.refusals = 0;
    }

    /// A try was refused by an endpoint, or by all that answer. Answers whether to give up:
    /// each of the `endpoints` had its turn, and none is down.
    pub(super) fn refuses(
        &mut self,
        endpoint: Option<&str>,
        ending: &Ending,
        endpoints: usize,
    ) -> bool {
        self.met(endpoint, ending);
        let is_down = |wrong: &Wrong| matches!(wrong, Wrong::Down(_));
        self.refusals = match self.wrong.values().any(is_down) {
            true => 0,
            false => self.refusals + 1,
        };
        self.refusals >= endpoints
    }

    fn met(&mut self, endpoint: Option<&str>, ending: &Ending) {
        if let Some(endpoint) = endpoint {
            self.wrong.insert(endpoint.to_owned(), Wrong::of(ending));
        }
    }

    /// Counts a failure, and says the first one, with what ends it.
    pub(super) fn note(&mut self, ending: &Ending, until: &str) {
        if let Some(line) = self.line(ending, until) {
            say(&line);
        }
        self.failures = self.failures.saturating_add(1);
    }

    /// What is to be said of a failure, unless it was said before.
    fn line(&mut self, ending: &Ending, until: &str) -> Option<String> {
        match self.mixed() {
            Some(why) if !self.is_mixed_said => {
                self.is_mixed_said = true;
                Some(waits_for(&why, until))
            }
            None if self.failures == 0 => Some(waits(ending, until)),
            _ => None,
        }
    }

    /// What is refused, and what is down; `None` unless there are both.
    fn mixed(&self) -> Option<String> {
        let (mut refused, mut down) = (Vec::new(), Vec::new());
        for wrong in self.wrong.values() {
            match wrong {
                Wrong::Refuses(why) => refused.push(why.as_str()),
                Wrong::Down(why) => down.push(why.as_str()),
            }
        }
        let has_both = !refused.is_empty() && !down.is_empty();
        let (refused, down) = (refused.join("; "), down.join("; "));
        has_both.then(|| format!("{refused}; another endpoint fails: {down}"))
    }

    /// Endpoints that were tried since a node sent something.
    pub(super) fn tried(&self) -> usize {
        self.purged.saturating_add(self.failures as usize)
    }

    /// Before the next try.
    pub(super) fn pause(&self) -> Duration {
        let doubled = self.failures.saturating_sub(1).min(u32::BITS - 1);
        PAUSE * (1_u32 << doubled).min(PAUSES_MAX)
    }
}

#[cfg(test)]
mod tests {
    use anyhow::anyhow;
    use helve_command::ending::Cause;
    use helve_proto::v1::StatusReply;

    use super::{
        super::ends::{ONCE_MADE, silent},
        *,
    };
    use crate::diagnosis::Finding;

    const A: &str = "10.0.0.1:7400";
    const B: &str = "10.0.0.2:7400";

    fn denied() -> Ending {
        Ending::Refused(anyhow!("{A} refuses the token"))
    }

    #[test]
    fn pauses_grow_up_to_five_seconds() {
        let pause = |failures| {
            let outage = Outage {
                failures,
                ..Outage::default()
            };
            outage.pause()
        };
        let ms = Duration::from_millis;
        assert_eq!([pause(0), pause(1), pause(2)], [ms(100), ms(100), ms(200)]);
        assert_eq!([pause(7), pause(40), pause(u32::MAX)], [ms(5_000); 3]);
    }

    #[test]
    fn refusal_beside_an_endpoint_that_is_down_is_tried_again() {
        let mut outage = Outage::default();
        assert!(!outage.refuses(Some(A), &denied(), 2));
        outage.fails(Some(B), &silent(B));
        for _ in 0..10 {
            // The refusal comes again, and nothing is heard of the other one.
            assert!(!outage.refuses(Some(A), &denied(), 2));
            assert!(!outage.refuses(None, &denied(), 2));
        }
        assert!(!outage.refuses(Some(B), &denied(), 2));
        assert!(outage.refuses(Some(A), &denied(), 2));
    }

    #[test]
    fn refusal_of_every_endpoint_ends_the_tries() {
        let mut outage = Outage::default();
        let tries = [A, B, "10.0.0.3:7400"].map(|it| outage.refuses(Some(it), &denied(), 3));
        assert_eq!(tries, [false, false, true]);
    }

    #[test]
    fn statuses_say_which_endpoint_refuses_and_which_is_down() {
        let finding = |endpoint: &str, cause, what: &str| Finding {
            endpoint: endpoint.to_owned(),
            cause,
            problem: format!("{endpoint} {what}"),
            next: "see to it".to_owned(),
        };
        let refuses = || finding(A, Cause::TokenRefused, "refuses the token");
        let mut outage = Outage::default();
        let asked = |findings| Asked {
            answer: None,
            unready: Vec::new(),
            findings,
        };
        let down = finding(B, Cause::NothingListens, "does not listen");
        let both = asked(vec![refuses(), down]);
        for _ in 0..10 {
            outage.asked(&both);
            assert!(!outage.refuses(None, &denied(), 2));
        }
        let line = outage.line(&denied(), ONCE_MADE).unwrap_or_default();
        for part in [
            ONCE_MADE,
            "10.0.0.1:7400 refuses the token",
            "fails: 10.0.0.2:7400 does not listen",
        ] {
            assert!(line.contains(part), "{line}");
        }
        let all = asked(vec![
            refuses(),
            finding(B, Cause::TokenRefused, "refuses the token"),
        ]);
        outage.asked(&all);
        assert!(!outage.refuses(None, &denied(), 2));
        assert!(outage.refuses(None, &denied(), 2));
    }

    #[test]
    fn refusal_beside_an_endpoint_that_is_not_ready_is_tried_again() {
        let mut outage = Outage::default();
        let asked = Asked {
            answer: Some((A.to_owned(), StatusReply::default())),
            unready: vec![B.to_owned()],
            findings: Vec::new(),
        };
        for _ in 0..10 {
            outage.asked(&asked);
            assert!(!outage.refuses(Some(A), &denied(), 2));
        }
    }

    #[test]
    fn failures_are_said_once_and_once_more_when_they_differ() {
        let mut outage = Outage::default();
        let mut lines = Vec::new();
        for _ in 0..3 {
            outage.refuses(Some(A), &denied(), 2);
            lines.extend(outage.line(&denied(), ONCE_MADE));
            outage.note(&denied(), ONCE_MADE);
            outage.fails(Some(B), &silent(B));
            lines.extend(outage.line(&silent(B), ONCE_MADE));
            outage.note(&silent(B), ONCE_MADE);
        }
        let [first, second] = &lines[..] else {
            panic!("{lines:?}");
        };
        assert!(first.contains(A) && !first.contains(B), "{first}");
        assert!(second.contains(A) && second.contains(B), "{second}");
    }
}
