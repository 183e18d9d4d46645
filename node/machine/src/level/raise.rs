//! How a group's feature level rises, and what is refused above it.

use std::collections::BTreeSet;

use bytes::Bytes;
use helve_proto::command::v1::{
    Command, FeatureLevelRaised, NumberRow, Probed, RaiseFeatureLevel, Refusal, UsageRow,
};

use super::{FIRST, MENDED, feature_level};
use crate::{
    batch::Batch,
    context::{Call, Stop},
    fault::Fault,
    layout::{Due, Group, Space, tenant_of},
    limits::{DEFAULT_TENANT, TENANTS_MAX},
    row, sealing, tombstone,
    usage::Counter,
    view::{View, after},
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
    let group_id = call.space.group_id;
    for tenant in tenants(call.batch, call.space.group())? {
        let space = Space {
            group_id,
            tenant: &tenant,
        };
        let now = Some(call.clock_ms);
        let counts = Due::Recount(Bytes::new());
        call.batch.move_deadline(space, &counts, None, now)?;
    }
    Ok(())
}

/// The default tenant, those that were made, and others of which anything counts: a call needs no tenant that was made, though nodes
/// propose none without.
fn tenants<V: View>(batch: &Batch<V>, group: Group) -> Result<BTreeSet<String>, Fault> {
    let all = group.tenants();
    let made = batch.range(&all.prefix, &all.end, TENANTS_MAX)?;
    let names = made.iter().map(|(key, _)| &key[all.prefix.len()..]);
    let mut tenants: BTreeSet<String> = names.filter_map(text).collect();
    tenants.insert(DEFAULT_TENANT.to_owned());
    for tenant in named(batch, group)? {
        let space = Space {
            group_id: group.0,
            tenant: &tenant,
        };
        if !tenants.contains(&tenant) && has_counts(batch, space)? {
            tenants.insert(tenant);
        }
    }
    Ok(tenants)
}

/// The tenants that keys of rows name. Counters that are not written yet may name more, and rows that are about to go are named, too:
/// so how commands are batched shows, until each tenant is looked at.
fn named<V: View>(batch: &Batch<V>, group: Group) -> Result<BTreeSet<String>, Fault> {
    let all = group.all();
    let counted = batch
        .counted_keys()
        .filter(|key| key.starts_with(&all.prefix));
    let counted = counted.filter_map(|key| text(tenant_of(key)?.0));
    let mut named: BTreeSet<String> = counted.collect();
    let mut from = all.prefix.clone();
    while let Some((key, _)) = batch.range(&from, &all.end, 1)?.pop() {
        from = match tenant_of(&key) {
            Some((tenant, behind)) => {
                named.extend(text(tenant));
                behind
            }
            None => after(&key),
        };
    }
    Ok(named)
}

/// Whether anything of a tenant is counted, or is to be.
fn has_counts<V: View>(batch: &Batch<V>, space: Space<'_>) -> Result<bool, Fault> {
    let counts = |counter| Ok::<_, Fault>(batch.usage(space, counter)? != UsageRow::default());
    Ok(counts(Counter::Tenant)? || counts(Counter::Sessions)? || tombstone::is_any(batch, space)?)
}

fn text(name: &[u8]) -> Option<String> {
    std::str::from_utf8(name).ok().map(str::to_owned)
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
