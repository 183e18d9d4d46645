//! What a file looks like that was to hold a key, so that a refusal can name the mistake.

use std::fmt;

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};
use zeroize::Zeroizing;

/// UTF-8's byte-order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How the lines of SSH's public keys begin (RFC 4253, section 6.6, and OpenSSH's own types).
const SSH: [&[u8]; 4] = [b"ssh-", b"ecdsa-sha2-", b"sk-ssh-", b"sk-ecdsa-"];
/// How Helve's own tokens begin.
const TOKEN: &[u8] = b"hlv_";
/// The tag of a DER sequence (ITU-T X.690), with which every key and certificate begins.
const SEQUENCE: u8 = 0x30;
/// The tags of what keys and certificates hold directly: integers, strings, names, and tagged parts.
const MEMBERS: [u8; 11] = [
    0x02, 0x03, 0x04, 0x05, 0x06, 0x30, 0x31, 0xa0, 0xa1, 0xa2, 0xa3,
];

/// Bytes that the lines of wrapped base64 have on average, at least.
const PART_BYTES_MIN: usize = 12;

/// The form of a file's content. Displayed as a noun phrase that fits behind "it looks like".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Looks {
    /// Nothing but white space.
    Empty,
    /// Only zero bytes, as a crash may leave behind.
    Zeros,
    /// Text that begins with UTF-8's byte-order mark.
    ByteOrderMark,
    /// Text in UTF-16.
    Utf16,
    /// A PEM block (RFC 7468), at the beginning or behind other text.
    Pem,
    /// An SSH public key.
    Ssh,
    /// A key or certificate in DER.
    Der,
    /// An HTML or XML page.
    Markup,
    /// JSON.
    Json,
    /// Text in quotation marks.
    Quoted,
    /// Text behind a prefix such as `0x` or `base64:`.
    Prefixed,
    /// One of Helve's tokens.
    Token,
    /// Base64 or hexadecimal digits with white space inside.
    Wrapped,
    /// This many hexadecimal digits, which are too few or odd.
    Digits(usize),
    /// Text of another kind.
    Text,
    /// This many bytes that are no text.
    Binary(usize),
}

impl Looks {
    /// Classifies a file's content.
    #[must_use]
    pub fn of(content: &[u8]) -> Self {
        let text = content.trim_ascii();
        if text.is_empty() {
            Self::Empty
        } else if content.iter().all(|byte| *byte == 0) {
            Self::Zeros
        } else if content.starts_with(BYTE_ORDER_MARK) {
            Self::ByteOrderMark
        } else if is_utf16(content) {
            Self::Utf16
        } else if has_pem(text) {
            Self::Pem
        } else if is_der(content) {
            Self::Der
        } else if is_ssh_wire(content) {
            Self::Ssh
        } else if is_text(content) {
            Self::of_text(text)
        } else {
            Self::Binary(content.len())
        }
    }

    fn of_text(text: &[u8]) -> Self {
        let is_quote = |byte: Option<&u8>| matches!(byte, Some(b'"' | b'\'' | b'`'));
        let lower = text.to_ascii_lowercase();
        let lower = Zeroizing::new(lower);
        let dense = Zeroizing::new(dense(text));
        if SSH.iter().any(|begin| text.starts_with(begin)) {
            Self::Ssh
        } else if text.starts_with(b"<") {
            Self::Markup
        } else if text.starts_with(b"{") || text.starts_with(b"[") {
            Self::Json
        } else if is_quote(text.first()) || is_quote(text.last()) {
            Self::Quoted
        } else if [&b"0x"[..], b"\\x", b"x'", b"base64:", b"hex:"]
            .iter()
            .any(|prefix| lower.starts_with(prefix))
        {
            Self::Prefixed
        } else if text.starts_with(TOKEN) {
            Self::Token
        } else if dense.len() < text.len() && is_wrapped(text, &dense) {
            Self::Wrapped
        } else if text.iter().all(u8::is_ascii_hexdigit) {
            Self::Digits(text.len())
        } else {
            Self::Text
        }
    }

