//! Reads the answer of gRPC, and writes it as JSON or bare protobuf, or as an error of the Connect protocol.

use std::{future::poll_fn, pin::Pin, sync::Arc};

use axum::http::{
    HeaderMap, HeaderValue, Response, StatusCode,
    header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use bytes::{Buf as _, Bytes, BytesMut};
use data_encoding::BASE64_NOPAD;
use hyper::body::Body as _;
use prost::Message as _;
use prost_reflect::{DynamicMessage, SerializeOptions};
use serde_json::{Value as Json, json};
use tonic::{Code, Status, body::Body};
use tonic_types::StatusExt as _;

use super::{
    call::JsonCall,
    codec::{Codec, JSON},
    schema::Rpc,
};
use crate::{
    bounds::What,
    limits::{JSON_REPLY_FREE_BYTES, MESSAGE_BYTES_MAX},
    service::{account::Account, failure::Failure},
};

/// Bytes in front of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;
/// What a reply takes up while it is made JSON, as a multiple of its bytes: its messages, and the text.
const DECODED_FACTOR: usize = 4;

/// The reply of a call, or of a list all parts in one, encoded for its caller.
pub(super) async fn read(
    call: &JsonCall,
    mut body: Body,
    account: Option<&Arc<Account>>,
) -> Result<Vec<u8>, Status> {
    let mut bytes = BytesMut::new();
    let mut parts = Vec::new();
    let mut held = 0;
    let mut ended = Err(Status::internal("the reply has no end"));
    while let Some(frame) = poll_fn(|context| Pin::new(&mut body).poll_frame(context)).await {
        match frame?.into_data() {
            Ok(data) => {
                held += data.len();
                if held > PREFIX_BYTES + MESSAGE_BYTES_MAX {
                    return Err(Failure::TooMuch.into());
                }
                bytes.extend_from_slice(&data);
                while let Some(part) = unframed(&mut bytes) {
                    parts.push(part);
                }
            }
            Err(other) => {
                if let Ok(trailers) = other.into_trailers() {
                    ended = ending(&trailers);
                }
            }
        }
    }
    ended?;
    let _charge = match account {
        Some(account) if call.codec == Codec::Json && held > JSON_REPLY_FREE_BYTES => {
            let room = account.answer_room(DECODED_FACTOR * held);
            let charge = Arc::clone(account).wait(What::AnswerBytes, room, call.until);
            // What the call did is done.
            Some(charge.await.map_err(|_| unread(call))?)
        }
        _ => None,
    };
    match (call.codec, parts.as_slice()) {
        (Codec::Proto, [part]) => Ok(part.to_vec()),
        _ => merged(&call.rpc, call.codec, parts),
    }
}

/// The next message of a frame, once all of it has come.
pub(super) fn unframed(bytes: &mut BytesMut) -> Option<Bytes> {
    let prefix = bytes.get(1..PREFIX_BYTES)?;
    let length = u32::from_be_bytes(prefix.try_into().ok()?);
    let length = usize::try_from(length).ok()?;
    if bytes.len() < PREFIX_BYTES + length {
        return None;
    }
    bytes.advance(PREFIX_BYTES);
    Some(bytes.split_to(length).freeze())
}

pub(super) fn ending(trailers: &HeaderMap) -> Result<(), Status> {
    match Status::from_header_map(trailers) {
        Some(status) if status.code() == Code::Ok => Ok(()),
        Some(status) => Err(status),
        None => Err(Status::internal("the reply ends without a status")),
    }
}

fn unread(call: &JsonCall) -> Status {
    let detail = "there was no room on this node to write the reply as JSON".to_owned();
    Failure::ambiguous(detail, call.until).into()
}

/// One message of several parts. Where a list continues is what its last part says.
pub(super) fn merged(rpc: &Rpc, codec: Codec, parts: Vec<Bytes>) -> Result<Vec<u8>, Status> {
    let broken = |error: &dyn std::fmt::Display| {
        Status::internal(format!(
            "this node made a reply that it cannot read: {error}"
        ))
    };
    let mut whole = DynamicMessage::new(rpc.reply());
    for part in parts {
        if let Some(resume) = rpc.resume_field() {
            whole.clear_field(&resume);
        }
        whole.merge(part).map_err(|error| broken(&error))?;
    }
    match codec {
        Codec::Proto => Ok(whole.encode_to_vec()),
        Codec::Json => {
            let mut text = serde_json::Serializer::new(Vec::new());
            let options = SerializeOptions::new().skip_default_fields(false);
            whole
                .serialize_with_options(&mut text, &options)
                .map_err(|error| broken(&error))?;
            Ok(text.into_inner())
        }
    }
}

/// The answer that holds a reply.
pub(super) fn response(codec: Codec, message: Vec<u8>) -> Response<Body> {
    let mut response = Response::new(Body::new(axum::body::Body::from(message)));
    let content_type = HeaderValue::from_static(codec.content_type());
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// An error of the Connect protocol, from one of gRPC.
pub(super) fn error(status: &Status) -> Json {
    let (_, code) = code(status.code());
    let mut error = json!({ "code": code, "message": status.message() });
    let info = status.get_details_error_info();
    let details = details(status, info.as_ref(), retry_delay(status));
    if !details.is_empty() {
        error["details"] = Json::Array(details);
    }
    error
}

fn retry_delay(status: &Status) -> Option<std::time::Duration> {
    status.get_details_retry_info()?.retry_delay
}

/// The answer that is an error. Errors are JSON whatever the call's codec is.
pub(in crate::service) fn refused(status: &Status) -> Response<Body> {
    let (http, _) = code(status.code());
    let retry = retry_delay(status);
    let text = error(status).to_string();
    let mut response = Response::new(Body::new(axum::body::Body::from(text)));
    *response.status_mut() = http;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static(JSON));
    if http == StatusCode::UNAUTHORIZED {
        headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if let Some(retry) = retry {
        headers.insert(RETRY_AFTER, retry.as_secs().max(1).into());
    }
    response
}

/// The details of an error: as the protocol has them, and in words for people under `debug`.
fn details(
    status: &Status,
    info: Option<&tonic_types::ErrorInfo>,
    retry: Option<std::time::Duration>,
) -> Vec<Json> {
    let Ok(told) = tonic_types::pb::Status::decode(status.details()) else {
        return Vec::new();
    };
    let of = |any: prost_types::Any| {
        let name = any.type_url.rsplit('/').next().unwrap_or_default();
        let mut detail = json!({ "type": name, "value": BASE64_NOPAD.encode(&any.value) });
        match (name, info, retry) {
            ("google.rpc.ErrorInfo", Some(info), _) => {
                detail["debug"] = json!({
                    "reason": info.reason, "domain": info.domain, "metadata": info.metadata,
                });
            }
            ("google.rpc.RetryInfo", _, Some(retry)) => {
                detail["debug"] = json!({ "retryDelay": format!("{}s", retry.as_secs_f64()) });
            }
            _ => {}
        }
        detail
    };
    told.details.into_iter().map(of).collect()
}

/// The HTTP status and the name of a code (<https://connectrpc.com/docs/protocol#error-codes>).
fn code(code: Code) -> (StatusCode, &'static str) {
    let (status, name) = match code {
        // No answer of gRPC fails with it.
        Code::Ok | Code::Unknown => (500, "unknown"),
        Code::Cancelled => (499, "canceled"),
        Code::InvalidArgument => (400, "invalid_argument"),
        Code::DeadlineExceeded => (504, "deadline_exceeded"),
        Code::NotFound => (404, "not_found"),
        Code::AlreadyExists => (409, "already_exists"),
        Code::PermissionDenied => (403, "permission_denied"),
        Code::ResourceExhausted => (429, "resource_exhausted"),
        Code::FailedPrecondition => (400, "failed_precondition"),
        Code::Aborted => (409, "aborted"),
        Code::OutOfRange => (400, "out_of_range"),
        Code::Unimplemented => (501, "unimplemented"),
        Code::Internal => (500, "internal"),
        Code::Unavailable => (503, "unavailable"),
        Code::DataLoss => (500, "data_loss"),
        Code::Unauthenticated => (401, "unauthenticated"),
    };
    let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    (status, name)
}
