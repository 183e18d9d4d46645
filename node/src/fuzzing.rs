//! What fuzz targets call, in builds for tests and fuzzing alone. Each function takes bytes that a
//! client, a peer or an operator wrote, and panics if they are taken for what they are not.

use crate::tls::certificate::Certificate;
pub use crate::{
    audit::fuzzing::audit_file,
    backup::fuzzing::{archive_segment, backup_manifest},
    forward::forward_reply,
    raft::codec::fuzzing::peer_message,
    service::fuzzing::{
        client_header, client_message, client_stream, forward_batch, json_body, snapshot_parts,
    },
};

/// Reads a certificate.
///
/// # Panics
/// If its names are longer than the whole.
pub fn peer_certificate(bytes: &[u8]) {
    let read = Certificate::parse(&bytes.into());
    let names = read.map_or(0, |it| it.common_name.len() + it.names.concat().len());
    assert!(names <= bytes.len());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::seeds;

    #[test]
    fn seeds_of_each_target_hold() {
        seeds::each("archive_segment", archive_segment);
        seeds::each("audit_file", audit_file);
        seeds::each("backup_manifest", backup_manifest);
        seeds::each("client_header", client_header);
        seeds::each("client_message", client_message);
        seeds::each("client_stream", client_stream);
        seeds::each("forward_batch", forward_batch);
        seeds::each("forward_reply", forward_reply);
        seeds::each("json_body", json_body);
        seeds::each("peer_certificate", peer_certificate);
        seeds::each("peer_message", peer_message);
        seeds::each("snapshot_parts", snapshot_parts);
    }
}