    /// Whether it looks like what is often public, and so must never be taken for a secret: a key
    /// or certificate, a page, JSON.
    #[must_use]
    pub fn is_public(self) -> bool {
        matches!(
            self,
            Self::Pem | Self::Ssh | Self::Der | Self::Markup | Self::Json
        )
    }
}

impl fmt::Display for Looks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Empty => "an empty file",
            Self::Zeros => "a file of zero bytes, as a crash may leave behind",
            Self::ByteOrderMark => {
                "text behind a byte-order mark (save it as UTF-8 without the mark)"
            }
            Self::Utf16 => "text in UTF-16 (save it as ASCII or UTF-8)",
            Self::Pem => "a PEM file",
            Self::Ssh => "an SSH public key",
            Self::Der => "a key or certificate in DER",
            Self::Markup => "an HTML or XML page",
            Self::Json => "JSON",
            Self::Quoted => "text in quotation marks (leave them out)",
            Self::Prefixed => "text behind a prefix such as 0x (leave it out)",
            Self::Token => "a Helve token, which is no key",
            Self::Wrapped => {
                "base64 or hexadecimal digits on several lines, or with white space \
                 between them (write them on one line)"
            }
            Self::Digits(count) => {
                return write!(
                    f,
                    "{count} hexadecimal digits, where a key has 64 or more of them, and an even \
                     number (cut off?)"
                );
            }
            Self::Text => "text, and neither hexadecimal digits nor base64",
            Self::Binary(count) => return write!(f, "{count} bytes that are no text"),
        })
    }
}

/// The bytes that one line of hexadecimal digits or base64 encodes, if there are at least
/// `bytes_min`. White space around it does not count.
///
/// A line of hexadecimal digits alone is never read as base64: 60 digits would else be 45 other
/// bytes, though they are a key of 64 digits that was cut off.
#[must_use]
pub fn decode_line(content: &[u8], bytes_min: usize) -> Option<Zeroizing<Vec<u8>>> {
    let text = content.trim_ascii();
    let encodings: &[_] = if text.iter().all(u8::is_ascii_hexdigit) {
        &[HEXLOWER_PERMISSIVE]
    } else {
        &[BASE64, BASE64URL, BASE64_NOPAD, BASE64URL_NOPAD]
    };
    let decoded = encodings
        .iter()
        .find_map(|encoding| encoding.decode(text).ok().map(Zeroizing::new))?;
    (decoded.len() >= bytes_min).then_some(decoded)
}

/// Whether it reads as text: UTF-8 without control characters, or ASCII but for one byte of eight,
/// such as a stray NUL or Latin-1 character. Of 2^26 random keys of 32 bytes fewer than one does.
fn is_text(content: &[u8]) -> bool {
    let odd = content
        .iter()
        .filter(|byte| !matches!(byte, b'\t' | b'\n' | b'\r' | b' '..=b'~'));
    let is_clean = |text: &str| {
        let mut controls = text.chars().filter(|character| character.is_control());
        controls.all(|character| matches!(character, '\t' | '\n' | '\r'))
    };
    odd.count() * 8 <= content.len() || std::str::from_utf8(content).is_ok_and(is_clean)
}

/// Whether base64 or hexadecimal digits were cut into parts, each longer than words are.
fn is_wrapped(text: &[u8], dense: &[u8]) -> bool {
    let parts = text.split(u8::is_ascii_whitespace);
    let parts = parts.filter(|part| !part.is_empty()).count();
    parts * PART_BYTES_MIN <= dense.len() && decode_line(dense, 1).is_some()
}

fn dense(text: &[u8]) -> Vec<u8> {
    let shown = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    shown.copied().collect()
}

fn has_pem(text: &[u8]) -> bool {
    let mark = b"-----BEGIN ";
    text.windows(mark.len()).any(|window| window == mark)
}

