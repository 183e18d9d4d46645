//! Where a value is.

/// Where a value is sealed, and opens: a kind of place, and its parts.
#[derive(Debug, Clone, Copy)]
pub struct Place<'a> {
    /// What kind of place it is; different kinds bind different parts.
    pub kind: &'a str,
    /// Tenant, store, owner, id: what the kind has.
    pub parts: &'a [&'a str],
}

impl Place<'_> {
    /// The place after a head, as bytes. No two places have the same: each part says its length, and how many there are comes first.
    pub(crate) fn bound(&self, head: &[&[u8]]) -> Vec<u8> {
        let mut bytes = head.concat();
        bytes.push(u8::try_from(self.parts.len()).expect("a place has a few parts"));
        for part in [self.kind].iter().chain(self.parts) {
            bytes.extend((part.len() as u64).to_be_bytes());
            bytes.extend(part.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn no_two_places_are_bound_alike(
            one in proptest::collection::vec("[ab]{0,2}", 0..4),
            other in proptest::collection::vec("[ab]{0,2}", 0..4),
        ) {
            let bound = |parts: &[String]| {
                let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
                Place { kind: "a", parts: &parts }.bound(&[b"head"])
            };
            prop_assert_eq!(one == other, bound(&one) == bound(&other));
        }
    }
}
