//! What a server logs while a test runs on one thread.

use std::{
    fmt::Debug,
    sync::{Arc, LazyLock, Mutex},
};

use tracing::{
    Dispatch, Event, Id, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Record},
    subscriber::{DefaultGuard, set_default},
};

/// Keeps two subscribers alive: with one alone, a line's first use on a thread without any turns it off for all threads (tracing-core 0.1.36, `callsite.rs`, `JustOne`).
static ANOTHER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Lines::default()));

/// The lines of one thread, field by field, from the level INFO on.
#[derive(Default, Clone)]
pub(crate) struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    /// Collects lines until the guard is dropped.
    pub(crate) fn collect() -> (Self, DefaultGuard) {
        LazyLock::force(&ANOTHER);
        let lines = Self::default();
        (lines.clone(), set_default(lines))
    }

    pub(crate) fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

struct Line(String);

impl Visit for Line {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.0.push_str(&format!(" {field}={value:?}"));
    }
}

impl Subscriber for Lines {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::INFO && metadata.target().starts_with("helve")
    }

    fn new_span(&self, _span: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _span: &Id, _values: &Record<'_>) {}
    fn record_follows_from(&self, _span: &Id, _follows: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = Line(String::new());
        event.record(&mut line);
        self.0.lock().unwrap().push(line.0);
    }

    fn enter(&self, _span: &Id) {}
    fn exit(&self, _span: &Id) {}
}
