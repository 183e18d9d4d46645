//! As much of etcd's v3 contract as the workloads use (`rpc.proto`, `kv.proto`), spoken over tonic as the etcd-client crate does, which
//! would want protoc to build.

use anyhow::Result;
use bytes::Bytes;
use prost::{Message, Oneof};
use tonic::{client::Grpc, codegen::http::uri::PathAndQuery, transport::Channel};
use tonic_prost::ProstCodec;

/// A request, where it is sent, and what answers it.
pub(super) trait Rpc: Message + Default + 'static {
    const PATH: &'static str;
    type Response: Message + Default + 'static;
}

pub(super) async fn call<R: Rpc>(channel: Channel, request: R) -> Result<R::Response> {
    let mut grpc = Grpc::new(channel);
    grpc.ready().await?;
    let path = PathAndQuery::from_static(R::PATH);
    let codec = ProstCodec::<R, R::Response>::default();
    let request = tonic::Request::new(request);
    Ok(grpc.unary(request, path, codec).await?.into_inner())
}

macro_rules! rpcs {
    ($($request:ident -> $response:ident = $path:literal;)*) => {$(
        impl Rpc for $request {
            const PATH: &'static str = $path;
            type Response = $response;
        }
    )*};
}

rpcs! {
    PutRequest -> PutResponse = "/etcdserverpb.KV/Put";
    RangeRequest -> RangeResponse = "/etcdserverpb.KV/Range";
    DeleteRangeRequest -> DeleteRangeResponse = "/etcdserverpb.KV/DeleteRange";
    TxnRequest -> TxnResponse = "/etcdserverpb.KV/Txn";
    LeaseGrantRequest -> LeaseGrantResponse = "/etcdserverpb.Lease/LeaseGrant";
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct KeyValue {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) mod_revision: i64,
    #[prost(bytes = "bytes", tag = "5")]
    pub(super) value: Bytes,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) value: Bytes,
    #[prost(int64, tag = "3")]
    pub(super) lease: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct PutResponse {}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    /// Without one, the key alone.
    #[prost(bytes = "bytes", tag = "2")]
    pub(super) range_end: Bytes,
    #[prost(bool, tag = "8")]
    pub(super) keys_only: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RangeResponse {
    #[prost(message, repeated, tag = "2")]
    pub(super) kvs: Vec<KeyValue>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeRequest {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) key: Bytes,
    #[prost(bool, tag = "3")]
    pub(super) prev_kv: bool,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct DeleteRangeResponse {
    #[prost(message, repeated, tag = "3")]
    pub(super) prev_kvs: Vec<KeyValue>,
}

/// That the key was last changed at this revision; 0: that there is no such key. Target and result have the numbers of
/// `Compare.CompareTarget.MOD` and `Compare.CompareResult.EQUAL`.
#[derive(Clone, PartialEq, Message)]
pub(super) struct Compare {
    #[prost(int32, tag = "1")]
    result: i32,
    #[prost(int32, tag = "2")]
    target: i32,
    #[prost(bytes = "bytes", tag = "3")]
    key: Bytes,
    /// A member of a oneof: it is encoded even where it is 0.
    #[prost(int64, optional, tag = "6")]
    mod_revision: Option<i64>,
}

impl Compare {
    pub(super) fn changed_at(key: Bytes, mod_revision: i64) -> Self {
        Self {
            result: 0,
            target: 2,
            key,
            mod_revision: Some(mod_revision),
        }
    }
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Operation {
    #[prost(message, tag = "1")]
    Range(RangeRequest),
    #[prost(message, tag = "2")]
    Put(PutRequest),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct RequestOp {
    #[prost(oneof = "Operation", tags = "1, 2")]
    pub(super) request: Option<Operation>,
}

impl From<Operation> for RequestOp {
    fn from(operation: Operation) -> Self {
        Self {
            request: Some(operation),
        }
    }
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnRequest {
    #[prost(message, repeated, tag = "1")]
    pub(super) compare: Vec<Compare>,
    #[prost(message, repeated, tag = "2")]
    pub(super) success: Vec<RequestOp>,
}

#[derive(Clone, PartialEq, Oneof)]
pub(super) enum Outcome {
    #[prost(message, tag = "1")]
    Range(RangeResponse),
    #[prost(message, tag = "2")]
    Put(PutResponse),
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct ResponseOp {
    #[prost(oneof = "Outcome", tags = "1, 2")]
    pub(super) response: Option<Outcome>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct TxnResponse {
    #[prost(bool, tag = "2")]
    pub(super) succeeded: bool,
    #[prost(message, repeated, tag = "3")]
    pub(super) responses: Vec<ResponseOp>,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrantRequest {
    /// In seconds.
    #[prost(int64, tag = "1")]
    pub(super) ttl: i64,
}

#[derive(Clone, PartialEq, Message)]
pub(super) struct LeaseGrantResponse {
    #[prost(int64, tag = "2")]
    pub(super) id: i64,
}
