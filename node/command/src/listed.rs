//! Items of lists that commas part, such as addresses of nodes.
//!
//! A comma may be of a password: then the item before ends in the rest of it. So items with a user
//! name are refused where they are parsed, for only the error of usage has the whole list, and shows
//! dots for it.

/// An endpoint of a list: a comma too many would else be a node without an address.
///
/// # Errors
/// Says that it is empty, or has a user name.
pub(crate) fn endpoint(text: &str) -> Result<String, String> {
    if text.trim().is_empty() {
        return Err("an address is empty: give HOST:PORT,..., such as 127.0.0.1:7400".to_owned());
    }
    if text.contains('@') {
        return Err("it has a user name: give HOST:PORT, and a token by --token-file".to_owned());
    }
    Ok(text.to_owned())
}

/// A URL or an origin of a list.
///
/// # Errors
/// Says that it has a user name.
pub(crate) fn url(text: &str) -> Result<String, String> {
    let named = match text.split_once("://") {
        Some((_, rest)) => rest.split(['/', '?', '#']).next().unwrap_or_default(),
        // It may be the rest of a URL.
        None => text,
    };
    if named.contains('@') {
        return Err("it has a user name: give it without".to_owned());
    }
    Ok(text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn item_with_a_user_name_is_refused_where_its_list_is_parsed() {
        for text in ["user:pass@a:7400", "https://user:pa@ss@a:7400", "ss@a"] {
            assert!(endpoint(text).is_err() && url(text).is_err(), "{text}");
        }
        for text in ["a:7400", "https://a:7400"] {
            assert_eq!(endpoint(text).as_deref(), Ok(text));
        }
        for text in [
            "https://id.example/realms/a@b",
            "iss=https://id.example/a@b",
            "a",
        ] {
            assert_eq!(url(text).as_deref(), Ok(text));
        }
    }
}
