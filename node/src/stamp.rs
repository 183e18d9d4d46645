//! What varies between replicas and is therefore stamped into a command before it is proposed: time, and minted ids.
//!
//! This is the only place of the node that reads the wall clock or entropy.
//!
//! The leader's stamp is an anchor plus monotonic time. The anchor is the wall clock if it is within [`SKEW_MAX`] of this node's
//! estimate of the leader's time, and else that estimate; never below the replicated clock. So one node's wild clock cannot expire
//! the world, not even a little with every election. Only when no node can vouch for the time (all nodes were down) is a wall
//! trusted, and said so.
//!
//! If all nodes were wrong together, that time is wrong. So the leader compares it with the walls of all voters ([`walls`]), and
//! returns to what a majority of them agrees on ([`course`]).

mod course;
mod office;
mod sighting;
#[cfg(test)]
mod tests;
mod walls;

use std::{
    collections::BTreeSet,
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use data_encoding::BASE32_NOPAD;
use helve_machine::planted::{self, Plant};
use zeroize::Zeroizing;

pub use self::sighting::SKEW_MAX;
use self::{
    office::Office,
    sighting::{Sighting, ms, signed},
    walls::Walls,
};

/// How long what a majority of walls agreed on counts as known.
const AGREED_FRESH: Duration = Duration::from_secs(3);

/// The operating system gave no entropy, so no id can be minted.
#[derive(Debug, thiserror::Error)]
#[error("the operating system gave no entropy: {0}")]
pub struct EntropyError(getrandom::Error);

/// Mints an id: 16 bytes of the operating system's CSPRNG in RFC 4648 base32 without padding, 26 characters.
///
/// # Errors
/// If entropy fails. There is no fallback: a guessable id would be worse than none.
pub fn mint_id() -> Result<String, EntropyError> {
    if planted::is(Plant::NoEntropy) {
        return Err(EntropyError(getrandom::Error::UNSUPPORTED));
    }
    random_bytes().map(|bytes| BASE32_NOPAD.encode(&bytes))
}

/// 16 bytes of the operating system's CSPRNG.
///
/// # Errors
/// If entropy fails.
pub fn random_bytes() -> Result<[u8; 16], EntropyError> {
    random()
}

/// This many bytes of the operating system's CSPRNG.
///
/// # Errors
/// If entropy fails.
pub fn random<const N: usize>() -> Result<[u8; N], EntropyError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(EntropyError)?;
    Ok(bytes)
}

/// The 256 bits of a token, from the operating system's CSPRNG.
///
/// # Errors
/// If entropy fails.
pub fn secret_bytes() -> Result<Zeroizing<[u8; 32]>, EntropyError> {
    let mut bytes = Zeroizing::new([0; 32]);
    getrandom::fill(bytes.as_mut()).map_err(EntropyError)?;
    Ok(bytes)
}

/// A random (version 4) UUID in its usual text form.
///
/// # Errors
/// If entropy fails.
pub fn mint_uuid() -> Result<String, EntropyError> {
    random_bytes().map(|bytes| {
        uuid::Builder::from_random_bytes(bytes)
            .into_uuid()
            .to_string()
    })
}

/// A version 7 UUID: the wall clock's time and randomness, which name a call that the command line sends.
///
/// # Errors
/// If entropy fails.
pub fn request_id() -> Result<[u8; 16], EntropyError> {
    let random = random_bytes()?;
    let tail = random
        .first_chunk::<10>()
        .expect("sixteen bytes have ten first ones");
    let uuid = uuid::Builder::from_unix_timestamp_millis(wall_ms(), tail).into_uuid();
    Ok(uuid.into_bytes())
}

/// The wall clock in milliseconds since the Unix epoch; 0 before it. Commands have the leader's stamp instead: see [`Stamper`].
#[must_use]
pub fn wall_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The wall clock in nanoseconds since the Unix epoch, for what is shown to people; 0 before it.
#[must_use]
pub fn wall_ns() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[derive(Debug, Default)]
struct State {
    /// The latest evidence of the leader's time: a stamp that came with a read index, or what a peer vouches for.
    seen: Option<Sighting>,
    /// The walls of other nodes, as they answered this one.
    walls: Walls,
    /// What a majority of walls agrees on, as the leader last found.
    agreed: Option<Sighting>,
    office: Option<Office>,
}

/// Gives out the leader's stamps, and estimates them on other nodes.
#[derive(Debug, Default)]
pub struct Stamper {
    state: Mutex<State>,
}

impl Stamper {
    /// Notes evidence of the leader's time: a clock that was just applied, or a stamp that a leader just sent.
    pub fn note(&self, time_ms: u64) {
        let at = Instant::now();
        let mut state = self.lock();
        if state
            .seen
            .is_none_or(|seen| seen.extrapolated(at) <= time_ms || seen.time_ms <= time_ms)
        {
            state.seen = Some(Sighting { at, time_ms });
        }
    }

    /// Notes what a peer vouches for; 0 if it cannot.
    pub fn vouched(&self, time_ms: u64) {
        if time_ms > 0 {
            self.note(time_ms);
        }
    }

    /// The leader's time as this node estimates it; `None` if it has heard of none since it started.
    #[must_use]
    pub fn estimate(&self) -> Option<u64> {
        let seen = self.lock().seen?;
        Some(seen.extrapolated(Instant::now()))
    }

