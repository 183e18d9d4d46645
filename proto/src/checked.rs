//! A codec that sees a flipped bit.
//!
//! TCP's 16-bit checksum misses some damage, and a flipped bit in a term or a value decodes well: it would stand in the log, on this
//! replica alone. So each message between nodes is followed by its CRC-32C, and one that does not fit is an error
//! like a lost connection. It is no protection against people: that is for TLS.

use std::{fmt, marker::PhantomData};

use bytes::{Buf, BufMut};
use prost::Message;
use tonic::{
    Status,
    codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
};

/// Bytes of the checksum, big-endian, behind the message.
const CHECKSUM_BYTES: usize = 4;

/// Messages of prost with a checksum.
#[derive(Clone)]
pub(crate) struct CheckedCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for CheckedCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> fmt::Debug for CheckedCodec<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckedCodec")
    }
}

impl<T, U> Codec for CheckedCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = CheckedEncoder<T>;
    type Decoder = CheckedDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        CheckedEncoder(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        CheckedDecoder(PhantomData)
    }
}

/// See [`CheckedCodec`].
#[derive(Debug)]
pub(crate) struct CheckedEncoder<T>(PhantomData<T>);

impl<T: Message> Encoder for CheckedEncoder<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, item: T, buf: &mut EncodeBuf<'_>) -> Result<(), Status> {
        let message = item.encode_to_vec();
        buf.reserve(message.len() + CHECKSUM_BYTES);
        buf.put_slice(&message);
        buf.put_u32(crc32c::crc32c(&message));
        Ok(())
    }
}

/// See [`CheckedCodec`].
#[derive(Debug)]
pub(crate) struct CheckedDecoder<U>(PhantomData<U>);

impl<U: Message + Default> Decoder for CheckedDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buf: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        decode(buf).map(Some)
    }
}

fn decode<U: Message + Default>(buf: &mut impl Buf) -> Result<U, Status> {
    let damaged = || Status::data_loss("a peer message was damaged on its way");
    let length = buf.remaining().checked_sub(CHECKSUM_BYTES);
    let message = buf.copy_to_bytes(length.ok_or_else(damaged)?);
    if buf.get_u32() != crc32c::crc32c(&message) {
        return Err(damaged());
    }
    U::decode(message).map_err(|error| Status::internal(error.to_string()))
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::peer::v1::Vote;

    const VOTE: Vote = Vote {
        term: 7,
        node_id: 3,
        committed: true,
    };

    fn encoded() -> Vec<u8> {
        let mut bytes = VOTE.encode_to_vec();
        bytes.put_u32(crc32c::crc32c(&bytes));
        bytes
    }

    #[test]
    fn a_whole_message_is_decoded() {
        let decoded: Vote = decode(&mut Bytes::from(encoded())).expect("it is whole");
        assert_eq!(decoded, VOTE);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        for bit in 0..encoded().len() * 8 {
            let mut bytes = encoded();
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(
                decode::<Vote>(&mut Bytes::from(bytes)).is_err(),
                "bit {bit}"
            );
        }
        for length in 0..encoded().len() {
            let cut = Bytes::from(encoded()).slice(..length);
            assert!(decode::<Vote>(&mut cut.clone()).is_err(), "{length} bytes");
        }
    }
}
