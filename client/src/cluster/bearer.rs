//! The token that says who calls, on every call.

use std::{
    fmt, fs,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use helve_proto::{NotAToken, Reason};
use tokio::time::Instant;
use tonic::codegen::http::HeaderValue;
use zeroize::Zeroizing;

use super::named;
use crate::error::Error;

/// Bytes that a token's file may have.
const FILE_BYTES_MAX: u64 = 4096;

/// How long a file is not looked at again.
const FRESH: Duration = Duration::from_secs(1);

/// Puts a token into each call's `authorization` (RFC 6750), or nothing, where there is none. It is never shown.
#[derive(Clone, Default)]
pub struct Bearer(Option<Arc<Source>>);

/// Where the token comes from.
enum Source {
    Given(HeaderValue),
    File { path: PathBuf, read: Mutex<Loaded> },
}

/// A file, as it was read last.
struct Loaded {
    header: HeaderValue,
    changed: Option<SystemTime>,
    looked_at: Instant,
}

impl Bearer {
    /// This token.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if it is empty, or has characters that no token has.
    pub fn given(token: &str) -> Result<Self, Error> {
        Ok(Self(Some(Arc::new(Source::Given(header(token)?)))))
    }

    /// The token in this file. It is read again when the file has changed, within a second; a file that cannot be read then leaves the
    /// token that was there. A pipe is read once; this blocks until its writer ends, for ten seconds at most.
    ///
    /// # Errors
    /// [`Invalid`](crate::ErrorKind::Invalid) if the file cannot be read, can be read by everyone, or holds no token.
    pub fn from_file(path: impl Into<PathBuf>) -> Result<Self, Error> {
        let path = path.into();
        let read = Mutex::new(Loaded::new(&path)?);
        Ok(Self(Some(Arc::new(Source::File { path, read }))))
    }

    /// Whether calls bear no token.
    pub(crate) fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// The content of `authorization`; nothing where there is no token.
    pub(crate) fn header(&self) -> Option<HeaderValue> {
        self.0.as_deref().map(Source::header)
    }
}

impl fmt::Debug for Bearer {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self.0.as_deref() {
            None => "Bearer(none)",
            Some(Source::Given(_)) => "Bearer(given)",
            Some(Source::File { .. }) => "Bearer(file)",
        })
    }
}

impl Source {
    fn header(&self) -> HeaderValue {
        match self {
            Self::Given(header) => header.clone(),
            Self::File { path, read } => {
                // Nothing panics while it holds the lock half-way, so a poisoned one is still right.
                let mut read = read.lock().unwrap_or_else(PoisonError::into_inner);
                read.refresh(path);
                read.header.clone()
            }
        }
    }
}

impl Loaded {
    fn new(path: &Path) -> Result<Self, Error> {
        let (content, changed) = read(path)?;
        let refused = |what: &dyn fmt::Display| {
            let message = format!("the token file {}: {what}", path.display());
            Error::refused(Reason::BadRequest, message, 0, 0)
        };
        if let Some(flaw) = NotAToken::of(&content) {
            return Err(refused(&flaw));
        }
        let token = std::str::from_utf8(&content).unwrap_or_default();
        let header = header(token.trim()).map_err(|error| refused(&error))?;
        Ok(Self {
            header,
            changed,
            looked_at: Instant::now(),
        })
    }

    fn refresh(&mut self, path: &Path) {
        let now = Instant::now();
        if now.duration_since(self.looked_at) < FRESH {
            return;
        }
        self.looked_at = now;
        let found = fs::metadata(path);
        // A pipe gives its token once, and to open it again would wait for another writer.
        if found.as_ref().is_ok_and(named::is_pipe) {
            return;
        }
        let changed = found.and_then(|file| file.modified()).ok();
        if changed == self.changed {
            return;
        }
        match Self::new(path) {
            Ok(loaded) => *self = loaded,
            Err(error) => tracing::warn!(%error, "the token of before is used on"),
        }
    }
}

/// The content of a token's file, and when it was changed.
fn read(path: &Path) -> Result<(Zeroizing<Vec<u8>>, Option<SystemTime>), Error> {
    let refused = |what: &str| {
        let message = format!("the token file {}: {what}", path.display());
        Error::refused(Reason::BadRequest, message, 0, 0)
    };
    let unreadable = |error| {
        refused("it cannot be read: name a file that this user may read").with_source(error)
    };
    if path.is_dir() {
        return Err(refused("it is a directory"));
    }
    let named::Content { bytes, metadata } =
        named::read(path, FILE_BYTES_MAX).map_err(unreadable)?;
    if let Some(why) = exposed(path, &metadata) {
        return Err(refused(&why));
    }
    // The beginning of a longer file would be another token.
    if bytes.len() as u64 > FILE_BYTES_MAX {
        return Err(refused("it is over 4096 bytes, and holds something else"));
    }
    Ok((bytes, metadata.modified().ok()))
}

/// Why a file must hold no secret: users who neither own it nor are in its group can read it, or change it.
#[cfg(unix)]
#[must_use]
pub fn exposed(path: &Path, metadata: &fs::Metadata) -> Option<String> {
    use std::os::unix::fs::MetadataExt;
    let mode = metadata.mode() & 0o777;
    let why = || {
        let path = path.display();
        format!(
            "other users of this machine may read or write it (mode {mode:03o}): chmod 600 {path}"
        )
    };
    (mode & 0o007 != 0).then(why)
}

