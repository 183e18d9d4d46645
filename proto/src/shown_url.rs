//! URLs of operators, for messages and logs.

/// What may be shown of a URL, or of a text that was to be one: without a user name and a password,
/// and without a query and a fragment, which may hold a key or a signature. What was left out is
/// shown as dots.
#[must_use]
pub fn shown_url(text: &str) -> String {
    let (scheme, rest) = match text.split_once("://") {
        // Behind any of these it is no scheme, and may be secret.
        Some((scheme, rest)) if !scheme.contains([':', '@', '?', '#', '/', ',']) => {
            (&text[..scheme.len() + 3], rest)
        }
        _ => ("", text),
    };
    // The last one: a password may have any character where it is not escaped.
    let (user, rest) = match rest.rsplit_once('@') {
        // A file, as options name one.
        Some(("", rest)) => ("@", rest),
        Some((_, rest)) => ("...@", rest),
        None => ("", rest),
    };
    match rest.find(['?', '#']) {
        Some(at) => format!("{scheme}{user}{}...", &rest[..=at]),
        None => format!("{scheme}{user}{rest}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn url_is_shown_without_what_may_be_secret() {
        for (text, shown) in [
            ("https://id.example/jwks", "https://id.example/jwks"),
            (
                "https://a:s3cret@id.example/jwks",
                "https://...@id.example/jwks",
            ),
            ("https://a:s3@cr/et?x@id.example", "https://...@id.example"),
            ("https://id.example/?key=s3cret", "https://id.example/?..."),
            (
                "https://id.example/jwks#s3cret",
                "https://id.example/jwks#...",
            ),
            ("a:s3cret@id.example:1", "...@id.example:1"),
            ("a:s3cret@id.example/http://x", "...@id.example/http://x"),
            ("a:s3cret://x@id.example", "...@id.example"),
            ("a:b,s3cret@h:1,http://i:2", "...@h:1,http://i:2"),
            ("h/?key=s3cret&next=http://x", "h/?..."),
            ("@settings.json", "@settings.json"),
            ("jwks.json", "jwks.json"),
            ("", ""),
        ] {
            assert_eq!(shown_url(text), shown);
        }
    }
}