/// Whether every second byte is zero, as in ASCII text that was saved as UTF-16.
fn is_utf16(content: &[u8]) -> bool {
    let zeros = |skip: usize| {
        let bytes = content.iter().skip(skip).step_by(2);
        bytes.filter(|byte| **byte == 0).count()
    };
    let pairs = content.len() / 2;
    pairs >= 4 && zeros(0).max(zeros(1)) * 4 >= pairs * 3 && zeros(0).min(zeros(1)) * 4 <= pairs
}

/// Whether it is one DER sequence of members that fill it exactly.
fn is_der(content: &[u8]) -> bool {
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
fn is_ssh_wire(content: &[u8]) -> bool {
    let name = content.split_first_chunk::<4>().and_then(|(length, rest)| {
        let length = usize::try_from(u32::from_be_bytes(*length)).ok()?;
        rest.get(..length)
    });
    name.is_some_and(|name| SSH.iter().any(|begin| name.starts_with(begin)))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const ED25519: &str = "MCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=";

    #[test]
    fn content_is_named_by_its_form() {
        let der = BASE64.decode(ED25519.as_bytes()).unwrap();
        let utf16: Vec<u8> = "\u{feff}a key of text"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let wire = [&[0, 0, 0, 11][..], b"ssh-ed25519", &[0, 0, 0, 32], &[9; 32]].concat();
        let table: [(&[u8], Looks); 19] = [
            (b" \r\n", Looks::Empty),
            (&[0; 32], Looks::Zeros),
            (b"\xef\xbb\xbfabc", Looks::ByteOrderMark),
            (&utf16, Looks::Utf16),
            (
                b"# ours\n-----BEGIN PUBLIC KEY-----\nMCow\n-----END PUBLIC KEY-----\n",
                Looks::Pem,
            ),
            (
                b"Bag Attributes\n  localKeyID: 01\n-----BEGIN CERTIFICATE-----\n",
                Looks::Pem,
            ),
            (b"ssh-ed25519 AAAAC3NzaC1 alice@shop", Looks::Ssh),
            (b"ecdsa-sha2-nistp256 AAAAE2VjZHNh", Looks::Ssh),
            (&wire, Looks::Ssh),
            (&der, Looks::Der),
            (b"<!doctype html><title>Log in</title>", Looks::Markup),
            (b"{\"keys\":[]}", Looks::Json),
            (b"\"c2VjcmV0\"", Looks::Quoted),
            (b"0Xc0ffee", Looks::Prefixed),
            (b"hlv_c2VjcmV0", Looks::Token),
            (b"c2VjcmV0LXNlY3Jl\r\ndC1zZWNyZXQ=\r\n", Looks::Wrapped),
            (b"c0ffe", Looks::Digits(5)),
            (b"correct horse battery staple", Looks::Text),
            (b"\x80\x01\x92\xf3\x04\xa5\x06\xd7", Looks::Binary(8)),
        ];
        for (content, looks) in table {
            assert_eq!(Looks::of(content), looks, "{content:?}");
            assert!(!looks.to_string().is_empty());
        }
    }

    #[test]
    fn only_whole_digits_and_base64_are_decoded() {
        let key = [0xab; 32];
        let hex = "ab".repeat(32);
        let base64 = format!("\t{}\r\n", BASE64.encode(&key));
        for text in [&hex, &base64, &BASE64URL_NOPAD.encode(&key)] {
            assert_eq!(decode_line(text.as_bytes(), 32).unwrap()[..], key);
        }
        let bad = [&hex[..62], &hex[..60], &hex[..63], &base64[..30], "", "0x"];
        for text in bad {
            assert!(decode_line(text.as_bytes(), 32).is_none(), "{text}");
        }
    }

    proptest! {
        #[test]
        fn random_keys_are_taken_for_nothing_else(key: [u8; 32]) {
            prop_assert_eq!(Looks::of(&key), Looks::Binary(32));
        }

        #[test]
        fn no_content_panics(content in prop::collection::vec(any::<u8>(), 0..200)) {
            prop_assert!(!Looks::of(&content).to_string().is_empty());
        }
    }
}
