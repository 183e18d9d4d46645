//! What fuzz targets call, in builds for tests and fuzzing alone: sealed states that a client made
//! up.

pub use crate::state_codec::sealed_state;

#[cfg(test)]
mod tests {
    #[test]
    fn seeds_of_each_target_hold() {
        crate::seeds::each("sealed_state", super::sealed_state);
    }
}
