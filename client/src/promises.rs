//! What a state tool promises, as data: tests hold it to that, and the table in the documentation is checked against it.

/// What a [`StateTool`](crate::StateTool) promises besides what its methods say. What is `false` here is not so, or not always:
/// the tool's documentation says what happens instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Promises {
    /// An acknowledged write outlives the loss of any one machine.
    pub durable: bool,
    /// A read sees every write that was acknowledged before it began, whatever has failed since, failover included.
    pub linearizable: bool,
    /// A write that is retried within a call takes effect once, and is answered with its first outcome.
    pub exactly_once: bool,
    /// A batch is stored wholly or not at all, also if the process dies in the middle.
    pub atomic_batch: bool,
    /// A list, and a batch that is retrieved, is of one view.
    pub one_view: bool,
    /// `store_if` writes only on the revision, whatever others write.
    pub revisions: bool,
    /// Revisions grow, over all keys, in the order in which writes become visible, and a list says up to which it shows.
    pub ordered_revisions: bool,
    /// Keys expire at their deadline.
    pub ttl: bool,
    /// Keys expire when they are not read or written for a time.
    pub idle_ttl: bool,
}

impl Promises {
    /// Nothing.
    pub const NONE: Self = Self {
        durable: false,
        linearizable: false,
        exactly_once: false,
        atomic_batch: false,
        one_view: false,
        revisions: false,
        ordered_revisions: false,
        ttl: false,
        idle_ttl: false,
    };

    /// Everything: a cluster of at least three nodes on machines of their own.
    pub const CLUSTER: Self = Self {
        durable: true,
        ..Self::MEMORY
    };

    /// All but durability: the state machine in this process.
    pub const MEMORY: Self = Self {
        durable: false,
        linearizable: true,
        exactly_once: true,
        atomic_batch: true,
        one_view: true,
        revisions: true,
        ordered_revisions: true,
        ttl: true,
        idle_ttl: true,
    };

    /// Each with its name, in the order of the table in the documentation.
    #[must_use]
    pub fn named(&self) -> [(&'static str, bool); 9] {
        [
            ("durable", self.durable),
            ("linearizable", self.linearizable),
            ("exactly once", self.exactly_once),
            ("atomic batch", self.atomic_batch),
            ("one view", self.one_view),
            ("revisions", self.revisions),
            ("ordered revisions", self.ordered_revisions),
            ("TTL", self.ttl),
            ("idle TTL", self.idle_ttl),
        ]
    }
}
