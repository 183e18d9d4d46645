//! Reads the message of a request, and frames it as gRPC does. Bytes are charged before they are kept, and values before they are made.

use std::{fmt, future::poll_fn, pin::Pin};

use bytes::{BufMut as _, Bytes, BytesMut};
use helve_machine::Violation;
use helve_proto::Reason;
use hyper::body::Body as _;
use prost::Message as _;
use prost_reflect::{DynamicMessage, Value};
use tokio::time::{Instant, timeout_at};
use tonic::body::Body;

use super::{
    call::JsonCall,
    codec::Codec,
    exact,
    schema::Rpc,
    shape::{self, Excess},
    texts,
};
use crate::{
    bounds::What,
    limits::{
        JSON_BYTES_MAX, JSON_NAME_BYTES_MAX, JSON_VALUES_MAX, LIST_PAGE_ROWS_MAX, MESSAGE_BYTES_MAX,
    },
    service::{arriving::Intake, budget::Charge, failure::Failure},
};

/// Bytes in front of a message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// The message of a call in a frame of gRPC.
pub(super) async fn framed(call: &JsonCall, body: Body, intake: &Intake) -> Result<Body, Failure> {
    let bytes_max = match call.codec {
        Codec::Json => JSON_BYTES_MAX,
        Codec::Proto => MESSAGE_BYTES_MAX,
    };
    let (bytes, _charge) = read(body, intake, bytes_max).await?;
    let framed = match call.codec {
        Codec::Proto => {
            let _copied = intake.account.take(What::RequestBytes, bytes.len())?;
            let mut framed = prefix(bytes.len())?;
            framed.put_slice(&bytes);
            framed
        }
        Codec::Json => {
            let decoded = shape::decoded_bytes(&bytes).map_err(excess)?;
            let _decoded = intake.account.take(What::RequestBytes, decoded)?;
            let message = of_json(&call.rpc, &bytes)?;
            drop(bytes);
            let mut framed = prefix(message.encoded_len())?;
            message.encode_raw(&mut framed);
            framed
        }
    };
    Ok(Body::new(axum::body::Body::from(framed.freeze())))
}

/// A frame of a message of this many bytes, which are still to be written.
fn prefix(length: usize) -> Result<BytesMut, Failure> {
    let Some(written) = u32::try_from(length)
        .ok()
        .filter(|_| length <= MESSAGE_BYTES_MAX)
    else {
        return Err(too_large(MESSAGE_BYTES_MAX));
    };
    let mut framed = BytesMut::with_capacity(PREFIX_BYTES + length);
    framed.put_u8(0);
    framed.put_u32(written);
    Ok(framed)
}

/// All of a body, and what it was charged.
async fn read(
    mut body: Body,
    intake: &Intake,
    bytes_max: usize,
) -> Result<(Bytes, Option<Charge>), Failure> {
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(too_large(bytes_max));
    }
    let until = Instant::now() + intake.time;
    let known = body.size_hint().exact();
    let known = known.and_then(|bytes| usize::try_from(bytes).ok());
    let mut bytes = BytesMut::new();
    let mut charge = None::<Charge>;
    loop {
        let frame = poll_fn(|context| Pin::new(&mut body).poll_frame(context));
        let Ok(frame) = timeout_at(until, frame).await else {
            return Err(Failure::TooSlow(intake.time));
        };
        let Some(frame) = frame else {
            return Ok((bytes.freeze(), charge));
        };
        let broken = |_| Failure::Malformed("the body broke off".into());
        let Ok(data) = frame.map_err(broken)?.into_data() else {
            continue;
        };
        if bytes.len() + data.len() > bytes_max {
            return Err(too_large(bytes_max));
        }
        // A buffer that grows step by step is twice as large for a moment.
        let more = match (known, bytes.is_empty()) {
            (Some(all), true) => all,
            (Some(_), false) => 0,
            (None, _) => 2 * data.len(),
        };
        let more = intake.account.take(What::RequestBytes, more)?;
        match &mut charge {
            Some(charge) => charge.add(more),
            none => *none = Some(more),
        }
        bytes.reserve(known.map_or(0, |all| all.saturating_sub(bytes.len())));
        bytes.extend_from_slice(&data);
    }
}

/// The message that a text of JSON is.
pub(super) fn of_json(rpc: &Rpc, text: &[u8]) -> Result<DynamicMessage, Failure> {
    // Most calls of no fields are made without a body.
    let text = if text.is_empty() { b"{}" } else { text };
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let malformed = |why: &dyn fmt::Display| {
        let message = rpc.request();
        let name = message.full_name();
        Failure::Malformed(format!("the body is no JSON of a {name}: {why}"))
    };
    exact::check_names(text).map_err(|why| malformed(&why))?;
    texts::check(rpc.request(), text).map_err(|why| malformed(&why))?;
    let message = DynamicMessage::deserialize(rpc.request(), &mut deserializer);
    let message = message.and_then(|message| deserializer.end().map(|()| message));
    let mut message = message.map_err(|error| malformed(&error))?;
    exact::check_numbers(text)?;
    if let Some(size) = rpc.page_field() {
        let page = Value::U64(LIST_PAGE_ROWS_MAX as u64);
        let asked = message.get_field(&size).as_u64().unwrap_or_default();
        if asked == 0 || asked > LIST_PAGE_ROWS_MAX as u64 {
            message.set_field(&size, page);
        }
    }
    Ok(message)
}

fn excess(excess: Excess) -> Failure {
    match excess {
        Excess::Values => excessive(format!(
            "the body has more than {JSON_VALUES_MAX} values: send fewer at once"
        )),
        Excess::Name => Failure::Malformed(format!(
            "a member's name is longer than {JSON_NAME_BYTES_MAX} bytes: no call has such a field"
        )),
    }
}

fn excessive(message: String) -> Failure {
    Failure::Invalid(Violation {
        reason: Reason::TooLarge,
        message,
        operation: None,
    })
}

fn too_large(bytes_max: usize) -> Failure {
    excessive(format!(
        "the body has more than {bytes_max} bytes: send less at once"
    ))
}
