//! Testimonies that a peer makes up.

use super::*;

/// Hears what a peer tells, and reads the same bytes as what an earlier run stored.
///
/// # Panics
/// If more is kept than the bounds allow, or is not the same once it was stored.
pub(crate) fn testimony(bytes: &[u8]) {
    let Ok(told) = Testimony::decode(bytes) else {
        return;
    };
    let run = Run {
        number: 9,
        nonce: 1,
    };
    let heard = AcknowledgedPositions::default();
    heard.begin("own", run, Position::default(), None);
    heard.hear("own", "peer", &told);
    let stored = AcknowledgedPositions::default();
    stored.begin("own", run, Position::default(), Some(bytes));
    for known in [heard, stored] {
        let kept = known.testimony();
        assert!(kept.acknowledged.len() <= ACKNOWLEDGED_NODES_MAX);
        let is_short = |told: &Told| told.uuid.len() <= ACKNOWLEDGED_UUID_BYTES_MAX;
        assert!(kept.acknowledged.iter().all(is_short), "{kept:?}");
        let again = AcknowledgedPositions::default();
        again.begin("own", run, Position::default(), Some(&kept.encode_to_vec()));
        assert_eq!(again.testimony().acknowledged, kept.acknowledged);
    }
}
