//! An entry of the log that cannot be applied, and what an operator can do.

use helve_machine::Fault;

use crate::storage::error::chain;

/// A log entry that this node cannot apply. The node stops before it writes anything of it.
#[derive(Debug, thiserror::Error)]
#[error("log entry {index} cannot be applied: {}", self.advice())]
pub struct Unapplied {
    /// The entry.
    pub index: u64,
    /// What the machine said.
    pub fault: Fault,
}

impl Unapplied {
    /// What happened and what to do. The machine is the same on every node, so what it cannot apply here it can apply nowhere:
    /// nothing here must advise to give up a node's data, which all nodes would then do.
    fn advice(&self) -> String {
        let fault = &self.fault;
        match fault {
            Fault::View(source) => format!("{fault}: {}", chain(source.as_ref())),
            Fault::FeatureLevel { .. } => fault.to_string(),
            _ => format!(
                "{fault}. Every node that comes to this entry stops at it: keep the data directory of every node, replace \
                 none, and start a version of helve that mends it; please report this message. Only if `helve status` shows \
                 that the other nodes have applied entry {} and go on, this node's rows alone are wrong: then replace this node",
                self.index
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_for_a_fault_of_the_machine_never_gives_up_data() {
        let of = |fault| Unapplied { index: 7, fault }.to_string();
        let corrupt = of(Fault::Corrupt("two rows differ"));
        let unknown = of(Fault::UnknownFormat {
            table: "clocks",
            format: 9,
        });
        for said in [corrupt, unknown] {
            assert!(
                said.contains("log entry 7") && said.contains("keep"),
                "{said}"
            );
            for word in ["remove", "delete", "empty", "wipe", "damaged"] {
                assert!(!said.contains(word), "{word}: {said}");
            }
        }
        let unread = of(Fault::View("the disk is gone".into()));
        assert!(
            unread.ends_with("could not be read: the disk is gone"),
            "{unread}"
        );
    }
}
