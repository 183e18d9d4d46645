//! What reads and writes answer.

use bytes::Bytes;
use helve_proto::v1::{HandleStatus, RecordInfo};
use serde::{Serialize, de::DeserializeOwned};
use serde_json::Value;

use crate::{
    error::{Error, ErrorKind},
    exact::{self, Inexact},
};

/// A handle or a key, with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Record<T> {
    /// Name, owner, revision, times.
    pub info: RecordInfo,
    /// The value.
    pub value: T,
}

impl<T> Record<T> {
    /// The handle's id, or the key.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.info.name
    }

    /// The log index of the last change of value: the operand of `put_if` and the like, and a fencing token.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.info.revision
    }

    /// When the record expires unless it is used, in milliseconds since the Unix epoch on the
    /// cluster's clock; `None`: never.
    #[must_use]
    pub fn expires_at_ms(&self) -> Option<u64> {
        let RecordInfo {
            expires_at_ms,
            idle_deadline_ms,
            ..
        } = &self.info;
        expires_at_ms.iter().chain(idle_deadline_ms).min().copied()
    }
}

/// What became of a handle. Every other caller than its owner gets `Unknown`, by construction.
#[derive(Debug, Clone, PartialEq)]
pub enum Resolved<L> {
    /// It lives; of a take: it lived, and this call took it.
    Live(L),
    /// Its lifetime ended, less than a day ago.
    Expired,
    /// Its value was taken, less than a day ago.
    Taken,
    /// Never minted, deleted, long gone, or another owner's.
    Unknown,
}

impl<L> Resolved<L> {
    /// What lives, if it lives.
    #[must_use]
    pub fn live(self) -> Option<L> {
        match self {
            Self::Live(live) => Some(live),
            Self::Expired | Self::Taken | Self::Unknown => None,
        }
    }

    pub(crate) fn from_status(
        status: i32,
        live: impl FnOnce() -> Result<L, Error>,
    ) -> Result<Self, Error> {
        match HandleStatus::try_from(status) {
            Ok(HandleStatus::Live) => live().map(Self::Live),
            Ok(HandleStatus::Expired) => Ok(Self::Expired),
            Ok(HandleStatus::Taken) => Ok(Self::Taken),
            Ok(HandleStatus::Unknown) => Ok(Self::Unknown),
            Ok(HandleStatus::Unspecified) | Err(_) => Err(Error::internal(
                "a handle status that this version does not know",
            )),
        }
    }
}

/// Why a handle does not live.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotLive {
    /// Its lifetime ended, less than a day ago.
    Expired,
    /// Its value was taken, less than a day ago.
    Taken,
    /// Never minted, deleted, long gone, or another owner's.
    Unknown,
}

/// A list, all of it from one view.
#[derive(Debug, Clone, PartialEq)]
pub struct Listing<I> {
    /// The log index of the view: every change up to it is seen, none after it.
    pub revision: u64,
    /// The replicated clock of the view, in milliseconds since the Unix epoch.
    pub clock_ms: u64,
    /// What is listed, by name in lexicographic order of the bytes.
    pub items: Vec<I>,
}

impl<I> Listing<I> {
    /// The same listing with each item converted.
    ///
    /// # Errors
    /// The first that `item` returns.
    pub fn try_map<O>(self, item: impl FnMut(I) -> Result<O, Error>) -> Result<Listing<O>, Error> {
        Ok(Listing {
            revision: self.revision,
            clock_ms: self.clock_ms,
            items: self.items.into_iter().map(item).collect::<Result<_, _>>()?,
        })
    }
}

/// A page of a list, all of it from one view.
#[derive(Debug, Clone, PartialEq)]
pub struct Page<I> {
    /// The log index of the view: every change up to it is seen, none after it. The next page is of a newer one.
    pub revision: u64,
    /// The replicated clock of the view, in milliseconds since the Unix epoch.
    pub clock_ms: u64,
    /// What is listed, by name in lexicographic order of the bytes.
    pub items: Vec<I>,
    /// The name behind which the next page begins; none if there is nothing behind.
    pub next: Option<String>,
}

/// Something with the name by which it is listed.
pub(crate) trait Named {
    fn named(&self) -> &str;
}

impl Named for RecordInfo {
    fn named(&self) -> &str {
        &self.name
    }
}

impl<T> Named for Record<T> {
    fn named(&self) -> &str {
        self.name()
    }
}

