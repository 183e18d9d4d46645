//! What files are taken for.

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
    let table: [(&[u8], Looks); 31] = [
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
        (b"# ours\r\nssh-rsa AAAAB3NzaC1 alice", Looks::Ssh),
        (b"shop.example ssh-ed25519 AAAAC3NzaC1", Looks::Ssh),
        (
            b"no-pty,command=\"x\" sk-ssh-ed25519@openssh.com AAAAGnNr",
            Looks::Ssh,
        ),
        (
            b"---- BEGIN SSH2 PUBLIC KEY ----\nAAAAC3NzaC1\n",
            Looks::Ssh,
        ),
        (b"----begin public key----\nMCow\n", Looks::Pem),
        (&der, Looks::Der),
        (b"<!doctype html><title>Log in</title>", Looks::Markup),
        (b"see: <HTML><body>", Looks::Markup),
        (b"{\"keys\":[]}", Looks::Json),
        (b"var jwks = {\"keys\":[{\"kty\":\"RSA\"}]};", Looks::Jwk),
        (b"keys:\n  - kty: RSA\n", Looks::Jwk),
        (b"HTTP/2 200\r\n\r\n{\"keys\":[]}", Looks::Http),
        (b"https://id.example/.well-known/jwks.json", Looks::Url),
        (b"eyJhbGciOiJIUzI1NiJ9.e30.c2lnbmF0dXJl", Looks::Jwt),
        (b"\"c2VjcmV0\"", Looks::Quoted),
        (b"0Xc0ffee", Looks::Prefixed),
        (b"hlv_c2VjcmV0", Looks::Token),
        (b"c2VjcmV0LXNlY3Jl\r\ndC1zZWNyZXQ=\r\n", Looks::Wrapped),
        (b"correct horse\nbattery staple", Looks::Lines),
        (b"c0ffe", Looks::Digits(5)),
        (b"correct horse battery staple", Looks::Text),
        (b"\x80\x01\x92\xf3\x04\xa5\x06\xd7", Looks::Binary(8)),
    ];
    for (content, looks) in table {
        assert_eq!(Looks::of(content), looks, "{content:?}");
        assert!(!looks.to_string().is_empty());
    }
}

/// The base point of P-256.
const POINT: &str = "046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296\
    4fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5";

#[test]
fn uncompressed_point_is_public_at_every_layer() {
    let point = HEXLOWER_PERMISSIVE.decode(POINT.as_bytes()).unwrap();
    for bytes in [
        point.clone(),
        [&[4_u8][..], &[0xa5; 96]].concat(),
        [&[4_u8][..], &[0xa5; 132]].concat(),
    ] {
        assert_eq!(Looks::of(&bytes), Looks::Point, "{bytes:?}");
        let hex = HEXLOWER_PERMISSIVE.encode(&bytes);
        let base64url = BASE64URL_NOPAD.encode(&bytes);
        for text in [
            hex.clone(),
            hex.to_uppercase(),
            format!("0x{hex}\n"),
            BASE64.encode(&bytes),
            BASE64URL.encode(&bytes),
            base64url.clone(),
            format!("\"{base64url}\""),
            format!("VAPID_PUBLIC_KEY={base64url}\n"),
            BASE64.encode(base64url.as_bytes()),
        ] {
            let found = Looks::public_in(text.as_bytes());
            assert_eq!(found, Some(Looks::Point), "{text}");
        }
    }
    assert!(Looks::Point.to_string().contains("public key"));
    // Random bytes may well begin with the tag of a compressed point, or have another length.
    let compressed = [&[2 + (point[64] & 1)][..], &point[1..33]].concat();
    for bytes in [&compressed[..], &point[1..], &point[..64]] {
        assert_eq!(Looks::of(bytes), Looks::Binary(bytes.len()), "{bytes:?}");
    }
}

#[test]
fn what_is_public_is_found_wherever_it_is() {
    let der = BASE64.decode(ED25519.as_bytes()).unwrap();
    let hex = HEXLOWER_PERMISSIVE.encode(&der);
    let lines = format!("{}\r\n  {}\n", &ED25519[..40], &ED25519[40..]);
    let ssh = [&[0, 0, 0, 11][..], b"ssh-ed25519", &[0, 0, 0, 32], &[9; 32]].concat();
    let twice = BASE64.encode(lines.as_bytes());
    for text in [
        ED25519.to_owned(),
        hex.clone(),
        format!("0x{hex}"),
        format!("key={}", ED25519.trim_end_matches('=')),
        format!("the key: {ED25519}, of the shop"),
        format!("\"{}\"", BASE64.encode(&ssh)),
        lines,
        BASE64.encode(hex.as_bytes()),
        BASE64.encode(twice.as_bytes()),
        BASE64.encode(b"var jwks = {\"keys\":[{\"kty\":\"RSA\"}]}"),
    ] {
        assert!(Looks::public_in(text.as_bytes()).is_some(), "{text}");
    }
    for text in [
        "correct horse battery staple",
        "my-ssh-pass.kty.<word>",
        "a.b.c",
    ] {
        assert_eq!(Looks::public_in(text.as_bytes()), None, "{text}");
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
    let begins_so = format!("0x{}=", "Ab9+".repeat(10) + "A");
    assert!(!matches!(Looks::of(begins_so.as_bytes()), Looks::Prefixed));
    let bad = [&hex[..62], &hex[..60], &hex[..63], &base64[..30], "", "0x"];
    for text in bad {
        assert!(decode_line(text.as_bytes(), 32).is_none(), "{text}");
    }
}

proptest! {
    #[test]
    fn random_keys_are_taken_for_nothing_else(key: [u8; 32]) {
        prop_assert_eq!(Looks::of(&key), Looks::Binary(32));
        for line in [BASE64.encode(&key), BASE64URL_NOPAD.encode(&key)] {
            prop_assert_eq!(Looks::public_in(line.as_bytes()), None);
        }
    }

    #[test]
    fn no_content_panics(content in prop::collection::vec(any::<u8>(), 0..200)) {
        prop_assert!(!Looks::of(&content).to_string().is_empty());
        let _looks = Looks::public_in(&content);
    }
}
