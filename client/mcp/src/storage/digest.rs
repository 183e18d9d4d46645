//! Names that hide a secret.

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

/// The name under which a secret is stored: a reader of names learns no secret.
pub(super) fn digest(secret: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(secret))
}
