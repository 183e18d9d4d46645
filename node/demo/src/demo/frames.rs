//! Where replies begin among the bytes of an HTTP/2 connection.

/// Finds the frames in one direction of an HTTP/2 connection.
#[derive(Default)]
pub(super) struct Frames {
    header: [u8; 9],
    header_bytes: usize,
    payload_left: usize,
}

impl Frames {
    /// Takes in the next bytes of the connection; true if a DATA frame with a payload begins in them.
    pub(super) fn bring_data(&mut self, mut bytes: &[u8]) -> bool {
        const DATA: u8 = 0;
        let mut data = false;
        while !bytes.is_empty() {
            let skipped = self.payload_left.min(bytes.len());
            self.payload_left -= skipped;
            bytes = &bytes[skipped..];
            let taken = (self.header.len() - self.header_bytes).min(bytes.len());
            if self.payload_left > 0 || taken == 0 {
                continue;
            }
            self.header[self.header_bytes..][..taken].copy_from_slice(&bytes[..taken]);
            self.header_bytes += taken;
            bytes = &bytes[taken..];
            if self.header_bytes == self.header.len() {
                let [high, middle, low, kind, ..] = self.header;
                self.payload_left =
                    usize::from(high) << 16 | usize::from(middle) << 8 | usize::from(low);
                self.header_bytes = 0;
                data |= kind == DATA && self.payload_left > 0;
            }
        }
        data
    }
}

/// A frame of this kind with this payload.
#[cfg(test)]
pub(super) fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = u8::try_from(payload.len()).expect("tests have short payloads");
    [&[0, 0, length, kind, 0, 0, 0, 0, 1], payload].concat()
}

#[cfg(test)]
mod tests {
    use super::{Frames, frame};

    #[test]
    fn data_is_told_from_other_frames_wherever_reads_end() {
        let settings = frame(4, &[0; 6]);
        let headers = frame(1, &[0; 20]);
        let data = frame(0, &[0; 5]);
        let stream = [settings.clone(), headers.clone(), data, headers.clone()].concat();
        let data_at = settings.len() + headers.len();
        for size in 1..stream.len() {
            let mut frames = Frames::default();
            let found: Vec<_> = stream
                .chunks(size)
                .enumerate()
                .filter_map(|(number, chunk)| frames.bring_data(chunk).then_some(number))
                .collect();
            assert_eq!(found, [(data_at + 8) / size], "reads of {size} bytes");
        }
    }

    #[test]
    fn an_empty_data_frame_is_no_reply() {
        assert!(!Frames::default().bring_data(&frame(0, &[])));
    }
}
