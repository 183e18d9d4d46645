//! What a file looks like that was to hold a key, so that a refusal can name the mistake.

mod line;
mod wire;

use std::fmt;

use data_encoding::{BASE64, BASE64_NOPAD, BASE64URL, BASE64URL_NOPAD, HEXLOWER_PERMISSIVE};
use zeroize::Zeroizing;

/// UTF-8's byte-order mark.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
/// How the lines of SSH's public keys begin (RFC 4253, section 6.6, and OpenSSH's own types).
const SSH: [&[u8]; 4] = [b"ssh-", b"ecdsa-sha2-", b"sk-ssh-", b"sk-ecdsa-"];
/// How the base64 of an SSH public key begins: with the length of its type's name.
const SSH_BODY: &[u8] = b"AAAA";
/// The label of an SSH public key in a block (RFC 4716).
const SSH2: &[u8] = b"BEGIN SSH2 PUBLIC KEY";
/// How blocks begin (RFC 7468), be it with a space, as SSH's, or with fewer dashes.
const BLOCKS: [&[u8]; 2] = [b"--begin ", b"-- begin "];
/// What may follow the name of a JWK's `kty`, in JSON, YAML or a program. None is a base64 digit.
const KTY: [&[u8]; 5] = [b"kty\"", b"kty'", b"kty\\", b"kty:", b"kty "];
/// How often what is encoded may be encoded again.
const LAYERS_MAX: usize = 3;
/// Digits from which on a part of a text is decoded.
const RUN_DIGITS_MIN: usize = 32;
/// How Helve's own tokens begin.
const TOKEN: &[u8] = b"hlv_";
/// How a file that gzip made begins (RFC 1952).
const GZIP: &[u8] = b"\x1f\x8b\x08";
/// Bytes of a key, at most: random ones may begin as a file does.
const KEY_BYTES_MAX: usize = 64;
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
    /// A public key of an elliptic curve: a point with both coordinates.
    Point,
    /// An HTML or XML page.
    Markup,
    /// JSON.
    Json,
    /// A JWK or a set of them, within other text or in another notation.
    Jwk,
    /// A file that gzip made.
    Gzip,
    /// A reply of HTTP with its head.
    Http,
    /// A URL of the web.
    Url,
    /// A signed or sealed JSON Web Token.
    Jwt,
    /// Text in quotation marks.
    Quoted,
    /// Text behind a prefix such as `0x` or `base64:`.
    Prefixed,
    /// One of Helve's tokens.
    Token,
    /// A line such as `NAME=VALUE`, of an environment file.
    Assigned,
    /// Several keys on one line.
    Joined,
    /// Digits that encode fewer than 8 different bytes, such as zeros.
    Repeated,
    /// Digits that encode what may be the modulus of an RSA key.
    Modulus,
    /// Base64 or hexadecimal digits with white space inside.
    Wrapped,
    /// Other text of several lines.
    Lines,
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
        } else if contains(text, SSH2) {
            Self::Ssh
        } else if has_pem(text) {
            Self::Pem
        } else if wire::is_der(content) {
            Self::Der
        } else if wire::is_ssh(content) {
            Self::Ssh
        } else if wire::is_point(content) {
            Self::Point
        } else if content.len() > KEY_BYTES_MAX && content.starts_with(GZIP) {
            Self::Gzip
        } else if is_text(content) {
            Self::of_text(text)
        } else {
            Self::Binary(content.len())
        }
    }

    fn of_text(text: &[u8]) -> Self {
        let is_quote = |byte: Option<&u8>| matches!(byte, Some(b'"' | b'\'' | b'`'));
        let lower = Zeroizing::new(text.to_ascii_lowercase());
        let begins = |all: &[&[u8]]| all.iter().any(|begin| lower.starts_with(begin));
        let holds = |all: &[&[u8]]| all.iter().any(|part| contains(&lower, part));
        let dense = Zeroizing::new(dense(text));
        if begins(&[b"{", b"["]) {
            Self::Json
        } else if is_ssh(text) {
            Self::Ssh
        } else if begins(&[b"http/"]) {
            Self::Http
        } else if begins(&[b"<"]) || holds(&[b"<html", b"<!doctype"]) {
            Self::Markup
        } else if holds(&KTY) {
            Self::Jwk
        } else if begins(&[b"https://", b"http://"]) {
            Self::Url
        } else if is_jwt(text) {
            Self::Jwt
        } else if is_quote(text.first()) || is_quote(text.last()) {
            Self::Quoted
        } else if line::is_hex_behind_0x(text) || begins(&[b"\\x", b"x'", b"base64:", b"hex:"]) {
            Self::Prefixed
        } else if text.starts_with(TOKEN) {
            Self::Token
        } else if dense.len() < text.len() && is_wrapped(text, &dense) {
            Self::Wrapped
        } else if text.contains(&b'\n') || text.contains(&b'\r') {
            Self::Lines
        } else if text.iter().all(u8::is_ascii_hexdigit) {
            Self::Digits(text.len())
        } else {
            Self::Text
        }
    }

    /// What in a content may be public, as it is or in what a part of it encodes, such as a key
    /// behind a comment, on several lines or in base64 of base64. `None` if nothing is found, which
    /// proves nothing: a bare Ed25519 key is 32 bytes like any others, and a compressed point 33.
    #[must_use]
    pub fn public_in(content: &[u8]) -> Option<Self> {
        Self::public_below(content, LAYERS_MAX)
    }

    fn public_below(content: &[u8], layers: usize) -> Option<Self> {
        let looks = Self::of(content);
        if looks.is_public() || layers == 0 {
            return looks.is_public().then_some(looks);
        }
        let dense = Zeroizing::new(dense(content));
        let mut runs = content
            .split(|byte| {
                !matches!(byte, b'+' | b'/' | b'-' | b'_') && !byte.is_ascii_alphanumeric()
            })
            .chain([&dense[..]])
            .filter(|run| run.len() >= RUN_DIGITS_MIN);
        // Where several padded parts follow each other, what all of them encode is looked at, too.
        runs.find_map(|run| Self::public_below(&decode(unprefixed(run))?, layers - 1))
    }

    /// Whether it looks like what is often public, and so must never be taken for a secret: a key
    /// or certificate, a page, JSON, a URL, or a token that others have been sent.
    #[must_use]
    pub fn is_public(self) -> bool {
        matches!(
            self,
            Self::Pem
                | Self::Ssh
                | Self::Der
                | Self::Point
                | Self::Markup
                | Self::Json
                | Self::Jwk
                | Self::Gzip
                | Self::Http
                | Self::Url
                | Self::Jwt
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
            Self::Point => "a point on an elliptic curve, which is a public key",
            Self::Markup => "an HTML or XML page",
            Self::Json => "JSON",
            Self::Jwk => "a JWK within other text, or not in JSON",
            Self::Gzip => "a file that gzip made",
            Self::Http => "a reply of HTTP with its head",
            Self::Url => "a URL, and not what it leads to",
            Self::Jwt => "a JSON Web Token, and not its key",
            Self::Quoted => "text in quotation marks (leave them out)",
            Self::Prefixed => "text behind a prefix such as 0x (leave it out)",
            Self::Token => "a Helve token, which is no key",
            Self::Assigned => "a line NAME=VALUE of an environment file (write the value alone)",
            Self::Joined => "several keys on one line (write each to a file of its own)",
            Self::Repeated => "digits for a few bytes over and over, as a placeholder (make a key)",
            Self::Modulus => {
                "the modulus of an RSA key, which is public (if it is a random key, write its \
                 bytes as they are: base64 -d)"
            }
            Self::Wrapped => {
                "base64 or hexadecimal digits on several lines, or with white space \
                 between them (write them on one line)"
            }
            Self::Lines => "text of several lines",
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
/// bytes, though they are a key of 64 digits that was cut off. Padding is read at the end only:
/// `KEY=` and 44 digits behind it would else be another key.
#[must_use]
pub fn decode_line(content: &[u8], bytes_min: usize) -> Option<Zeroizing<Vec<u8>>> {
    let text = content.trim_ascii();
    let padding = text.iter().rev().take_while(|byte| **byte == b'=').count();
    if text[..text.len() - padding].contains(&b'=') {
        return None;
    }
    decode(text).filter(|decoded| decoded.len() >= bytes_min)
}

/// The same of texts that may have padding between them.
fn decode(text: &[u8]) -> Option<Zeroizing<Vec<u8>>> {
    let encodings: &[_] = if text.iter().all(u8::is_ascii_hexdigit) {
        &[HEXLOWER_PERMISSIVE]
    } else {
        &[BASE64, BASE64URL, BASE64_NOPAD, BASE64URL_NOPAD]
    };
    encodings
        .iter()
        .find_map(|encoding| encoding.decode(text).ok().map(Zeroizing::new))
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

/// Hexadecimal digits without the `0x` before them.
fn unprefixed(run: &[u8]) -> &[u8] {
    match run {
        [b'0', b'x' | b'X', digits @ ..] if digits.iter().all(u8::is_ascii_hexdigit) => digits,
        _ => run,
    }
}

fn dense(text: &[u8]) -> Vec<u8> {
    let shown = text.iter().filter(|byte| !byte.is_ascii_whitespace());
    shown.copied().collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

fn has_pem(text: &[u8]) -> bool {
    let lower = Zeroizing::new(text.to_ascii_lowercase());
    BLOCKS.iter().any(|mark| contains(&lower, mark))
}

/// Whether it is an SSH public key, on a line of its own or behind a host, options or a comment.
fn is_ssh(text: &[u8]) -> bool {
    let mut words = text.split(u8::is_ascii_whitespace);
    let has_body = words.any(|word| word.starts_with(SSH_BODY));
    SSH.iter()
        .any(|begin| text.starts_with(begin) || (has_body && contains(text, begin)))
}

/// Whether it is three parts of base64url (RFC 7515), or five (RFC 7516), of which the first is a
/// JSON object.
fn is_jwt(text: &[u8]) -> bool {
    let parts: Vec<_> = text.split(|byte| *byte == b'.').collect();
    let header = parts.first().and_then(|part| decode_line(part, 2));
    matches!(parts.len(), 3 | 5) && header.is_some_and(|header| header.starts_with(b"{"))
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

#[cfg(test)]
mod tests;
