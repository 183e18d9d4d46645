//! Whether a content has the form of a shared secret.
//!
//! What an operator names as the file of a secret may be public all the same: an error page, a DNS record, a fingerprint, a key
//! in an encoding that nothing here decodes. Everybody who knows the text could sign tokens. So a secret has one of the few forms
//! that random generators write, and all else is refused.

use helve_seal::{Looks, decode_line};

/// Lengths of a secret of raw bytes: the digests of HMAC.
const RAW_BYTES: [usize; 3] = [32, 48, 64];
/// Different values among eight raw bytes, at least. Of 32 random bytes 30 differ.
const RAW_DIFFERENT_OF_8: usize = 5;
/// Different digits of a line of base64. Of 2^40 random lines fewer than one has less.
const BASE64_DIFFERENT_MIN: usize = 10;
/// The same of hexadecimal digits, of which there are 16.
const HEX_DIFFERENT_MIN: usize = 6;
/// Bytes from which on random ones do not read as text.
const TEXT_BYTES_MIN: usize = 24;
/// How often a line may be encoded again, as by what writes Kubernetes secrets.
const LAYERS_MAX: usize = 3;

/// The secret in a content: its bytes if they are as many as a generator writes, else its line without the end.
pub(super) fn secret_of(content: &[u8]) -> &[u8] {
    let is_raw =
        RAW_BYTES.contains(&content.len()) && matches!(Looks::of(content), Looks::Binary(_));
    if is_raw {
        content
    } else {
        content.trim_ascii_end()
    }
}

/// Checks the form of what [`secret_of`] found.
///
/// # Errors
/// What it looks like instead.
pub(super) fn check(secret: &[u8]) -> Result<(), Looks> {
    match Looks::of(secret) {
        Looks::Binary(_) if is_raw(secret) => Ok(()),
        Looks::Text | Looks::Digits(_) => check_line(secret, LAYERS_MAX),
        looks => Err(looks),
    }
}

fn is_raw(bytes: &[u8]) -> bool {
    RAW_BYTES.contains(&bytes.len()) && different(bytes) * 8 >= bytes.len() * RAW_DIFFERENT_OF_8
}

fn check_line(line: &[u8], layers: usize) -> Result<(), Looks> {
    if !is_hex(line) && !is_base64(line) {
        return Err(Looks::Text);
    }
    let Some(inside) = decode_line(line, TEXT_BYTES_MIN) else {
        return Ok(());
    };
    match Looks::of(&inside) {
        Looks::Binary(_) => Ok(()),
        Looks::Text | Looks::Digits(_) if layers > 0 => {
            check_line(inside.trim_ascii_end(), layers - 1)
        }
        looks => Err(looks),
    }
}

fn is_hex(line: &[u8]) -> bool {
    line.iter().all(u8::is_ascii_hexdigit) && different(line) >= HEX_DIFFERENT_MIN
}

/// Whether it is a line of one of the two alphabets of base64 (RFC 4648). One without capitals, or of nothing else, is of another
/// encoding, such as base32 or bech32, or words.
fn is_base64(line: &[u8]) -> bool {
    let end = line.strip_suffix(b"=").unwrap_or(line);
    let digits = end.strip_suffix(b"=").unwrap_or(end);
    let has = |is: fn(&u8) -> bool| digits.iter().any(is);
    let is_of = |more: [u8; 2]| {
        let mut digits = digits.iter();
        digits.all(|digit| digit.is_ascii_alphanumeric() || more.contains(digit))
    };
    (is_of(*b"+/") || is_of(*b"-_"))
        && has(u8::is_ascii_uppercase)
        && has(u8::is_ascii_lowercase)
        && different(digits) >= BASE64_DIFFERENT_MIN
}

/// How many different bytes there are.
pub(super) fn different(bytes: &[u8]) -> usize {
    let mut seen = [false; 256];
    for byte in bytes {
        seen[usize::from(*byte)] = true;
    }
    seen.iter().filter(|seen| **seen).count()
}

#[cfg(test)]
mod tests {
    use data_encoding::{BASE32, BASE64, BASE64URL, BASE64URL_NOPAD, HEXLOWER, HEXUPPER};
    use proptest::prelude::*;

    use super::*;
    use crate::properties;

