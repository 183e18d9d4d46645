//! `helve handle list`.

use helve_client::v1::ListRequest;
use helve_command::{
    cluster::{client, failed},
    ending::Outcome,
};

use super::args::ListArgs;
use crate::record::{Record, Records, records_text};

/// Runs the command.
///
/// # Errors
/// See [`Ending`](crate::cli::ending::Ending).
pub(super) async fn run(args: &ListArgs) -> Outcome {
    let request = ListRequest {
        store: args.store.clone(),
        owner: args.owner.clone(),
        with_values: args.values,
        ..ListRequest::default()
    };
    let parts = client(&args.cluster)?
        .list_handles(request)
        .await
        .map_err(failed)?;
    let header = parts.first().and_then(|part| part.header.clone());
    let handles = parts.into_iter().flat_map(|part| part.handles);
    let records = handles.map(|handle| {
        let value = args.values.then_some(&handle.value[..]);
        Record::new(handle.info.unwrap_or_default(), header.as_ref(), value)
    });
    let list = Records::new(header.as_ref(), records);
    args.output.print(&list, |list| records_text(list, "ID"))
}