    /// How far this node's wall clock is from the leader's time, in milliseconds, if that is beyond [`SKEW_MAX`]; else 0, and while
    /// it has heard of no leader.
    #[must_use]
    pub fn wall_off_ms(&self) -> u64 {
        self.wall_off_at(Instant::now(), wall_ms())
    }

    fn wall_off_at(&self, now: Instant, wall_ms: u64) -> u64 {
        let seen = self.lock().seen;
        let off = seen.map_or(0, |seen| wall_ms.abs_diff(seen.extrapolated(now)));
        if off > ms(SKEW_MAX) { off } else { 0 }
    }

    /// Notes the wall clock of another node, from its answer to what this one asked at `asked`; 0: it did not say.
    pub fn heard_wall(&self, id: u64, asked: Instant, wall_ms: u64) {
        self.lock().walls.note(id, asked, Instant::now(), wall_ms);
    }

    /// Compares the time of this node, which leads in `term`, with the walls of all voters, its own (`own_id`) among them. Where a
    /// majority of them agrees on another time, stamps return to that from here on: so it has to be called a few times a second.
    pub fn compare(&self, term: u64, clock_ms: u64, own_id: u64, voters: &[BTreeSet<u64>]) {
        self.compare_at(
            (term, clock_ms),
            (own_id, wall_ms()),
            voters,
            Instant::now(),
        );
    }

    fn compare_at(
        &self,
        (term, clock_ms): (u64, u64),
        (own_id, wall_ms): (u64, u64),
        voters: &[BTreeSet<u64>],
        now: Instant,
    ) {
        let time_ms = self.stamp_at(term, clock_ms, now, wall_ms);
        let state = &mut *self.lock();
        let mut walls = state.walls.fresh(now);
        walls.insert(own_id, wall_ms);
        let agreed_ms = walls::agreed(&walls, voters, time_ms);
        state.agreed = agreed_ms.map(|time_ms| Sighting { at: now, time_ms });
        if let Some(office) = &mut state.office {
            office.course.look(now, agreed_ms, time_ms);
        }
    }

    /// Notes what the leader says that a majority of walls agrees on; 0: on nothing, or it does not know.
    pub fn note_agreed(&self, time_ms: u64) {
        let agreed = (time_ms > 0).then(|| Sighting {
            at: Instant::now(),
            time_ms,
        });
        self.lock().agreed = agreed;
    }

    /// What a majority of walls agrees on, in milliseconds since the Unix epoch, as far as this node knows.
    #[must_use]
    pub fn agreed_ms(&self) -> Option<u64> {
        let (agreed, now) = (self.lock().agreed?, Instant::now());
        let is_fresh = now.saturating_duration_since(agreed.at) <= AGREED_FRESH;
        is_fresh.then(|| agreed.extrapolated(now))
    }

    /// How far the walls that a majority agrees on are ahead of the leader's time, in milliseconds; negative: behind; `None` if this
    /// node knows of no such majority, or of no leader.
    #[must_use]
    pub fn walls_ahead_ms(&self) -> Option<i64> {
        Some(signed(self.agreed_ms()?, self.estimate()?))
    }

    /// How far this node's wall is from what a majority of walls agrees on, in milliseconds, if that is beyond [`SKEW_MAX`]; else 0;
    /// `None` if it knows of no such majority.
    #[must_use]
    pub fn wall_wrong_ms(&self) -> Option<u64> {
        let off = wall_ms().abs_diff(self.agreed_ms()?);
        Some(if off > ms(SKEW_MAX) { off } else { 0 })
    }

    /// How far another node's wall is ahead of the leader's time, in milliseconds; negative: behind; `None` if it did not answer this
    /// node lately. The leader hears of all.
    #[must_use]
    pub fn wall_ahead_ms(&self, id: u64) -> Option<i64> {
        let time_ms = self.estimate()?;
        let walls = self.lock().walls.fresh(Instant::now());
        Some(signed(*walls.get(&id)?, time_ms))
    }

    /// How far the cluster's time moved, in milliseconds, when this node last began to lead and no
    /// other node could vouch for the time, if that was alarming; else 0.
    #[must_use]
    pub fn jump_ms(&self) -> u64 {
        self.lock()
            .office
            .as_ref()
            .map_or(0, |office| office.jump_ms)
    }

    /// The stamp for a command that this node, leading in `term`, is about to propose. Never below `clock_ms`, never falling.
    pub fn stamp(&self, term: u64, clock_ms: u64) -> u64 {
        self.stamp_at(term, clock_ms, Instant::now(), wall_ms())
    }

    fn stamp_at(&self, term: u64, clock_ms: u64, now: Instant, wall_ms: u64) -> u64 {
        if planted::is(Plant::WildStamp) {
            return wall_ms;
        }
        let state = &mut *self.lock();
        let (seen, walls) = (state.seen, &mut state.walls);
        let office = match &mut state.office {
            Some(office) if office.term >= term => office,
            slot => slot.insert(Office::begin(term, seen, walls, clock_ms, now, wall_ms)),
        };
        let stamp = office.stamp(clock_ms, now, wall_ms);
        state.seen = Some(Sighting {
            at: now,
            time_ms: stamp,
        });
        stamp
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
