//! What belongs to the group as a whole: its cluster's name and its nodes' ids.

use bytes::Bytes;
use helve_proto::command::v1::{
    AllocateNodeId, AllocatedNodeId, ClusterIdSet, ClusterRow, NumberRow, Refusal, SetClusterId,
};

use crate::{
    context::{Call, Stop},
    fault::Fault,
    layout::Group,
    row,
    view::View,
};

/// The cluster's id; `None` before it is named.
///
/// # Errors
/// A fault if the row cannot be read.
pub fn cluster_id(view: &impl View, group_id: u32) -> Result<Option<String>, Fault> {
    let row: Option<ClusterRow> = row::read(view, "cluster ids", &Group(group_id).cluster())?;
    Ok(row.map(|row| row.cluster_id))
}

/// The row that names the cluster so: for the offline recovery of a survivor, whose rows become those of a new cluster.
#[must_use]
pub fn cluster_row(group_id: u32, cluster_id: &str) -> (Bytes, Bytes) {
    let row = ClusterRow {
        cluster_id: cluster_id.to_owned(),
    };
    (Group(group_id).cluster(), row::encode(&row))
}

/// The first name stays.
pub(crate) fn set_cluster_id<V: View>(
    call: &mut Call<'_, V>,
    command: &SetClusterId,
) -> Result<ClusterIdSet, Fault> {
    let cluster_id = match cluster_id(call.batch, call.space.group_id)? {
        Some(cluster_id) => cluster_id,
        None => {
            let row = ClusterRow {
                cluster_id: command.cluster_id.clone(),
            };
            call.batch
                .put(call.space.group().cluster(), row::encode(&row));
            row.cluster_id
        }
    };
    Ok(ClusterIdSet { cluster_id })
}

/// The next id that was never given out.
pub(crate) fn allocate_node_id<V: View>(
    call: &mut Call<'_, V>,
    command: AllocateNodeId,
) -> Result<AllocatedNodeId, Stop> {
    let key = call.space.group().node_ids();
    let last: Option<NumberRow> = row::read(call.batch, "node ids", &key)?;
    let id = last
        .map_or(0, |last| last.value)
        .max(command.taken_max)
        .checked_add(1)
        .ok_or_else(|| Stop::refused(Refusal::Malformed))?;
    call.batch.put(key, row::encode(&NumberRow { value: id }));
    Ok(AllocatedNodeId { id })
}
