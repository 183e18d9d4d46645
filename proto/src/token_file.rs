//! Files that are to hold one token, and what is in them instead.

use std::fmt;

/// What begins a byte-order mark, and of which encoding it is.
const MARKS: [(&[u8], &str); 3] = [
    (b"\xef\xbb\xbf", "UTF-8"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
];
const SCHEME: &[u8] = b"bearer ";
/// How Helve's own tokens begin, behind the name of a variable.
const ASSIGNED: &[u8] = b"=hlv_";

/// Why the content of a file is no token, though it may hold one. Displayed as a clause that fits
/// behind the file's name, with the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotAToken {
    /// It starts with a byte-order mark of this encoding.
    ByteOrderMark(&'static str),
    /// A PEM block, such as of a key or a certificate.
    Pem,
    /// A JSON value.
    Json,
    /// It is not UTF-8.
    Binary,
    /// This many lines that are not blank.
    Lines(usize),
    /// It is in quotation marks.
    Quoted,
    /// The scheme of an `authorization` is in front of it.
    Scheme,
    /// A line such as `NAME=VALUE`.
    Assigned,
}

impl NotAToken {
    /// What is wrong with a file's content; `None` if it may be a token with white space around it,
    /// or nothing.
    #[must_use]
    pub fn of(content: &[u8]) -> Option<Self> {
        let text = content.trim_ascii();
        let mark = MARKS.iter().find(|(mark, _)| content.starts_with(mark));
        if let Some((_, encoding)) = mark {
            return Some(Self::ByteOrderMark(encoding));
        }
        let holds = |part: &[u8]| text.windows(part.len()).any(|window| window == part);
        let is_quote = |byte: Option<&u8>| matches!(byte, Some(b'"' | b'\'' | b'`'));
        let is_end = |byte: &u8| matches!(byte, b'\n' | b'\r');
        let lines = text.split(is_end).filter(|line| !line.is_empty()).count();
        if holds(b"-----BEGIN ") {
            Some(Self::Pem)
        } else if matches!(text.first(), Some(b'{' | b'[')) {
            Some(Self::Json)
        } else if std::str::from_utf8(text).is_err() {
            Some(Self::Binary)
        } else if lines > 1 {
            Some(Self::Lines(lines))
        } else if is_quote(text.first()) || is_quote(text.last()) {
            Some(Self::Quoted)
        } else if text
            .get(..SCHEME.len())
            .is_some_and(|head| head.eq_ignore_ascii_case(SCHEME))
        {
            Some(Self::Scheme)
        } else if holds(ASSIGNED) {
            Some(Self::Assigned)
        } else {
            None
        }
    }
}

impl fmt::Display for NotAToken {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ByteOrderMark(encoding) => write!(
                formatter,
                "it starts with a byte-order mark of {encoding}: save it as ASCII, without a mark"
            ),
            Self::Pem => formatter.write_str("it is a PEM file, not a token"),
            Self::Json => formatter.write_str("it is JSON: write the token alone into a file"),
            Self::Binary => formatter.write_str("it is not text, and so no token"),
            Self::Lines(2) => formatter.write_str("it has two lines: a token is one line"),
            Self::Lines(lines) => write!(formatter, "it has {lines} lines: a token is one line"),
            Self::Quoted => formatter.write_str("the token is in quotes: remove them"),
            Self::Scheme => formatter.write_str("it begins with `Bearer`: leave the token alone"),
            Self::Assigned => formatter.write_str("it is a line NAME=VALUE: leave the value alone"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_token_is_told_apart() {
        let token = format!("hlv_{}", "A".repeat(43));
        let said = |content: &[u8]| NotAToken::of(content).map(|flaw| flaw.to_string());
        for content in [&token, &format!("  {token}\r\n\r\n"), &"abc.d==".to_owned()] {
            assert_eq!(said(content.as_bytes()), None, "{content:?}");
        }
        assert_eq!((said(b""), said(b"\n")), (None, None));
        let utf16: Vec<u8> = "\u{feff}hlv_"
            .encode_utf16()
            .flat_map(u16::to_le_bytes)
            .collect();
        let table: [(Vec<u8>, &str); 11] = [
            (
                format!("\u{feff}{token}\n").into(),
                "starts with a byte-order mark of UTF-8",
            ),
            (utf16, "starts with a byte-order mark of UTF-16"),
            (format!("{token}\n{token}\n").into(), "has two lines"),
            (format!("{token}\r\n# a\r\nb").into(), "has 3 lines"),
            (
                b"-----BEGIN EC PRIVATE KEY-----\nAA\n".to_vec(),
                "is a PEM file, not a token",
            ),
            (format!("\"{token}\"\n").into(), "is in quotes"),
            (format!("'{token}'").into(), "is in quotes"),
            (format!("Bearer {token}").into(), "begins with `Bearer`"),
            (format!("HELVE_TOKEN={token}").into(), "NAME=VALUE"),
            (format!("{{\"token\":\"{token}\"}}").into(), "is JSON"),
            (b"\x80\x01\x02".to_vec(), "is not text"),
        ];
        for (content, part) in table {
            let said = said(&content).unwrap_or_default();
            assert!(
                said.contains(part) && !said.contains("AAA"),
                "{content:?}: {said}"
            );
        }
    }
}
