//! What a port says first, and what that tells about it.

/// What HTTP/2 begins with on the client's side (RFC 9113, section 3.4), and an empty SETTINGS frame.
pub(super) const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

/// As much as is read before a greeting is judged.
pub(super) const GREETING_BYTES_MAX: usize = 64;

/// The head of a frame (RFC 9113, section 4.1).
const FRAME_HEAD_BYTES: usize = 9;

/// What answered a client that began to speak HTTP/2.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Greeting {
    Http2,
    Http1,
    Tls,
    Ssh,
    /// Something that is none of these.
    Other,
}

impl Greeting {
    /// Of the bytes so far; `None` if more must come first.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        let begins = |word: &[u8]| bytes.len() >= word.len() && bytes.starts_with(word);
        let may_become = |word: &[u8]| bytes.len() < word.len() && word.starts_with(bytes);
        if begins(b"HTTP/1.") {
            return Some(Self::Http1);
        }
        if begins(b"SSH-") {
            return Some(Self::Ssh);
        }
        // An alert of TLS, in the record layer of any version (RFC 8446, section 5.1).
        if begins(&[0x15, 0x03]) {
            return Some(Self::Tls);
        }
        let is_text = may_become(b"HTTP/1.") || may_become(b"SSH-") || may_become(&[0x15, 0x03]);
        if is_text {
            return None;
        }
        match bytes.get(..FRAME_HEAD_BYTES) {
            Some(head) if is_settings(head) => Some(Self::Http2),
            Some(_) => Some(Self::Other),
            // A frame's length begins with a zero: SETTINGS are short.
            None if bytes.first() == Some(&0) => None,
            None => Some(Self::Other),
        }
    }
}

/// The first frame of a server is SETTINGS, on no stream (RFC 9113, section 6.5), or GOAWAY, if it wants nothing of the kind.
fn is_settings(head: &[u8]) -> bool {
    let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
    let (kind, stream) = (head[3], &head[5..]);
    let is_settings = kind == 0x04 && length.is_multiple_of(6) && length <= 600;
    let is_goaway = kind == 0x07 && (8..=1_024).contains(&length);
    (is_settings || is_goaway) && stream == [0; 4]
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::any, prop_assert};

    use super::*;
    use crate::properties::check;

    #[test]
    fn greeting_is_told_by_its_first_bytes() {
        let settings = [0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 100];
        let table: [(&[u8], Option<Greeting>); 12] = [
            (&settings, Some(Greeting::Http2)),
            (&[0, 0, 0, 4, 0, 0, 0, 0, 0], Some(Greeting::Http2)),
            (&[0, 0, 0, 4, 0, 0, 0, 0, 1], Some(Greeting::Other)),
            (&settings[..8], None),
            (b"HTTP/1.1 400 Bad Request\r\n", Some(Greeting::Http1)),
            (b"HTTP", None),
            (b"SSH-2.0-OpenSSH_9.2", Some(Greeting::Ssh)),
            (&[0x15, 0x03, 0x03, 0, 2, 2, 50], Some(Greeting::Tls)),
            (b"-ERR unknown command 'PRI'", Some(Greeting::Other)),
            (b"220 mail.example ESMTP", Some(Greeting::Other)),
            (&[0, 0, 6, 5, 0, 0, 0, 0, 0], Some(Greeting::Other)),
            (b"", None),
        ];
        for (bytes, greeting) in table {
            assert_eq!(Greeting::of(bytes), greeting, "{bytes:?}");
        }
    }

    #[test]
    fn no_greeting_that_a_port_makes_up_is_waited_for_beyond_a_frame_head() {
        check(&vec(any::<u8>(), 0..GREETING_BYTES_MAX), |bytes| {
            let greeting = Greeting::of(&bytes);
            prop_assert!(greeting.is_some() || bytes.len() < FRAME_HEAD_BYTES);
            Ok(())
        });
    }
}
