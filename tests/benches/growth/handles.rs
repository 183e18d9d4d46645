//! The handles that live: their ids are computed, so that none is kept here, and their values are random, so that no compression
//! makes them smaller than they are.

use data_encoding::{BASE32_NOPAD, BASE64URL_NOPAD};

use crate::measure::chance::{below, bytes};

/// The store that a cluster is filled with.
pub(crate) const LIVE: &str = "live";
/// The store that is minted into.
pub(crate) const MINTED: &str = "minted";

/// The id of the handle of this number: as long as one that is minted, and as far from the next.
pub(crate) fn id(number: u64) -> String {
    let mut mixed = [0; 16];
    // This half alone tells any two numbers apart; the other makes it as long.
    mixed[..8].copy_from_slice(&mix(number).to_be_bytes());
    mixed[8..].copy_from_slice(&mix(!number).to_be_bytes());
    format!("h-{}", BASE32_NOPAD.encode(&mixed))
}

/// A bijection: the end of the generator `SplitMix64`.
fn mix(number: u64) -> u64 {
    let mixed = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}

/// The id of any of this many handles.
pub(crate) fn any(count: u64) -> String {
    let end = usize::try_from(count).unwrap_or(usize::MAX);
    id(below(end) as u64)
}

/// A value of this many bytes as JSON, whose quotes are two of them.
pub(crate) fn value(json_bytes: usize) -> String {
    let mut text = String::with_capacity(json_bytes + 64);
    while text.len() < json_bytes - 2 {
        BASE64URL_NOPAD.encode_append(&bytes::<48>(), &mut text);
    }
    text.truncate(json_bytes - 2);
    text
}