/// A page of the first `limit` records of a list, and at least one. If more follow, the list holds at
/// least one of them. Only records of the page are converted, so that no error is of one beyond it.
pub(crate) fn page<I, O: Named>(
    mut listing: Listing<I>,
    limit: usize,
    item: impl FnMut(I) -> Result<O, Error>,
) -> Result<Page<O>, Error> {
    let limit = limit.max(1);
    let has_more = listing.items.len() > limit;
    listing.items.truncate(limit);
    let Listing {
        revision,
        clock_ms,
        items,
    } = listing.try_map(item)?;
    let last = items.last().filter(|_| has_more);
    Ok(Page {
        revision,
        clock_ms,
        next: last.map(|last| last.named().to_owned()),
        items,
    })
}

/// A page of a whole list.
pub(crate) fn page_of_all<I: Named>(
    mut listing: Listing<I>,
    after: Option<&str>,
    limit: usize,
) -> Result<Page<I>, Error> {
    if let Some(after) = after {
        listing.items.retain(|item| item.named() > after);
    }
    page(listing, limit, Ok)
}

/// How many records to ask for to fill a page, and to know whether more follow.
pub(crate) fn page_limit(limit: usize) -> u64 {
    (limit.max(1) as u64).saturating_add(1)
}

/// Encodes a value as JSON that comes back as it is.
///
/// # Errors
/// [`Codec`](ErrorKind::Codec) if the value has no JSON form, or JSON would change it (see [`exact`]).
pub fn encode<T: Serialize + ?Sized>(value: &T) -> Result<Bytes, Error> {
    let json = serde_json::to_vec(value).map_err(|error| {
        Error::new(ErrorKind::Codec, "the value has no JSON form").with_source(error)
    })?;
    exact::check_reserved_names(&json)
        .and_then(|()| exact::check_numbers(&json))
        .and_then(|()| exact::check_depth(&json))
        .map_err(|error| changed("the value", error))?;
    Ok(json.into())
}

/// Decodes a stored value.
///
/// # Errors
/// [`Codec`](ErrorKind::Codec) if it is not the JSON that `T` expects, or reading would change it (see [`exact`]).
pub fn decode<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    // Before anything else: the others parse it.
    exact::check_reserved_names(json).map_err(|error| changed("the stored value", error))?;
    let value = parsed(json)?;
    exact::check_names(json).map_err(|error| changed("the stored value", error))?;
    Ok(value)
}

/// Decodes the value of a key, exactly as it was stored.
///
/// # Errors
/// [`Codec`](ErrorKind::Codec) if it is no JSON, or reading would change it (see [`exact`]).
pub fn decode_value(json: &[u8]) -> Result<Value, Error> {
    exact::check_names(json).map_err(|error| changed("the stored value", error))?;
    parsed(json)
}

/// Decodes a stored value whose names are checked elsewhere.
fn parsed<T: DeserializeOwned>(json: &[u8]) -> Result<T, Error> {
    let value = serde_json::from_slice(json).map_err(|error| {
        let message = "the stored value is not the JSON that this type expects";
        Error::new(ErrorKind::Codec, message).with_source(error)
    })?;
    exact::check_stored_numbers(json).map_err(|error| changed("the stored value", error))?;
    Ok(value)
}

/// A key's record, its value exactly as it was stored.
pub(crate) fn record_value(info: Option<RecordInfo>, json: &[u8]) -> Result<Record<Value>, Error> {
    record_with(info, || decode_value(json))
}

/// A record whose value is decoded so. An error names it.
pub(crate) fn record_with<T>(
    info: Option<RecordInfo>,
    decode: impl FnOnce() -> Result<T, Error>,
) -> Result<Record<T>, Error> {
    let info = present(info, "info")?;
    let value = decode().map_err(|error| error.of_record(&info.name))?;
    Ok(Record { info, value })
}

fn changed(what: &str, error: Inexact) -> Error {
    let message = format!("{what} would not come back as it is: {error}");
    Error::new(ErrorKind::Codec, message).with_source(error)
}

/// Returns a part that every reply of a cluster has.
///
/// # Errors
/// [`Internal`](ErrorKind::Internal) if it is missing.
pub fn present<P>(part: Option<P>, name: &str) -> Result<P, Error> {
    part.ok_or_else(|| Error::internal(format!("a reply without its {name}")))
}

pub(crate) fn record<T: DeserializeOwned>(
    info: Option<RecordInfo>,
    json: &[u8],
) -> Result<Record<T>, Error> {
    record_with(info, || decode(json))
}
