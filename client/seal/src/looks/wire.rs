//! Public keys as the bytes that protocols send.

use super::SSH;

/// The tag of a DER sequence (ITU-T X.690), with which every key and certificate begins.
const SEQUENCE: u8 = 0x30;
/// The tags of what keys and certificates hold directly: integers, strings, names, and tagged parts.
const MEMBERS: [u8; 11] = [
    0x02, 0x03, 0x04, 0x05, 0x06, 0x30, 0x31, 0xa0, 0xa1, 0xa2, 0xa3,
];
/// Bytes of a point on P-256, P-384 and P-521 with both coordinates (SEC 1, section 2.3.3).
const POINT_BYTES: [usize; 3] = [65, 97, 133];
/// What such a point begins with.
const UNCOMPRESSED: u8 = 0x04;

/// Whether it is one DER sequence of members that fill it exactly.
pub(super) fn is_der(content: &[u8]) -> bool {
    let Some((SEQUENCE, mut rest, [])) = der_member(content) else {
        return false;
    };
    let is_empty = rest.is_empty();
    while !rest.is_empty() {
        match der_member(rest) {
            Some((tag, _, behind)) if MEMBERS.contains(&tag) => rest = behind,
            _ => return false,
        }
    }
    !is_empty
}

/// The tag and the content of the first member, and what comes behind it.
fn der_member(bytes: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], rest) = bytes.split_first_chunk::<2>()?;
    let long = usize::from(first & 0x7f);
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        _ if (1..=4).contains(&long) => {
            let (digits, rest) = rest.split_at_checked(long)?;
            let digits = digits.iter();
            (
                digits.fold(0, |all, byte| all << 8 | usize::from(*byte)),
                rest,
            )
        }
        _ => return None,
    };
    let (content, behind) = rest.split_at_checked(length)?;
    Some((tag, content, behind))
}

/// Whether it is an SSH public key as SSH sends it (RFC 4253, section 6.6).
pub(super) fn is_ssh(content: &[u8]) -> bool {
    let name = content.split_first_chunk::<4>().and_then(|(length, rest)| {
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        rest.get(..length)
    });
    name.is_some_and(|name| SSH.iter().any(|begin| name.starts_with(begin)))
}

/// Whether it has the form of an uncompressed point of an elliptic curve, as in a Web Push key.
///
/// Random bytes of these lengths, which are odd for a secret, begin so once in 256. A compressed
/// point is not looked for: 33 random bytes begin as one does once in 128, and half of those are one.
pub(super) fn is_point(content: &[u8]) -> bool {
    POINT_BYTES.contains(&content.len()) && content.first() == Some(&UNCOMPRESSED)
}
