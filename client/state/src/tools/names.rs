//! Keys as paths that stay readable, never leave their root, and never meet.
//!
//! A key is cut at each `/`. Of each part the bytes of `[a-z0-9_-]` are kept; every other one,
//! capitals included, for file systems that fold case, becomes `%` and two digits. An empty part is
//! `%`. So no part is `.` or `..`, none begins with a dot, and `.` and `~` are free to mark what is
//! no part: `.json` ends a key's last part, and `~` a piece of a part that is too long for a file
//! name.

/// Bytes of a file name that a part may take, of the 255 that file systems allow.
const PIECE_BYTES_MAX: usize = 200;

/// The path of a key's directories and its last part, without an ending.
pub(super) fn path(key: &str) -> String {
    key.split('/').map(part).collect::<Vec<_>>().join("/")
}

/// The path of the directory that holds all keys with this prefix, or none that is narrower than the root.
pub(super) fn directory(prefix: &str) -> Option<String> {
    let (parents, _) = prefix.rsplit_once('/')?;
    Some(path(parents))
}

/// The key of a path; `None` for what [`path`] never answers.
pub(super) fn key(path: &str) -> Option<String> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut is_continued = true;
    for piece in path.split('/') {
        if !is_continued {
            bytes.push(b'/');
        }
        let text = piece.strip_suffix('~').unwrap_or(piece);
        is_continued = text.len() < piece.len();
        unescape(text, &mut bytes)?;
    }
    let key = String::from_utf8(bytes).ok()?;
    (self::path(&key) == path).then_some(key)
}

fn part(text: &str) -> String {
    if text.is_empty() {
        return "%".to_owned();
    }
    let mut path = String::new();
    let mut piece = 0;
    for byte in text.bytes() {
        let bytes = if is_plain(byte) { 1 } else { 3 };
        if piece + bytes > PIECE_BYTES_MAX {
            path.push_str("~/");
            piece = 0;
        }
        piece += bytes;
        if is_plain(byte) {
            path.push(char::from(byte));
        } else {
            path.push('%');
            path.push(digit(byte >> 4));
            path.push(digit(byte & 0x0f));
        }
    }
    path
}

fn is_plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')
}

fn digit(nibble: u8) -> char {
    char::from(match nibble {
        0..=9 => b'0' + nibble,
        _ => b'a' + nibble - 10,
    })
}

fn unescape(text: &str, bytes: &mut Vec<u8>) -> Option<()> {
    if text == "%" {
        return Some(());
    }
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else if is_plain(byte) {
            bytes.push(byte);
        } else {
            return None;
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_keys_are_their_own_paths() {
        for plain in ["checkpoints/agent-1/latest", "logs/a_b/007", "x"] {
            assert_eq!(path(plain), plain);
        }
        assert_eq!(path("A.b/../"), "%41%2eb/%2e%2e/%");
    }

    #[test]
    fn every_key_has_a_path_of_its_own_that_stays_below_the_root() {
        let long = "k".repeat(1024);
        let wide = "\u{1f511}".repeat(256);
        let slashes = "/".repeat(1024);
        let exact = "k".repeat(PIECE_BYTES_MAX);
        let keys = [
            ".",
            "..",
            "../..",
            "/",
            "//",
            "/etc/passwd",
            "a",
            "A",
            "a/",
            "/a",
            "a//b",
            "a/b",
            "%",
            "%2e",
            "~",
            "a~",
            "a~/b",
            "a.json",
            "a.json/b",
            ".helve",
            "\u{1}",
            "\u{ff}",
            &long,
            &wide,
            &slashes,
            &exact,
        ];
        let mut paths = Vec::new();
        for key in keys {
            let path = path(key);
            for name in path.split('/') {
                assert!(
                    !name.is_empty() && name.len() <= 255 && !name.contains('.'),
                    "{path}"
                );
            }
            assert_eq!(super::key(&path).as_deref(), Some(key));
            paths.push(path);
        }
        paths.sort_unstable();
        paths.dedup();
        assert_eq!(paths.len(), keys.len());
    }

    #[test]
    fn a_path_that_no_key_has_is_none() {
        for stranger in [
            "A", "a b", "%4", "%zz", "%2E", "a~", "~/a", "%61", "", "a//b", "%ff",
        ] {
            assert_eq!(key(stranger), None, "{stranger}");
        }
    }
}