/// Why a file must hold no secret: not known here.
#[cfg(not(unix))]
#[must_use]
pub fn exposed(_: &Path, _: &fs::Metadata) -> Option<String> {
    None
}

fn header(token: &str) -> Result<HeaderValue, Error> {
    let is_token = !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic());
    let text = Zeroizing::new(format!("Bearer {token}"));
    match text.parse::<HeaderValue>() {
        Ok(mut header) if is_token => {
            // HTTP/2 must not keep it in its table of headers, nor any log.
            header.set_sensitive(true);
            Ok(header)
        }
        _ => {
            let message = "there is no token: it is one line of visible characters";
            Err(Error::refused(Reason::BadRequest, message, 0, 0))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &str = "hlv_not-to-be-shown";

    fn sent(bearer: &Bearer) -> Option<String> {
        let value = bearer.header();
        value.map(|value| value.to_str().unwrap().to_owned())
    }

    #[test]
    fn each_call_bears_the_token_and_nothing_shows_it() {
        let bearer = Bearer::given(SECRET).unwrap();
        assert_eq!(sent(&bearer), Some(format!("Bearer {SECRET}")));
        let Some(Source::Given(header)) = bearer.0.as_deref() else {
            panic!("it was given");
        };
        assert!(!format!("{bearer:?} {header:?}").contains(SECRET));
        assert_eq!(sent(&Bearer::default()), None);
        for token in ["", "two words", "a\nb"] {
            assert!(Bearer::given(token).is_err(), "{token:?}");
        }
    }

    #[test]
    fn file_without_a_token_is_named_with_what_it_is() {
        let directory = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = directory.path().join(name);
            fs::write(&path, text).unwrap();
            #[cfg(unix)]
            fs::set_permissions(&path, std::os::unix::fs::PermissionsExt::from_mode(0o600))
                .unwrap();
            path
        };
        for (path, why) in [
            (directory.path().to_owned(), "it is a directory"),
            (directory.path().join("none"), "it cannot be read"),
            (file("empty", ""), "there is no token"),
            (file("blank", "\n"), "there is no token"),
            (file("words", "a token\n"), "there is no token"),
            (
                file("mark", "\u{feff}hlv_a"),
                "starts with a byte-order mark",
            ),
            (file("lines", "hlv_a\nhlv_b\n"), "has two lines"),
            (file("quotes", "\"hlv_a\"\n"), "is in quotes"),
        ] {
            let said = Bearer::from_file(&path).unwrap_err().to_string();
            let shown = path.display().to_string();
            assert!(said.contains(&shown) && said.contains(why), "{said}");
        }
        let line = Bearer::from_file(file("line", &format!("{SECRET}\r\n"))).unwrap();
        assert_eq!(sent(&line), Some(format!("Bearer {SECRET}")));
    }

    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn token_of_a_pipe_is_read_once_and_stays_in_use() {
        let directory = tempfile::tempdir().unwrap();
        let path = named::tests::pipe(directory.path());
        let writer = {
            let path = path.clone();
            std::thread::spawn(move || fs::write(path, SECRET))
        };
        let bearer = Bearer::from_file(&path).unwrap();
        writer.join().unwrap().unwrap();
        tokio::time::advance(FRESH * 2).await;
        let Some(Source::File { read, .. }) = bearer.0.as_deref() else {
            panic!("it is of a file");
        };
        read.lock().unwrap().changed = None;
        // Who opened it again would have this token.
        let other = {
            let path = path.clone();
            std::thread::spawn(move || fs::write(path, "hlv_another"))
        };
        assert_eq!(sent(&bearer), Some(format!("Bearer {SECRET}")));
        assert_eq!(fs::read(&path).unwrap(), b"hlv_another");
        other.join().unwrap().unwrap();
        let looked_at = read.lock().unwrap().looked_at;
        assert_eq!(looked_at, Instant::now(), "it was not looked at");
    }

    #[cfg(unix)]
    #[tokio::test(start_paused = true)]
    async fn a_file_that_changes_is_read_again_and_one_that_breaks_leaves_the_token() {
        use std::os::unix::fs::PermissionsExt;

        let file = tempfile::NamedTempFile::new().unwrap();
        assert!(Bearer::from_file(file.path()).is_err(), "it is empty");
        fs::write(file.path(), format!("{SECRET}\n")).unwrap();
        let bearer = Bearer::from_file(file.path()).unwrap();
        let write = |text: &str, age_s| {
            fs::write(file.path(), text).unwrap();
            let time = SystemTime::now() - Duration::from_secs(age_s);
            file.as_file().set_modified(time).unwrap();
        };
        write("hlv_next", 1000);
        assert_eq!(sent(&bearer), Some(format!("Bearer {SECRET}")));
        tokio::time::advance(FRESH).await;
        assert_eq!(sent(&bearer), Some("Bearer hlv_next".into()));
        write("", 2000);
        tokio::time::advance(FRESH).await;
        assert_eq!(sent(&bearer), Some("Bearer hlv_next".into()));
        write(&"x".repeat(4097), 3000);
        let refused = Bearer::from_file(file.path()).unwrap_err();
        assert!(refused.to_string().contains("over 4096 bytes"), "{refused}");
        fs::set_permissions(file.path(), fs::Permissions::from_mode(0o644)).unwrap();
        let refused = Bearer::from_file(file.path()).unwrap_err();
        assert!(refused.to_string().contains("chmod 600"), "{refused}");
    }
}
