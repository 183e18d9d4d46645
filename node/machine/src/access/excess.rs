//! By how much a tenant is over its quota of bytes.

use helve_proto::command::v1::UsageRow;

use crate::{
    context::{Call, Lack},
    fault::Fault,
    usage::Counter,
    view::View,
};

/// What the call's tenant lacks to be within its quota of bytes; `None` if it is, or below the level that sees to that.
pub(crate) fn excess<V: View>(call: &mut Call<'_, V>) -> Result<Option<Lack>, Fault> {
    if !call.is_mended()? {
        return Ok(None);
    }
    let quota = call.batch.quotas(call.space)?.bytes;
    let used = call.batch.usage(call.space, Counter::Tenant)?.bytes;
    let is_over = quota > 0 && used > quota;
    Ok(is_over.then(|| {
        Lack::Usage(UsageRow {
            rows: 0,
            bytes: used - quota,
        })
    }))
}
