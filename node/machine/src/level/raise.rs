//! How a group's feature level rises, and what is refused above it.

use bytes::Bytes;
use helve_proto::command::v1::{
    Command, FeatureLevelRaised, NumberRow, Probed, RaiseFeatureLevel, Refusal,
};

use super::{FIRST, MENDED, feature_level};
use crate::{
    context::{Call, Stop},
    fault::Fault,
    layout::{Due, Space},
    limits::{DEFAULT_TENANT, TENANTS_MAX},
    row, sealing,
    view::View,
};

/// Refuses a command above the group's level: its proposer did not look.
pub(crate) fn admit<V: View>(call: &Call<'_, V>, command: &Command) -> Result<(), Stop> {
    if command.feature_level > FIRST
        && command.feature_level > feature_level(call.batch, call.space.group_id)?
    {
        return Err(Stop::refused(Refusal::FeatureLevel));
    }
    Ok(())
}

/// Raises the group's level, or leaves it where it is.
pub(crate) fn apply<V: View>(
    call: &mut Call<'_, V>,
    command: RaiseFeatureLevel,
) -> Result<FeatureLevelRaised, Fault> {
    if command.level > call.supported {
        return Err(Fault::FeatureLevel {
            needed: command.level,
            known: call.supported,
        });
    }
    let level = feature_level(call.batch, call.space.group_id)?;
    if command.level <= level {
        return Ok(FeatureLevelRaised { level });
    }
    let value = row::encode(&NumberRow {
        value: command.level.into(),
    });
    call.batch.put(call.space.group().feature_level(), value);
    if level < MENDED && command.level >= MENDED {
        schedule_recounts(call)?;
        call.batch.mend_deadlines_from(call.space.group())?;
        sealing::raised(call)?;
    }
    Ok(FeatureLevelRaised {
        level: command.level,
    })
}

/// Has every tenant's tombstones, rows, bytes and sessions counted, which older levels may have
/// miscounted: a count that says too much shows in no other way. A tenant at a time, as if it were due
/// now, so that Ticks do it beside callers.
fn schedule_recounts<V: View>(call: &mut Call<'_, V>) -> Result<(), Fault> {
    let group = call.space.group();
    let all = group.tenants();
    let made = call.batch.range(&all.prefix, &all.end, TENANTS_MAX)?;
    let names = made.iter().map(|(key, _)| &key[all.prefix.len()..]);
    let names = names.filter_map(|name| std::str::from_utf8(name).ok());
    let others = names.filter(|name| *name != DEFAULT_TENANT);
    for tenant in [DEFAULT_TENANT].into_iter().chain(others) {
        let space = Space {
            group_id: group.0,
            tenant,
        };
        let now = Some(call.clock_ms);
        let counts = Due::Recount(Bytes::new());
        call.batch.move_deadline(space, &counts, None, now)?;
    }
    Ok(())
}

/// Counts itself.
pub(crate) fn probe<V: View>(call: &mut Call<'_, V>) -> Result<Probed, Fault> {
    let key = call.space.group().probes();
    let last: Option<NumberRow> = row::read(call.batch, "probes", &key)?;
    let count = last.map_or(0, |last| last.value).saturating_add(1);
    call.batch
        .put(key, row::encode(&NumberRow { value: count }));
    Ok(Probed { count })
}
