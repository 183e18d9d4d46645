//! Values on the command line: what `--value` reads, and how a stored value is shown.

use std::{
    fs,
    io::{self, Read},
};

use anyhow::{anyhow, bail};
use bytes::Bytes;
use data_encoding::BASE64;
use helve_client::exact;
use serde_json::value::RawValue;

/// More than this is not read: it is over the limit of a value anyway.
const READ_BYTES_MAX: u64 = 8 << 20;

/// Flags of a command that writes a value.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ValueArgs {
    /// Value: JSON, `@FILE` for a file's content, or `-` for standard input
    #[arg(
        long,
        allow_negative_numbers = true,
        env = "HELVE_VALUE",
        value_name = "JSON"
    )]
    pub value: String,

    /// Store the value as it is, even if it is not JSON
    #[arg(long, env = "HELVE_RAW")]
    pub raw: bool,
}

impl ValueArgs {
    /// The bytes to store.
    ///
    /// # Errors
    /// If the value cannot be read, or is no JSON and `--raw` is not given.
    pub(crate) fn read(&self) -> anyhow::Result<Bytes> {
        encode(read(&self.value)?, self.raw.then_some(Raw))
    }
}

/// The value is taken as it is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Raw;

/// The bytes to store of what was said.
///
/// # Errors
/// If it is no JSON and not raw.
pub(crate) fn encode(said: Vec<u8>, raw: Option<Raw>) -> anyhow::Result<Bytes> {
    if raw.is_some() {
        return Ok(said.into());
    }
    exact::check(&said).map_err(|error| {
        anyhow!("the value cannot be kept: {error}; quote text as '\"text\"', or pass --raw")
    })?;
    Ok(compact(said).into())
}

/// The same JSON without white space between its parts: no digit of a number is touched.
fn compact(mut json: Vec<u8>) -> Vec<u8> {
    let (mut is_text, mut is_escaped) = (false, false);
    json.retain(|byte| {
        if is_text {
            is_text = is_escaped || *byte != b'"';
            is_escaped = !is_escaped && *byte == b'\\';
            return true;
        }
        is_text = *byte == b'"';
        !byte.is_ascii_whitespace()
    });
    json
}

/// What an argument means.
///
/// # Errors
/// If the file or standard input cannot be read, or holds too much.
pub(crate) fn read(said: &str) -> anyhow::Result<Vec<u8>> {
    let mut content = Vec::new();
    let (source, mut reader): (&str, Box<dyn Read>) = match said.strip_prefix('@') {
        Some("") => {
            bail!("`@` names no file: give @FILE, `-` for standard input, or the text itself")
        }
        Some(path) => {
            let file = fs::File::open(path).map_err(|error| unreadable(path, &error))?;
            (path, Box::new(file))
        }
        None if said == "-" => ("standard input", Box::new(io::stdin())),
        None => return Ok(said.as_bytes().to_vec()),
    };
    reader
        .by_ref()
        .take(READ_BYTES_MAX)
        .read_to_end(&mut content)
        .map_err(|error| unreadable(source, &error))?;
    if content.len() as u64 == READ_BYTES_MAX {
        bail!("`{source}` is too large: give less than 8 MiB");
    }
    Ok(content)
}

/// Why a file or standard input cannot be read, and what to do.
fn unreadable(source: &str, error: &io::Error) -> anyhow::Error {
    let why = match error.kind() {
        io::ErrorKind::NotFound => {
            "does not exist; name a file behind `@`, or give the text itself"
        }
        io::ErrorKind::NotADirectory => "lies in a file; name one in a directory",
        io::ErrorKind::IsADirectory => "is a directory; name a file in it",
        io::ErrorKind::PermissionDenied => {
            "cannot be read by this user; grant that, or name another file"
        }
        _ => return anyhow!("`{source}` cannot be read: {error}; name another file"),
    };
    anyhow!("`{source}` {why}")
}

/// A stored value for programs: itself if it is JSON, else its base64.
#[derive(Debug, Clone, serde::Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Shown {
    /// It is JSON: the text as it was stored.
    Value(Box<RawValue>),
    /// It is not.
    ValueBase64(String),
}

impl Shown {
    /// Of a stored value.
    #[must_use]
    pub(crate) fn new(value: &[u8]) -> Self {
        serde_json::from_slice(value)
            .map_or_else(|_| Self::ValueBase64(BASE64.encode(value)), Self::Value)
    }

    /// For people.
    #[must_use]
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Value(value) => value.get().to_owned(),
            Self::ValueBase64(text) => text.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Args as _;

    use super::*;

    #[test]
    fn a_value_may_be_a_negative_number() {
        for value in ["-1", "-0", "-1.5", "-9223372036854775808"] {
            let command = ValueArgs::augment_args(clap::Command::new("helve"));
            let parsed = command.try_get_matches_from(["helve", "--value", value]);
            let said = parsed.unwrap().get_one::<String>("value").cloned();
            assert_eq!(said.as_deref(), Some(value));
        }
    }

    #[test]
    fn a_value_is_json_unless_said_to_be_raw() {
        let json = encode(b"{ \"items\": [] }".to_vec(), None).unwrap();
        assert_eq!(&json[..], b"{\"items\":[]}");
        assert!(encode(b"plain".to_vec(), None).is_err());
        assert_eq!(&encode(b"plain".to_vec(), Some(Raw)).unwrap()[..], b"plain");
    }

    #[test]
    fn a_value_is_kept_to_the_digit_or_refused() {
        for kept in [
            "18446744073709551615",
            "1e20",
            "0.10000000000000001",
            "1.0",
            "-0.0",
            r#"["a  \\\" b",117.63331139400017]"#,
            r#"{"b":1,"a":"\u0000"}"#,
        ] {
            let stored = encode(kept.as_bytes().to_vec(), None).unwrap();
            assert_eq!(Shown::new(&stored).text(), kept);
            let printed = serde_json::to_string(&Shown::new(&stored)).unwrap();
            assert_eq!(printed, format!("{{\"value\":{kept}}}"));
        }
        for refused in [
            r#"{"a":1,"a":2}"#,
            r#""\ud800""#,
            "18446744073709551616",
            r#"{"a":[100000000000000000000]}"#,
            "9007199254740993.0",
            "3.14159265358979323846264338",
            &"[".repeat(200),
        ] {
            assert!(
                encode(refused.as_bytes().to_vec(), None).is_err(),
                "{refused}"
            );
        }
    }

    #[test]
    fn a_stored_value_is_shown_as_json_or_base64() {
        assert_eq!(Shown::new(b"{\"a\":1}").text(), "{\"a\":1}");
        assert!(matches!(Shown::new(b"\xff\xfe"), Shown::ValueBase64(text) if text == "//4="));
        let shown = serde_json::to_value(Shown::new(b"[1]")).unwrap();
        assert_eq!(shown, serde_json::json!({ "value": [1] }));
    }

    #[test]
    fn a_value_may_stand_in_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "[1,2]").unwrap();
        assert_eq!(
            read(&format!("@{}", file.path().display())).unwrap(),
            b"[1,2]"
        );
        let said = |argument: &str| read(argument).unwrap_err().to_string();
        for (argument, why) in [
            (
                "@/no/such/file",
                "`/no/such/file` does not exist; name a file",
            ),
            ("@/", "`/` is a directory; name a file in it"),
            ("@", "`@` names no file: give @FILE"),
        ] {
            assert!(said(argument).starts_with(why), "{}", said(argument));
        }
        assert_eq!(read("[3]").unwrap(), b"[3]");
    }
}
