//! What a store's errors mean to an operator. Of what the store said only its code is repeated: the
//! rest may hold what was signed, and more.

use std::{error::Error, time::Duration};

use http_body_util::LengthLimitError;
use object_store::client::{HttpError, HttpErrorKind};

use super::wire::Fault;
use crate::backup::store_error::StoreProblem;

/// Characters of a store's code.
const CODE_CHARS_MAX: usize = 64;

/// Digits of a status of HTTP.
const STATUS_CHARS: usize = 3;

/// The code about an object that is not there.
const NO_SUCH_KEY: &str = "NoSuchKey";

/// Codes about credentials and rights.
const REFUSALS: [&str; 6] = [
    "AccessDenied",
    "ExpiredToken",
    "InvalidAccessKeyId",
    "InvalidToken",
    "SignatureDoesNotMatch",
    "TokenRefreshRequired",
];

/// A request that was not carried out, as far as this side knows.
#[derive(Debug)]
pub(super) enum Failure {
    Store(object_store::Error),
    /// It took longer than this.
    Slow(Duration),
}

impl Failure {
    /// Whether the object is not there, and the bucket is.
    pub(super) fn is_absent(&self) -> bool {
        match self {
            Self::Store(error @ object_store::Error::NotFound { .. }) => {
                code(error).is_none_or(|code| code == NO_SUCH_KEY)
            }
            Self::Store(_) | Self::Slow(_) => false,
        }
    }

    /// Whether another object has the name already.
    pub(super) fn is_taken(&self) -> bool {
        matches!(
            self,
            Self::Store(
                object_store::Error::AlreadyExists { .. }
                    | object_store::Error::Precondition { .. }
            )
        )
    }

    /// Whether the connection to the store broke, or stayed silent.
    pub(super) fn is_cut(&self) -> bool {
        match self {
            Self::Store(error) => matches!(
                cause::<Fault>(error),
                Some(Fault::Cut { .. } | Fault::Silent { .. })
            ),
            Self::Slow(_) => false,
        }
    }

    pub(super) fn problem(&self) -> StoreProblem {
        match self {
            Self::Store(error) => problem(error),
            Self::Slow(limit) => StoreProblem::Slow(limit.as_secs()),
        }
    }
}

fn problem(error: &object_store::Error) -> StoreProblem {
    use object_store::Error as Store;
    if let Some(fault) = cause::<Fault>(error) {
        return of_wire(fault);
    }
    let code = code(error);
    let said = || code.clone().unwrap_or_else(|| "no code".to_owned());
    match (code.as_deref(), error) {
        (Some("NoSuchBucket"), _) => StoreProblem::NoBucket,
        (Some("RequestTimeTooSkewed"), _) => StoreProblem::ClockSkew,
        (Some("AuthorizationHeaderMalformed" | "PermanentRedirect"), _) => {
            StoreProblem::OtherRegion
        }
        (Some(code), _) if REFUSALS.contains(&code) => StoreProblem::Refused(said()),
        (_, Store::PermissionDenied { .. } | Store::Unauthenticated { .. }) => {
            StoreProblem::Refused(said())
        }
        (Some("NotImplemented"), _)
        | (_, Store::NotImplemented { .. } | Store::NotSupported { .. }) => {
            StoreProblem::Unconditional
        }
        (Some(code), _) => StoreProblem::Other(code.to_owned()),
        // A redirect without a place to go to, or with one that is not followed.
        (None, _) if text(error).contains("incorrectly configured region") => {
            StoreProblem::OtherRegion
        }
        (None, _) => match status(error).as_deref() {
            Some(status @ ("401" | "403")) => StoreProblem::Refused(format!("HTTP {status}")),
            Some(status) => StoreProblem::Other(format!("HTTP {status}")),
            None => StoreProblem::Other(without_status(error)),
        },
    }
}

fn of_wire(fault: &Fault) -> StoreProblem {
    match fault {
        Fault::PlainHttp(host) => StoreProblem::PlainHttp(host.clone()),
        // What gives machines their roles is not there: neither are credentials.
        Fault::Silent { is_of_machine, .. } | Fault::Cut { is_of_machine, .. }
            if *is_of_machine =>
        {
            StoreProblem::NoCredentials
        }
        Fault::Silent { limit, .. } => StoreProblem::Slow(limit.as_secs()),
        Fault::Cut { host, why, .. } => StoreProblem::Unreachable {
            host: host.clone(),
            why: why.clone(),
        },
    }
}

/// The code in the body of a store's answer. A deletion is answered for each key, and the client
/// of stores words such an error in its own way, with the code at its end.
fn code(error: &object_store::Error) -> Option<String> {
    let text = text(error);
    let of_answer = || text.split_once("<Code>")?.1.split_once("</Code>");
    let of_key = || text.rsplit_once("(code: ")?.1.split_once(')');
    let (code, _) = of_answer().or_else(of_key)?;
    let is_code = code.len() <= CODE_CHARS_MAX && code.bytes().all(|it| it.is_ascii_alphanumeric());
    (is_code && !code.is_empty()).then(|| code.to_owned())
}

/// The status of a store's answer.
fn status(error: &object_store::Error) -> Option<String> {
    let text = text(error);
    let (_, behind) = text.split_once("status code: ")?;
    let status: String = behind.chars().take(STATUS_CHARS).collect();
    let is_status = status.bytes().all(|it| it.is_ascii_digit());
    (is_status && status.len() == STATUS_CHARS).then_some(status)
}

fn without_status(error: &object_store::Error) -> String {
    if cause::<LengthLimitError>(error).is_some() {
        return "with more bytes than such an answer has".to_owned();
    }
    let what = match cause::<HttpError>(error).map(HttpError::kind) {
        Some(HttpErrorKind::Interrupted) => "with half an answer",
        Some(_) => "with nothing that is HTTP",
        None => "with something that is not understood",
    };
    what.to_owned()
}

/// What an error says, and all that are below it.
fn text(error: &object_store::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(error) = next {
        text.push('\n');
        text.push_str(&error.to_string());
        next = error.source();
    }
    text
}

/// The first error of a type among those that an error is of.
fn cause<T: Error + 'static>(error: &object_store::Error) -> Option<&T> {
    let mut next: Option<&(dyn Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(found) = error.downcast_ref() {
            return Some(found);
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests;
