//! How the decoders of what comes over the network are tried out, and with what.

#[path = "../../client/src/properties.rs"]
mod runner;

use proptest::{collection::vec, prelude::*, sample::Index};

pub(crate) use self::runner::check;

/// Noise, and these messages with bits turned over, bytes put in or taken out, or the end cut off.
pub(crate) fn bytes_like(real: Vec<Vec<u8>>) -> impl Strategy<Value = Vec<u8>> {
    let edits = vec((any::<Index>(), any::<u8>(), 0..4_u8), 0..6);
    let edited = (prop::sample::select(real), edits).prop_map(|(mut bytes, edits)| {
        for (at, byte, how) in edits {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] ^= 1 << (byte % 8),
                1 => bytes.insert(at, byte),
                2 => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        bytes
    });
    prop_oneof![1 => vec(any::<u8>(), 0..200), 4 => edited]
}
