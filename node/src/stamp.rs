//! What varies between replicas and is therefore stamped into a command before it is proposed: time, and minted ids.
//!
//! This is the only place of the node that reads the wall clock or entropy.
//!
//! The leader's stamp is an anchor plus monotonic time. The anchor is the wall clock if it is within [`SKEW_MAX`] of this node's
//! estimate of the leader's time, and else that estimate; never below the replicated clock. So one node's wild clock cannot expire
//! the world, not even a little with every election. Only when nobody can vouch (all nodes were down) is the wall trusted, and
//! said so.

#[cfg(test)]
mod tests;

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use data_encoding::BASE32_NOPAD;
use helve_machine::planted::{self, Plant};
use zeroize::Zeroizing;

/// How far, at most, a new leader's stamp may be from the cluster's own estimate of time: a wall further off is not followed.
pub const SKEW_MAX: Duration = Duration::from_secs(10);

/// Beyond this distance between wall and replicated clock, a wall that has to be trusted is reported.
const OUTLIER: Duration = Duration::from_secs(24 * 3600);

/// A stamp approaches the wall by at most one part in this many of the time that passes: slewed, never stepped.
const SLEW_PARTS: u64 = 2_000;

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

/// So many bytes of the operating system's CSPRNG.
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

/// The wall clock in milliseconds since the Unix epoch; 0 before it. Commands bear the leader's stamp instead: see [`Stamper`].
#[must_use]
pub fn wall_ms() -> u64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

fn ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A time in milliseconds, and when it was true.
#[derive(Debug, Clone, Copy)]
struct Sighting {
    at: Instant,
    time_ms: u64,
}

impl Sighting {
    fn extrapolated(self, now: Instant) -> u64 {
        self.time_ms
            .saturating_add(ms(now.saturating_duration_since(self.at)))
    }
}

#[derive(Debug)]
struct Office {
    term: u64,
    anchor: Sighting,
    slewed_at: Instant,
    last_ms: u64,
    /// How far the wall that it had to trust was from the replicated clock, if that was alarming; else 0.
    jump_ms: u64,
}

#[derive(Debug, Default)]
struct State {
    /// The latest evidence of the leader's time: a stamp that came with a read index, or what a peer vouches for.
    seen: Option<Sighting>,
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
            .is_none_or(|seen| seen.extrapolated(at) <= time_ms || seen.time_ms < time_ms)
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

    /// How far the cluster's time moved, in milliseconds, when this node last began to lead and nobody could vouch for the time, if
    /// that was alarming; else 0.
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
        let mut state = self.lock();
        let seen = state.seen;
        let office = match &mut state.office {
            Some(office) if office.term >= term => office,
            slot => slot.insert(Office {
                term,
                anchor: Sighting {
                    at: now,
                    time_ms: anchor(seen, clock_ms, now, wall_ms),
                },
                slewed_at: now,
                last_ms: 0,
                jump_ms: jump(seen, clock_ms, wall_ms),
            }),
        };
        slew(office, now, wall_ms);
        let stamp = office
            .anchor
            .extrapolated(now)
            .max(clock_ms)
            .max(office.last_ms);
        office.last_ms = stamp;
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

/// Where the office's time starts.
fn anchor(seen: Option<Sighting>, clock_ms: u64, now: Instant, wall_ms: u64) -> u64 {
    if let Some(seen) = seen {
        let now_ms = seen.extrapolated(now);
        // Held to the skew's end instead, a wild wall would move time by that much with every election.
        let is_near = wall_ms.abs_diff(now_ms) <= ms(SKEW_MAX);
        return clock_ms.max(if is_near { wall_ms } else { now_ms });
    }
    wall_ms.max(clock_ms)
}

/// How far a wall that has to be trusted is from the replicated clock, if that is alarming.
fn jump(seen: Option<Sighting>, clock_ms: u64, wall_ms: u64) -> u64 {
    let distance = wall_ms.abs_diff(clock_ms);
    if seen.is_some() || clock_ms == 0 || distance <= ms(OUTLIER) {
        return 0;
    }
    tracing::error!(
        wall_ms,
        clock_ms,
        "no node can vouch for the time, and this wall clock is far from the replicated clock: check it"
    );
    distance
}

/// Lets the anchor approach a wall that is near. One that is further off than the allowed skew is not followed.
fn slew(office: &mut Office, now: Instant, wall_ms: u64) {
    let budget = ms(now.saturating_duration_since(office.slewed_at)) / SLEW_PARTS;
    if budget == 0 {
        return;
    }
    office.slewed_at = now;
    let current = office.anchor.extrapolated(now);
    let distance = wall_ms.abs_diff(current);
    if distance > ms(SKEW_MAX) {
        tracing::warn!(
            distance_ms = distance,
            "this leader's wall clock is off: check it"
        );
    } else if wall_ms > current {
        office.anchor.time_ms += distance.min(budget);
    } else {
        office.anchor.time_ms -= distance.min(budget);
    }
}
