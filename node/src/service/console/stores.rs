//! The stores of a tenant, and what they hold.

use std::sync::Arc;

use helve_machine::{
    Fault,
    limits::NAME_BYTES_MAX,
    query::{Read, StoreUsage, list_stores, store_usage, tenant_usage},
};
use serde_json::{Value as Json, json};
use tokio::time::Instant;

use super::admitted::Admitted;
use crate::{
    audit::{Class, Ended},
    limits::{CONSOLE_STORES_MAX, DEADLINE_DEFAULT, GROUP_ID},
    read_index::{Place, ReadView},
    service::{
        Services,
        caller::{Caller, Power},
        failure::Failure,
        query::scope,
        status::Problem,
        target::{Target, Targets},
    },
};

const RPC: &str = "ListStores";

/// Names no record.
struct Stores;

impl Targets for Stores {
    fn targets<'a>(&'a self, _: &mut dyn FnMut(Target<'a>)) {}
}

impl Services {
    /// A page of the stores of the caller's tenant that its token is for, behind `after`, and what the tenant holds in all.
    pub(super) async fn stores(&self, admitted: &Admitted, after: String) -> Result<Json, Problem> {
        let caller = (&*admitted.caller, Some(admitted.from));
        let entry = self.begin_entry(Class::Read, RPC, caller, &Stores)?;
        let listed = self.stores_of(admitted, after).await;
        let listed = listed.map_err(Problem::from);
        entry.ended(|| {
            Ended::with(match &listed {
                Ok(_) => "OK",
                Err(problem) => problem.reason().as_str(),
            })
        });
        listed
    }

    async fn stores_of(&self, admitted: &Admitted, after: String) -> Result<Json, Failure> {
        if after.len() > NAME_BYTES_MAX {
            let why =
                format!("`after` has more than {NAME_BYTES_MAX} bytes, and no store's name has");
            return Err(Failure::Malformed(why));
        }
        self.cluster.readiness.serves().map_err(Failure::Stopping)?;
        let deadline = Instant::now() + DEADLINE_DEFAULT;
        let caller = Arc::clone(&admitted.caller);
        let tenant = &admitted.caller.tenant;
        let turn = self.long_reads.turn_by(tenant, deadline).await?;
        let look = move |view: &ReadView<'_>| {
            // Held until no thread reads, though the call may be cancelled before.
            let _turn = &turn;
            page(view, &caller, &after).map(Read::Answer)
        };
        let page = self.reader.read(tenant, deadline, Place::Disk, look);
        Ok(page.await?)
    }
}

/// A page, as JSON. Of a token for some stores alone it is what these hold: other names are not its holder's to know.
fn page(view: &ReadView<'_>, caller: &Caller, after: &str) -> Result<Json, Fault> {
    let scope = scope(view, &caller.tenant);
    let scopes = match &caller.power {
        Power::Token { grant, .. } => {
            let is_scoped = !(grant.stores.is_empty() && grant.key_prefixes.is_empty());
            is_scoped.then_some(&grant.stores)
        }
        Power::All | Power::Nothing => None,
    };
    if let Some(stores) = scopes {
        let listed = stores.iter().map(|store| {
            let usage = store_usage(view.view, &scope, store)?;
            let store = store.clone();
            Ok(StoreUsage { store, usage })
        });
        let listed = listed.collect::<Result<Vec<_>, Fault>>()?;
        return Ok(json!({ "tenant": caller.tenant, "stores": shown(&listed), "after": "" }));
    }
    let used = tenant_usage(view.view, GROUP_ID, &caller.tenant)?;
    let (listed, has_more) = list_stores(view.view, &scope, after, CONSOLE_STORES_MAX)?;
    let last = listed.last().filter(|_| has_more);
    Ok(json!({
        "tenant": caller.tenant,
        "rows": used.rows,
        "bytes": used.bytes,
        "stores": shown(&listed),
        "after": last.map_or("", |last| &last.store),
    }))
}

fn shown(stores: &[StoreUsage]) -> Vec<Json> {
    let held = stores.iter().filter(|found| found.usage.rows > 0);
    let shown = held.map(|found| {
        json!({
            "store": found.store,
            "handles": found.usage.rows,
            "bytes": found.usage.bytes,
        })
    });
    shown.collect()
}
