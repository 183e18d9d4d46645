//! rmcp's storage hooks on a Helve client, so that what an SDK keeps in one process is every replica's.

mod sessions;

use data_encoding::HEXLOWER;
use sha2::{Digest as _, Sha256};

pub use self::sessions::{SESSIONS, SessionOptions, Sessions};

/// What stands for a secret in a name: whoever lists names learns none.
fn digest(secret: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(secret))
}
