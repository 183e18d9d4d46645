//! URLs of places for backups, told from paths of directories.

use std::path::Path;

/// Whether a bucket beyond this machine may be reached without TLS.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlainHttp {
    /// No: anyone on the way could read and change what is sent.
    Refused,
    /// Yes, as the operator says.
    Allowed,
}

/// A URL, in its parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Url<'a> {
    pub(super) scheme: &'a str,
    /// What follows `://`.
    pub(super) rest: &'a str,
}

impl<'a> Url<'a> {
    /// The URL that an argument of a command is; `None` if it is a path.
    pub(super) fn of(argument: &'a Path) -> Option<Self> {
        Self::parse(argument.to_str()?)
    }

    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let (scheme, rest) = text.split_once("://")?;
        let is_scheme = !scheme.is_empty() && scheme.bytes().all(|it| it.is_ascii_alphanumeric());
        is_scheme.then_some(Self { scheme, rest })
    }

    /// It, for messages: without what may be credentials.
    pub(super) fn shown(&self) -> String {
        let rest = match self.rest.rsplit_once('@') {
            Some((_, behind)) => behind,
            None => self.rest,
        };
        let rest = rest.split(['?', '#']).next().unwrap_or_default();
        format!(
            "{}://{}",
            self.scheme,
            rest.trim_end_matches('/').escape_debug()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_told_from_a_path_and_shown_without_credentials() {
        let url = Url::of(Path::new("s3://bucket/helve/")).unwrap();
        assert_eq!((url.scheme, url.rest), ("s3", "bucket/helve/"));
        assert_eq!(url.shown(), "s3://bucket/helve");
        for secret in ["s3://id:key@bucket/p", "s3://bucket/p?X-Amz-Signature=key"] {
            let shown = Url::of(Path::new(secret)).unwrap().shown();
            assert_eq!(shown, "s3://bucket/p");
        }
        for path in ["/backup/helve", "backup", "./s3:/b", "://b", "a/b://c"] {
            assert_eq!(Url::of(Path::new(path)), None, "{path}");
        }
    }
}
