//! Answers of nodes as the vectors for all clients write them, and the verdicts on them.

use std::collections::HashMap;

use serde_json::Value;
use tonic::{
    codegen::http::{Response, header::RETRY_AFTER},
    metadata::{Ascii, MetadataKey, MetadataMap},
};
use tonic_types::ErrorDetails;

use super::super::*;

fn code(name: &str) -> Code {
    let mut codes = (0..17).map(Code::from_i32);
    codes
        .find(|code| format!("{code:?}").eq_ignore_ascii_case(&name.replace('_', "")))
        .unwrap_or_else(|| panic!("no code {name}"))
}

/// What the connection makes of HTTP's part of an answer; `None` if gRPC's tells.
fn of_http(answer: &Value) -> Option<Status> {
    let http = u16::try_from(answer["http"].as_u64()?).unwrap();
    let mut response = Response::builder().status(http);
    if let Some(seconds) = answer["retry_after_s"].as_u64() {
        response = response.header(RETRY_AFTER, seconds);
    }
    if let Some(name) = answer["code"].as_str() {
        let message = answer["message"].as_str().unwrap_or_default();
        response = response
            .header("grpc-status", i32::from(code(name)))
            .header("grpc-message", message);
    }
    LineError::of_response("a:1", &response.body(()).unwrap()).map(Into::into)
}

fn of_grpc(answer: &Value) -> Status {
    let text = |name: &str| answer[name].as_str().unwrap_or_default();
    let code = match text("code") {
        // A reason tells, whatever the code.
        "" => Code::FailedPrecondition,
        "OK" => return Status::internal(NO_MESSAGE),
        name => code(name),
    };
    let mut metadata = MetadataMap::new();
    if let Some(seconds) = answer["retry_after_s"].as_u64() {
        metadata.insert("retry-after", seconds.into());
    }
    for (name, value) in answer["headers"].as_object().into_iter().flatten() {
        let name: MetadataKey<Ascii> = name.parse().unwrap();
        metadata.insert(name, value.as_str().unwrap().parse().unwrap());
    }
    let mut details = ErrorDetails::new();
    if !text("reason").is_empty() {
        let said = answer["metadata"].as_object().into_iter().flatten();
        let said = said.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
        let said: HashMap<_, _> = said.collect();
        details.set_error_info(text("reason"), ERROR_DOMAIN, said);
    }
    if let Some(pause_ms) = answer["retry_info_ms"].as_u64() {
        details.set_retry_info(Some(Duration::from_millis(pause_ms)));
    }
    match text("reason").is_empty() && answer["retry_info_ms"].is_null() {
        true => Status::with_metadata(code, text("message"), metadata),
        false => Status::with_error_details_and_metadata(code, text("message"), details, metadata),
    }
}

/// The verdict on an answer of `verdicts.json`. Whether the reply would hold values is the
/// caller's to say.
pub(crate) fn verdict_of(answer: &Value) -> Verdict {
    match answer["fault"].as_str() {
        Some("silence") => Verdict::silence("a:1"),
        Some(fault) => Verdict::of("a:1", &LineError::fault(fault).into()),
        // A stream bears the pause of OVERLOADED in its metadata, a status in details of its own.
        None if answer["metadata"]["retry_after_ms"].is_string() => {
            let said = answer["metadata"].as_object().into_iter().flatten();
            let said = said.map(|(name, value)| (name.clone(), value.as_str().unwrap().to_owned()));
            let reply = ErrorReply {
                reason: answer["reason"].as_str().unwrap().to_owned(),
                metadata: said.collect(),
                ..ErrorReply::default()
            };
            Verdict::of_reply("a:1", reply)
        }
        None => {
            let status = of_http(answer).unwrap_or_else(|| of_grpc(answer));
            Verdict::of("a:1", &status)
        }
    }
}
