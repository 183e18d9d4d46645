//! The values of rows: a format byte, then a message.

use bytes::Bytes;
use helve_proto::command::v1::RecordRow;
use prost::Message;

use crate::{fault::Fault, limits::SEAL_BYTES, view::View};

const FORMAT: u8 = 1;

pub(crate) fn encode(row: &impl Message) -> Bytes {
    // Not `BytesMut`, which takes each byte of each number by a call of its own.
    let mut buffer = Vec::with_capacity(encoded_len(row));
    buffer.push(FORMAT);
    row.encode_raw(&mut buffer);
    buffer.into()
}

/// Bytes of an encoded row.
pub(crate) fn encoded_len(row: &impl Message) -> usize {
    1 + row.encoded_len()
}

/// `table` names the kind of row, for the fault.
pub(crate) fn decode<M: Message + Default>(table: &'static str, bytes: &Bytes) -> Result<M, Fault> {
    match bytes.first() {
        Some(&FORMAT) => {
            M::decode(bytes.slice(1..)).map_err(|source| Fault::Undecodable { table, source })
        }
        format => Err(Fault::UnknownFormat {
            table,
            format: format.copied().unwrap_or_default(),
        }),
    }
}

pub(crate) fn read<M: Message + Default>(
    view: &impl View,
    table: &'static str,
    key: &[u8],
) -> Result<Option<M>, Fault> {
    view.get(key)?
        .map(|bytes| decode(table, &bytes))
        .transpose()
}

/// Bytes of a row's value, as its caller sent it.
pub(crate) fn plain_bytes(row: &RecordRow) -> usize {
    let added = if row.sealed_under.is_empty() {
        0
    } else {
        SEAL_BYTES
    };
    row.value.len().saturating_sub(added)
}
