//! Messages that cost a node more than their caller: begun and not ended, or many times as large once they are decoded.

use std::future::{pending, poll_fn};

use anyhow::{Context as _, Result};
use bytes::{Buf as _, BufMut as _, Bytes};
use helve_client::NodeConnection;
use helve_proto::v1::BatchRetrieveRequest;
use http_body_util::{BodyExt as _, Full};
use tonic::{
    Status,
    body::Body,
    client::Grpc,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    codegen::{
        Service as _,
        http::{Request, uri::PathAndQuery},
    },
};

/// Begins a call with all but the last byte of a message of this many bytes, and waits for what the node says to that.
///
/// # Errors
///
/// If the connection breaks.
pub async fn unfinished(
    mut line: NodeConnection,
    path: &'static str,
    bytes: usize,
) -> Result<Status> {
    let length = u32::try_from(bytes)?.to_be_bytes();
    let begun = [&[0][..], &length, &vec![7; bytes - 1]].concat();
    let body = Body::new(Full::new(Bytes::from(begun)).with_trailers(pending()));
    let request = Request::post(path).header("content-type", "application/grpc");
    poll_fn(|context| line.poll_ready(context)).await?;
    let answer = line.call(request.body(body)?).await?;
    Status::from_header_map(answer.headers()).context("the call was not refused")
}

/// A message of this many bytes that is all empty elements of one repeated field, of two bytes each.
#[must_use]
pub fn tiny_elements(field: u8, bytes: usize) -> Bytes {
    [field << 3 | 2, 0].repeat(bytes / 2).into()
}

/// A read that names one long owner once, and many keys.
#[must_use]
pub fn long_owner(bytes: usize, keys: usize) -> BatchRetrieveRequest {
    BatchRetrieveRequest {
        owner: "o".repeat(bytes),
        keys: vec![String::new(); keys],
    }
}

/// Makes a unary call with a message as it is.
///
/// # Errors
///
/// What the node, or the connection, says.
pub async fn raw(
    line: NodeConnection,
    path: &'static str,
    message: Bytes,
) -> Result<Bytes, Status> {
    let mut caller = Grpc::new(line);
    caller.ready().await?;
    let path = PathAndQuery::from_static(path);
    let answer = caller
        .unary(tonic::Request::new(message), path, Raw)
        .await?;
    Ok(answer.into_inner())
}

/// Messages as they are on the wire.
#[derive(Debug, Clone, Copy, Default)]
struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, buffer: &mut EncodeBuf<'_>) -> Result<(), Status> {
        buffer.put(item);
        Ok(())
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = buffer.remaining();
        Ok(Some(buffer.copy_to_bytes(length)))
    }
}
