//! Text that is to hold PEM, and has lost its line ends on the way.

use std::fmt;

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
/// A line end as JSON writes it, and a shell that does not interpret it.
const ESCAPED: &[u8] = b"\\n";

/// Why no parser takes a text for PEM (RFC 7468), though it has the marks. Ask it only of what a
/// parser has refused: some take a block on one line. Displayed as a clause that fits behind the
/// file's name, with the remedy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotPem {
    /// Its line ends are written as a backslash and an `n`.
    Escaped,
    /// A block is on one line.
    OneLine,
}

impl NotPem {
    /// What is wrong with the text; `None` if its line ends are not.
    #[must_use]
    pub fn of(content: &[u8]) -> Option<Self> {
        let mut lines = content.split(|byte| matches!(byte, b'\n' | b'\r'));
        lines.find_map(|line| {
            let holds = |part: &[u8]| line.windows(part.len()).any(|window| window == part);
            if !holds(BEGIN) {
                None
            } else if holds(ESCAPED) {
                Some(Self::Escaped)
            } else if holds(END) {
                Some(Self::OneLine)
            } else {
                None
            }
        })
    }

    /// What is wrong.
    #[must_use]
    pub fn problem(self) -> &'static str {
        match self {
            Self::Escaped => {
                r"its line ends are written as `\n`, as in JSON or an environment variable"
            }
            Self::OneLine => "its line ends are missing",
        }
    }

    /// What to do about it.
    #[must_use]
    pub fn remedy(self) -> &'static str {
        match self {
            Self::Escaped => r#"write it with line ends, as `printf '%b' "$PEM"` or `jq -r` does"#,
            Self::OneLine => {
                "write it with its line ends: the marks and the base64 are lines of their own"
            }
        }
    }
}

impl fmt::Display for NotPem {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}: {}", self.problem(), self.remedy())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lost_line_ends_are_told_from_other_damage() {
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let escaped = pem.replace('\n', "\\n");
        let table = [
            (pem.to_owned(), None),
            (pem.replace('\n', "\r\n"), None),
            (format!("a \\n of a comment\n{pem}"), None),
            (pem.replace("-----END", "----END"), None),
            (String::new(), None),
            (escaped.clone(), Some(NotPem::Escaped)),
            (format!("\"{escaped}\"\n"), Some(NotPem::Escaped)),
            (pem.replace('\n', "\\r\\n"), Some(NotPem::Escaped)),
            (pem.replace('\n', " "), Some(NotPem::OneLine)),
            (pem.replace('\n', ""), Some(NotPem::OneLine)),
        ];
        for (text, flaw) in table {
            assert_eq!(NotPem::of(text.as_bytes()), flaw, "{text:?}");
        }
    }
}
