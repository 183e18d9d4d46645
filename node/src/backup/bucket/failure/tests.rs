//! Answers of a store that are made up.

use proptest::prelude::*;

use super::*;
use crate::properties::check;

#[test]
fn no_answer_that_a_bucket_makes_up_is_repeated_beyond_its_code() {
    let part = prop_oneof![
        "<Code>|</Code>|\\(code: |\\)|status code: ",
        "[A-Za-z0-9]{0,70}|[0-9]{3}",
        "\\PC{0,5}",
    ];
    check(&prop::collection::vec(part, 0..8), |parts| {
        let error = object_store::Error::Generic {
            store: "S3",
            source: parts.concat().into(),
        };
        let code = code(&error).unwrap_or_else(|| "None".to_owned());
        prop_assert!((1..=CODE_CHARS_MAX).contains(&code.len()), "{code}");
        let is_plain = code.bytes().all(|it| it.is_ascii_alphanumeric());
        prop_assert!(is_plain, "{code}");
        let status = status(&error).unwrap_or_else(|| "000".to_owned());
        prop_assert_eq!(status.len(), STATUS_CHARS);
        prop_assert!(status.bytes().all(|it| it.is_ascii_digit()), "{status}");
        let problem = format!("{:?}", Failure::Store(error).problem());
        prop_assert!(problem.len() < 2 * CODE_CHARS_MAX, "{problem}");
        Ok(())
    });
}
