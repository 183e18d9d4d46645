//! What a caller sent, cut for the log.

use std::fmt::{self, Display, Formatter, Write as _};

/// Bytes of a caller's name for something that one field of a line repeats.
const NAME_BYTES_MAX: usize = 64;
/// Bytes of a reason, which may repeat what a caller sent.
const REASON_BYTES_MAX: usize = 256;

/// Shows the beginning of a text, control characters escaped. The rest is never written, however
/// long the text is.
pub(crate) struct Excerpt<T> {
    text: T,
    bytes_max: usize,
}

impl<T: Display> Excerpt<T> {
    /// Of a caller's name for something.
    pub(crate) fn name(text: T) -> Self {
        Self {
            text,
            bytes_max: NAME_BYTES_MAX,
        }
    }

    /// Of a reason.
    pub(crate) fn reason(text: T) -> Self {
        Self {
            text,
            bytes_max: REASON_BYTES_MAX,
        }
    }
}

/// Takes the beginning of what is written.
struct Cut<'a, 'b> {
    to: &'a mut Formatter<'b>,
    left: usize,
    is_full: bool,
}

impl fmt::Write for Cut<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for char in text.chars() {
            let Some(left) = self.left.checked_sub(char.len_utf8()) else {
                self.is_full = true;
                return Err(fmt::Error);
            };
            self.left = left;
            if char.is_control() {
                write!(self.to, "{}", char.escape_default())?;
            } else {
                self.to.write_char(char)?;
            }
        }
        Ok(())
    }
}

impl<T: Display> Display for Excerpt<T> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let mut cut = Cut {
            to: formatter,
            left: self.bytes_max,
            is_full: false,
        };
        let written = write!(cut, "{}", self.text);
        if cut.is_full {
            return formatter.write_str("...");
        }
        written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_text_is_shown_whole_and_long_text_is_cut() {
        assert_eq!(Excerpt::name("delete").to_string(), "delete");
        assert_eq!(Excerpt::name("a\nb").to_string(), "a\\nb");
        let long = Excerpt::name("é".repeat(1 << 20)).to_string();
        assert_eq!(long, format!("{}...", "é".repeat(32)));
        let written = Excerpt::reason(format_args!("{:?}", "x".repeat(1 << 20))).to_string();
        assert_eq!(written.len(), REASON_BYTES_MAX + 3);
    }
}
