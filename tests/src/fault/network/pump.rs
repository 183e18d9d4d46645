//! One direction of one connection.

use std::{
    collections::VecDeque,
    io,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use rand::{RngExt as _, SeedableRng as _, rngs::SmallRng};
use socket2::SockRef;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{
        TcpStream,
        tcp::{ReadHalf, WriteHalf},
    },
    sync::watch,
    time::{Instant, sleep_until},
};

use super::{
    Treatment,
    lane::{Lane, count},
};

/// A piece is at most so long.
const PIECE_BYTES: usize = 16 << 10;
/// What waits for its time is at most so much: behind it, the sender waits.
const WAITING_BYTES_MAX: usize = 1 << 20;
/// How long TCP takes to send a lost packet again, at least.
const RESEND: Duration = Duration::from_millis(200);

/// The connection is to be reset.
#[derive(Debug)]
pub(super) struct Torn;

impl From<io::Error> for Torn {
    fn from(_: io::Error) -> Self {
        // Whatever ended one half of the connection ends the other.
        Self
    }
}

/// Carries what comes from one side to the other, until the first closes.
pub(super) async fn pump(from: ReadHalf<'_>, to: WriteHalf<'_>, lane: &Lane) -> Result<(), Torn> {
    static PUMPS: AtomicU64 = AtomicU64::new(0);
    let pump = Pump {
        from,
        to,
        lane,
        treatment: lane.watch(),
        waiting: VecDeque::new(),
        waiting_bytes: 0,
        last_due: Instant::now(),
        rng: SmallRng::seed_from_u64(PUMPS.fetch_add(1, Ordering::Relaxed)),
        open: true,
        has_hole: false,
        hold_counted: false,
    };
    pump.run().await
}

/// Ends a connection with a reset.
pub(super) fn reset(stream: &TcpStream) -> io::Result<()> {
    SockRef::from(stream).set_linger(Some(Duration::ZERO))
}

/// What comes from the sender.
enum Arrival {
    /// This many bytes; 0: it has closed.
    Piece(usize),
    /// Something is there, and stays there.
    Waits,
}

struct Pump<'a> {
    from: ReadHalf<'a>,
    to: WriteHalf<'a>,
    lane: &'a Lane,
    treatment: watch::Receiver<Treatment>,
    /// What was read, with the time at which it is to arrive.
    waiting: VecDeque<(Instant, Vec<u8>)>,
    waiting_bytes: usize,
    last_due: Instant,
    rng: SmallRng,
    /// More may come.
    open: bool,
    /// Something was swallowed.
    has_hole: bool,
    hold_counted: bool,
}

impl Pump<'_> {
    async fn run(mut self) -> Result<(), Torn> {
        let mut piece = vec![0; PIECE_BYTES];
        while self.open || !self.waiting.is_empty() {
            let treatment = *self.treatment.borrow_and_update();
            self.check(treatment)?;
            let holds = treatment == Treatment::Hold;
            let due = self.waiting.front().map(|(due, _)| *due);
            let reads = self.open && !holds && self.waiting_bytes < WAITING_BYTES_MAX;
            let limit = largest_piece(treatment);
            let from = &mut self.from;
            let arrival = async {
                if reads {
                    from.read(&mut piece[..limit]).await.map(Arrival::Piece)
                } else {
                    from.readable().await.map(|()| Arrival::Waits)
                }
            };
            let looks = reads || (holds && self.open && !self.hold_counted);
            tokio::select! {
                biased;
                changed = self.treatment.changed() => changed.map_err(|_| Torn)?,
                () = sleep_until(due.unwrap_or(self.last_due)), if due.is_some() && !holds => {
                    self.deliver().await?;
                }
                arrived = arrival, if looks => match arrived? {
                    Arrival::Piece(0) => self.open = false,
                    Arrival::Piece(length) => self.take(&piece[..length], treatment)?,
                    Arrival::Waits => {
                        self.hold_counted = true;
                        count(&self.lane.tally.held, 1);
                    }
                },
            }
        }
        if self.has_hole {
            return Err(Torn);
        }
        Ok(self.to.shutdown().await?)
    }

    /// What the current treatment means for the connection itself.
    fn check(&mut self, treatment: Treatment) -> Result<(), Torn> {
        if treatment != Treatment::Hold {
            self.hold_counted = false;
        }
        let is_torn = self.has_hole && treatment != Treatment::Swallow;
        if is_torn || treatment == Treatment::Refuse {
            count(&self.lane.tally.reset, 1);
            return Err(Torn);
        }
        Ok(())
    }

    async fn deliver(&mut self) -> Result<(), Torn> {
        if let Some((_, piece)) = self.waiting.pop_front() {
            self.waiting_bytes -= piece.len();
            self.to.write_all(&piece).await?;
            count(&self.lane.tally.passed, piece.len() as u64);
        }
        Ok(())
    }

    fn take(&mut self, piece: &[u8], treatment: Treatment) -> Result<(), Torn> {
        let tally = &self.lane.tally;
        let mut piece = piece.to_vec();
        let mut late = Duration::ZERO;
        match treatment {
            Treatment::Pass | Treatment::Hold | Treatment::Refuse => {}
            Treatment::Delay { base, jitter } => {
                late = base + jitter.mul_f64(self.rng.random());
            }
            Treatment::Loss { percent } => {
                while self.hits(percent) {
                    late = RESEND.max(2 * late);
                }
            }
            Treatment::Reset { percent } => {
                if self.hits(percent) {
                    count(&tally.reset, 1);
                    return Err(Torn);
                }
            }
            Treatment::Swallow => {
                self.has_hole = true;
                count(&tally.swallowed, piece.len() as u64);
                return Ok(());
            }
            Treatment::Limit { bytes_per_s } => {
                let behind = self.last_due.saturating_duration_since(Instant::now());
                let own = Duration::from_secs(piece.len() as u64).div_f64(bytes_per_s as f64);
                late = behind + own;
            }
            Treatment::Corrupt { percent } => {
                if self.hits(percent) {
                    let at = self.rng.random_range(0..piece.len());
                    piece[at] ^= 1 << self.rng.random_range(0..8);
                    count(&tally.corrupted, 1);
                }
            }
        }
        if !late.is_zero() {
            count(&tally.delayed, 1);
        }
        // Nothing overtakes inside a connection.
        self.last_due = self.last_due.max(Instant::now() + late);
        self.waiting_bytes += piece.len();
        self.waiting.push_back((self.last_due, piece));
        Ok(())
    }

    fn hits(&mut self, percent: u8) -> bool {
        self.rng.random_bool(f64::from(percent.min(99)) / 100.0)
    }
}

/// A slow lane moves small pieces, so that it is slow and not jerky.
fn largest_piece(treatment: Treatment) -> usize {
    match treatment {
        Treatment::Limit { bytes_per_s } => {
            let tenth = usize::try_from(bytes_per_s / 10).unwrap_or(PIECE_BYTES);
            tenth.clamp(1, PIECE_BYTES)
        }
        _ => PIECE_BYTES,
    }
}
