//! `traceparent` of W3C Trace Context (<https://www.w3.org/TR/trace-context/>, section 3.2): in which span a call is made.

use std::{fmt, ops::Range};

/// Bytes of a `traceparent` of version 00, with which those of later versions begin.
const BYTES: usize = 55;
const VERSION: Range<usize> = 0..2;
const TRACE_ID: Range<usize> = 3..35;
const SPAN_ID: Range<usize> = 36..52;
const FLAGS: Range<usize> = 53..55;
const HYPHENS: [usize; 3] = [2, 35, 52];

/// The span in which a call is made. Its ids are not zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    trace_id: u128,
    span_id: u64,
    is_sampled: bool,
}

impl TraceParent {
    /// The name of the header, of the metadata of gRPC, and of the member of `_meta` in MCP.
    pub const NAME: &'static str = "traceparent";

    /// A span that is recorded; `None` if an id is zero, which names nothing.
    #[must_use]
    pub const fn sampled(trace_id: u128, span_id: u64) -> Option<Self> {
        if trace_id == 0 || span_id == 0 {
            return None;
        }
        Some(Self {
            trace_id,
            span_id,
            is_sampled: true,
        })
    }

    /// Reads a value of version 00, or the part of a later version's that is the same there. `None` if it is malformed: then a call goes
    /// on as if it had none.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (head, rest) = text.as_bytes().split_at_checked(BYTES)?;
        let version = hex(&head[VERSION])?;
        let is_known = match version {
            0 => rest.is_empty(),
            0xff => false,
            _ => rest.first().is_none_or(|next| *next == b'-'),
        };
        if !is_known || HYPHENS.iter().any(|at| head[*at] != b'-') {
            return None;
        }
        let span_id = u64::try_from(hex(&head[SPAN_ID])?).ok()?;
        let read = Self::sampled(hex(&head[TRACE_ID])?, span_id)?;
        Some(Self {
            is_sampled: hex(&head[FLAGS])? & 1 == 1,
            ..read
        })
    }

    /// The trace.
    #[must_use]
    pub const fn trace_id(self) -> u128 {
        self.trace_id
    }

    /// The span within it.
    #[must_use]
    pub const fn span_id(self) -> u64 {
        self.span_id
    }

    /// Whether the caller records it.
    #[must_use]
    pub const fn is_sampled(self) -> bool {
        self.is_sampled
    }
}

/// As a value of version 00.
impl fmt::Display for TraceParent {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let flags = u8::from(self.is_sampled);
        let (trace_id, span_id) = (self.trace_id, self.span_id);
        write!(formatter, "00-{trace_id:032x}-{span_id:016x}-{flags:02x}")
    }
}

/// At most 32 digits, in lower case alone.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0, |value, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(value << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const VALUE: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    #[test]
    fn value_comes_back_as_it_was_read() {
        let read = TraceParent::parse(VALUE).unwrap();
        assert_eq!(read.trace_id(), 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c);
        assert_eq!(read.span_id(), 0xb7ad_6b71_6920_3331);
        assert_eq!(read.to_string(), VALUE);
        let sampled = TraceParent::sampled(read.trace_id(), read.span_id());
        assert_eq!(sampled, Some(read));
    }

    #[test]
    fn lowest_flag_alone_says_whether_the_caller_records() {
        for (flags, expected) in [("00", false), ("01", true), ("02", false), ("ff", true)] {
            let text = VALUE.replace("-01", &format!("-{flags}"));
            let read = TraceParent::parse(&text).unwrap();
            assert_eq!(read.is_sampled(), expected, "{flags}");
        }
    }

    #[test]
    fn later_version_is_read_as_far_as_it_is_known() {
        for rest in ["", "-", "-what-comes-later"] {
            let text = VALUE.replacen("00", "cc", 1) + rest;
            assert_eq!(TraceParent::parse(&text), TraceParent::parse(VALUE));
        }
        assert_eq!(
            TraceParent::parse(&(VALUE.replacen("00", "cc", 1) + ".")),
            None
        );
    }

    #[test]
    fn malformed_value_is_none() {
        let zeros = |digits| "0".repeat(digits);
        for text in [
            String::new(),
            VALUE[..54].to_owned(),
            format!("{VALUE}-"),
            format!(" {VALUE}"),
            VALUE.to_uppercase(),
            VALUE.replacen("00", "ff", 1),
            VALUE.replacen("00", "+0", 1),
            VALUE.replacen('-', "_", 1),
            VALUE.replace("-01", "-0x"),
            VALUE.replace("-01", "_01"),
            VALUE.replace("0af7651916cd43dd8448eb211c80319c", &zeros(32)),
            VALUE.replace("b7ad6b7169203331", &zeros(16)),
            "\u{20ac}".repeat(BYTES),
            "0".repeat(1 << 20),
        ] {
            assert_eq!(TraceParent::parse(&text), None, "{}", text.len());
        }
    }
}