    const DER: &[u8] = b"\x30\x2a\x30\x05\x06\x03\x2b\x65\x70\x03\x21\x00\
        \x11\xd8\x5a\x07\xc3\x99\xe0\x2b\x4c\x8f\xfa\x36\x71\xbd\x19\x52\
        \xa5\x0d\xee\x83\x64\x2f\xb8\x90\x47\xcc\x1e\xf5\x6a\x03\xd1\x7b";

    #[test]
    fn what_random_generators_write_is_a_secret() {
        properties::check(&prop::collection::vec(any::<u8>(), 64), |bytes| {
            for length in RAW_BYTES {
                let raw = &bytes[..length];
                for line in [
                    BASE64.encode(raw),
                    BASE64URL.encode(raw),
                    BASE64URL_NOPAD.encode(raw),
                    HEXLOWER.encode(raw),
                    HEXUPPER.encode(raw),
                    BASE64.encode(BASE64.encode(raw).as_bytes()),
                    BASE64.encode(format!("{}\n", HEXLOWER.encode(raw)).as_bytes()),
                ] {
                    prop_assert_eq!(check(line.as_bytes()), Ok(()), "{}", line);
                    let with_end = format!("{line}\r\n");
                    prop_assert_eq!(secret_of(with_end.as_bytes()), line.as_bytes());
                }
                prop_assert_eq!(check(raw), Ok(()), "{:?}", raw);
            }
            Ok(())
        });
        for length in [32, 48, 64] {
            // A byte that reads as a line end is one of the secret.
            let raw: Vec<u8> = (0x80..0x80 + length - 1).chain([b'\n']).collect();
            assert_eq!(secret_of(&raw), raw);
            let with_end = [&raw[..], b"\n"].concat();
            assert_eq!(secret_of(&with_end), with_end.trim_ascii_end());
        }
    }

    #[test]
    fn public_texts_are_no_secrets() {
        let escaped: String = DER.iter().map(|byte| format!("%{byte:02X}")).collect();
        let gzip = [b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\xff", DER, DER, DER].concat();
        let colons: Vec<String> = DER.iter().map(|byte| format!("{byte:02x}")).collect();
        let page = "404 page not found: the requested resource does not exist";
        for text in [
            page,
            "404-page-not-found-the-requested-resource",
            "%7B%22keys%22%3A%5B%7B%22kty%22%3A%22EC%22%7D%5D%7D",
            "age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kdz3ctxzsyyytyu",
            "did:key:z6MkhaXgBZDvotDkL5257faiztiGiC2QtKLGpbnnEGta2doK",
            "v=DKIM1; k=ed25519; p=EdhaB8OZ4CtMj/o2cb0ZUqUN7oNkL7iQR8we9WoD0Xs=",
            "example.com. IN DNSKEY 257 3 13 EdhaB8OZ4CtMj/o2cb0ZUqUN7oNkL7iQR8",
            "SHA256:EdhaB8OZ4CtMj/o2cb0ZUqUN7oNkL7iQR8we9WoD0Xs",
            "<~0jJ=I0JkLZ+>GQ(+>P&o4ZX]?1bLXL3\\W3(+>b3p4ZX~>",
            "EdhaB8OZ4CtMj/o2cb0ZUqUN7oNkL7iQR8we9WoD0Xs===",
            "EdhaB8OZ4CtMj/o2cb0ZUqUN7oNk-_iQR8we9WoD0Xs",
            "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
            "AaAaAaAaAaAaAaAaAaAaAaAaAaAaAaAaAaAaAaAa",
            &escaped,
            &colons.join(":"),
            &BASE32.encode(DER),
            &BASE32.encode(DER).to_lowercase(),
            &BASE64.encode(page.as_bytes()),
            &HEXLOWER.encode(page.as_bytes()),
            &BASE64.encode(BASE64.encode(page.as_bytes()).as_bytes()),
            &BASE64.encode(BASE32.encode(DER).as_bytes()),
            &BASE64.encode(&gzip),
            &HEXLOWER.encode(&gzip),
        ] {
            assert!(check(secret_of(text.as_bytes())).is_err(), "{text}");
        }
        let mostly_same = [
            &[0xff; 40][..],
            &[0x80, 0x81, 0x82, 0x83, 0x84, 0x85, 0x86, 0x87],
        ];
        for bytes in [&gzip[..], &gzip[..63], DER, &mostly_same.concat()] {
            assert!(check(secret_of(bytes)).is_err(), "{bytes:?}");
        }
    }
}
