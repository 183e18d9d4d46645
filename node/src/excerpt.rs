//! What a caller sent, cut for messages and logs.

use std::fmt::{self, Write as _};

/// Bytes of a caller's text that are repeated to it: as much as a store's name may have.
const EXCERPT_BYTES_MAX: usize = 64;

/// Bytes of an error's message. It travels twice in the trailers, percent-encoded in one of them, and common clients refuse trailers
/// above 8 KiB.
const MESSAGE_TEXT_BYTES_MAX: usize = 1_024;

/// Shows the beginning of a caller's text, control characters escaped, and its length if there is more.
///
/// A message echoes what it refuses before the limits on that have been checked. Whole, a text of
/// 8 MiB would be copied into the message, percent-encoded into `grpc-message` and held until the
/// caller reads it.
pub(crate) struct Excerpt<'a>(pub(crate) &'a str);

impl fmt::Display for Excerpt<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = head(self.0, EXCERPT_BYTES_MAX);
        for char in shown.chars() {
            if char.is_control() {
                write!(formatter, "{}", char.escape_default())?;
            } else {
                formatter.write_char(char)?;
            }
        }
        if shown.len() < self.0.len() {
            write!(formatter, "... ({} bytes)", self.0.len())?;
        }
        Ok(())
    }
}

/// An error's message, or its beginning: clients refuse headers that are too large, and hear of no error then.
pub(crate) fn message(mut text: String) -> String {
    let kept = head(&text, MESSAGE_TEXT_BYTES_MAX).len();
    if kept < text.len() {
        text.truncate(kept);
        text.push_str("...");
        text.shrink_to_fit();
    }
    text
}

/// The longest beginning of a text of at most this many bytes.
pub(crate) fn head(text: &str, bytes: usize) -> &str {
    let longest = bytes.min(text.len());
    let end = (0..=longest).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::properties::check;

    #[test]
    fn excerpt_of_short_text_is_the_text() {
        assert_eq!(Excerpt("cart").to_string(), "cart");
        assert_eq!(Excerpt("a\nb").to_string(), "a\\nb");
    }

    #[test]
    fn excerpt_of_long_text_is_cut_and_names_the_length() {
        let shown = Excerpt(&"é".repeat(4 << 20)).to_string();
        assert_eq!(shown, format!("{}... (8388608 bytes)", "é".repeat(32)));
    }

    #[test]
    fn excerpt_of_what_a_client_makes_up_is_bounded() {
        check(&"(?s).{0,300}", |text| {
            let shown = Excerpt(&text).to_string();
            // An escape has at most ten characters.
            prop_assert!(shown.len() <= 10 * EXCERPT_BYTES_MAX + 32);
            prop_assert!(!shown.chars().any(char::is_control));
            Ok(())
        });
    }
}
