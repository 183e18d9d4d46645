//! The thread that writes the log: it takes whatever calls have ended since it looked last, writes that at once, and syncs it in
//! batches. On an error it tries again, with the same lines, until it can.

use std::{
    io,
    sync::{
        Arc,
        mpsc::{Receiver, RecvTimeoutError},
    },
    thread,
    time::Instant,
};

use super::{
    apart::{Apart, Counted, Sync},
    budget::Budget,
    event::Event,
    head_file::HeadFile,
    health::Health,
    kinds::Kind,
    names::Names,
    record::{Record, content},
    sink::Sink,
};
use crate::{
    keyed_places::SharedPlace,
    limits::{AUDIT_BATCH_LINES_MAX, AUDIT_GATHER, AUDIT_RETRY, AUDIT_SYNC_SPACING},
    stamp,
};

/// What the thread is sent.
pub(super) enum Message {
    /// A call ended. Its room in the queue is given back once its line is durable.
    Call(Box<Event>, SharedPlace),
    /// A call was turned away.
    Denied(Box<Event>),
    /// Whether the file is still where its name leads is to be looked at now.
    Look,
    /// The node stops: nothing comes after this.
    Close,
}

/// Bytes of a line besides what is said of the call.
const LINE_ENDS_BYTES: u64 = 128;

/// The thread's belongings.
pub(super) struct Writer {
    pub(super) queue: Receiver<Message>,
    pub(super) sink: Sink,
    pub(super) names: Names,
    pub(super) kept: HeadFile,
    pub(super) health: Arc<Health>,
    /// Room of lines that are not durable yet.
    pub(super) undurable: Vec<SharedPlace>,
    /// What lines may take within the time for which they are kept.
    pub(super) budget: Budget,
    /// Where calls that were turned away go; `None`: where all others go.
    pub(super) apart: Option<Apart>,
    pub(super) counted: Counted,
    /// A look was asked for: a sync includes one.
    pub(super) look: bool,
}

/// Whether more is to come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum More {
    Perhaps,
    Never,
}

impl Writer {
    /// Writes until the node stops.
    pub(super) fn run(mut self) {
        let mut sync_at = None;
        loop {
            let more = self.receive(sync_at);
            let now = Instant::now();
            if !self.health.is_failing() {
                self.tell_lost();
                if more == More::Never || self.counted.tell_at.is_some_and(|at| at <= now) {
                    self.tell_counted(now);
                }
            }
            if more == More::Never {
                self.sink.append(stamp::wall_ms(), &Record::Closed);
                if let Some(apart) = &mut self.apart {
                    apart.append(stamp::wall_ms(), &Record::Closed, &self.health);
                }
            }
            let look = std::mem::take(&mut self.look);
            let is_due = more == More::Never || look || sync_at.is_some_and(|at| at <= now);
            // What needs no sync is done with at once.
            let done = if is_due || self.sink.is_synced() {
                self.sync()
            } else {
                self.sink.write()
            };
            sync_at = match &done {
                Err(_) => Some(now + AUDIT_RETRY),
                Ok(()) if self.sink.is_synced() => None,
                Ok(()) => sync_at.or(Some(now + AUDIT_SYNC_SPACING)),
            };
            if let Some(apart) = &mut self.apart {
                let sync = if is_due { Sync::Due } else { Sync::Later };
                apart.write(sync, &self.health);
                if !apart.sink.is_synced() {
                    sync_at = sync_at.or(Some(now + AUDIT_SYNC_SPACING));
                }
            }
            self.health.note(done);
            if !self.health.is_failing() && self.health.has_lost() {
                // It could not be told while nothing could be written.
                sync_at = Some(now);
            }
            if more == More::Never {
                return;
            }
        }
    }

    /// Takes what calls have ended, and waits for the first of them until something is to be synced or told of. Then it gathers
    /// others for a moment: who ends a call wakes a thread that waits, which would cost more than the line.
    fn receive(&mut self, sync_at: Option<Instant>) -> More {
        let until = sync_at.into_iter().chain(self.counted.tell_at).min();
        let first = match until {
            None => self.queue.recv().map_err(RecvTimeoutError::from),
            Some(until) => {
                let wait = until.saturating_duration_since(Instant::now());
                self.queue.recv_timeout(wait)
            }
        };
        let mut next = match first {
            Ok(message) => message,
            Err(RecvTimeoutError::Timeout) => return More::Perhaps,
            Err(RecvTimeoutError::Disconnected) => return More::Never,
        };
        if let Message::Call(..) = next {
            // Waking it earlier costs a shorter gathering, nothing else.
            thread::park_timeout(AUDIT_GATHER);
        }
        for _ in 1..AUDIT_BATCH_LINES_MAX {
            if self.take(next) == More::Never {
                return More::Never;
            }
            next = match self.queue.try_recv() {
                Ok(message) => message,
                Err(_) => return More::Perhaps,
            };
        }
        self.take(next)
    }

    fn take(&mut self, message: Message) -> More {
        let (mut event, room) = match message {
            Message::Call(event, room) => (event, room),
            Message::Denied(mut event) => {
                self.rewrite(&mut event);
                match &mut self.apart {
                    Some(apart) => {
                        apart.append(event.wall_ms, &Record::Call(&event), &self.health);
                    }
                    None => self.sink.append(event.wall_ms, &Record::Call(&event)),
                }
                self.counted.begin();
                return More::Perhaps;
            }
            Message::Look => {
                self.look = true;
                return More::Perhaps;
            }
            Message::Close => return More::Never,
        };
        self.rewrite(&mut event);
        let content = content(&Record::Call(&event));
        // The number, the time and the hash of a line are some bytes more.
        let bytes = content.len() as u64 + LINE_ENDS_BYTES;
        if self.budget.admits(event.owner(), bytes, Instant::now()) {
            self.sink.append_content(event.wall_ms, &content);
            self.undurable.push(room);
            self.health.counters().lines.inc();
        } else {
            self.counted.over.count(Kind::over(&event));
            self.counted.begin();
        }
        More::Perhaps
    }

    fn rewrite(&self, event: &mut Event) {
        let targets = event.targets.iter_mut();
        targets.for_each(|target| self.names.rewrite(target));
    }

    /// Says in the log how many calls have no line of their own.
    fn tell_counted(&mut self, now: Instant) {
        let before = self.sink.waiting_bytes();
        let Self {
            counted,
            sink,
            apart,
            health,
            ..
        } = self;
        counted.tell(sink, apart.as_mut(), health);
        let told = self.sink.waiting_bytes().saturating_sub(before);
        self.budget.add(told as u64);
        self.budget.forget(now);
    }

    /// Says in the log how many calls have no line.
    fn tell_lost(&mut self) {
        let calls = self.health.take_lost();
        if calls > 0 {
            self.sink.append(stamp::wall_ms(), &Record::Lost { calls });
        }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sink.sync()?;
        self.kept.keep(&self.sink.head)?;
        self.undurable.clear();
        Ok(())
    }
}

impl Drop for Writer {
    /// Without its thread nothing is written: calls hear so.
    fn drop(&mut self) {
        self.health.end();
    }
}
