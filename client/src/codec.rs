//! How a store's values become bytes.

use bytes::Bytes;
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    error::Error,
    record::{decode, encode},
};

/// How values of type `T` become bytes, and bytes become values again. A store keeps bytes alone, and does not know what wrote them: all
/// that use a store of one name must use one codec.
///
/// An error is of kind [`Codec`](crate::ErrorKind::Codec): then nothing is written, and what is stored stays as it is.
///
/// ```
/// use bytes::Bytes;
/// use helve_client::{Codec, Error, ErrorKind};
///
/// /// Text as it is, instead of as JSON.
/// struct Text;
///
/// impl Codec<String> for Text {
///     fn encode(&self, value: &String) -> Result<Bytes, Error> {
///         Ok(value.clone().into())
///     }
///
///     fn decode(&self, bytes: Bytes) -> Result<String, Error> {
///         let text = String::from_utf8(bytes.into());
///         text.map_err(|_| Error::new(ErrorKind::Codec, "the stored value is no text"))
///     }
/// }
/// ```
pub trait Codec<T>: Send + Sync + 'static {
    /// The bytes that a value is kept as: at most 1 MiB.
    ///
    /// # Errors
    /// [`Codec`](crate::ErrorKind::Codec) if the value has no such form.
    fn encode(&self, value: &T) -> Result<Bytes, Error>;

    /// The value that is kept as these bytes.
    ///
    /// # Errors
    /// [`Codec`](crate::ErrorKind::Codec) if they are not what this codec writes.
    fn decode(&self, bytes: Bytes) -> Result<T, Error>;
}

/// Values as JSON (RFC 8259), by serde: what a store does if not told otherwise.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Json;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn encode(&self, value: &T) -> Result<Bytes, Error> {
        encode(value)
    }

    fn decode(&self, bytes: Bytes) -> Result<T, Error> {
        decode(&bytes)
    }
}

/// Bytes as they are: for values that are encoded already, and for those that are no JSON. No larger for it, as base64 would make them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Raw;

impl Codec<Bytes> for Raw {
    fn encode(&self, value: &Bytes) -> Result<Bytes, Error> {
        Ok(value.clone())
    }

    fn decode(&self, bytes: Bytes) -> Result<Bytes, Error> {
        Ok(bytes)
    }
}

impl Codec<Vec<u8>> for Raw {
    fn encode(&self, value: &Vec<u8>) -> Result<Bytes, Error> {
        Ok(Bytes::copy_from_slice(value))
    }

    fn decode(&self, bytes: Bytes) -> Result<Vec<u8>, Error> {
        Ok(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::{error::ErrorKind, vectors::texts};

    fn read(text: &str) -> Result<Value, Error> {
        Json.decode(Bytes::copy_from_slice(text.as_bytes()))
    }

    #[test]
    fn json_is_kept_read_or_refused_as_the_vectors_say() {
        for text in texts("values.json", "kept") {
            let value = read(&text).unwrap();
            let stored = Json.encode(&value).unwrap();
            let again: Value = Json.decode(stored).unwrap();
            // As text: a zero equals the negative one.
            assert_eq!(again.to_string(), value.to_string(), "{text}");
        }
        for text in texts("values.json", "read") {
            assert!(read(&text).is_ok(), "{text}");
        }
        for text in texts("values.json", "refused") {
            let stored = read(&text).and_then(|value| Json.encode(&value));
            assert_eq!(stored.unwrap_err().kind(), ErrorKind::Codec, "{text}");
        }
    }
}
