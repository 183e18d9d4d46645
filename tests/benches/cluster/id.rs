//! Ids for products that draw none, as long and as random as those that Helve mints.

use data_encoding::BASE32_NOPAD;

use crate::measure::chance::bytes;

/// 128 random bits, in base32.
pub(crate) fn new_id() -> String {
    BASE32_NOPAD.encode(&bytes::<16>())
}
