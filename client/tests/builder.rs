//! What a cluster client is built from, and what its debugging text says.

mod scripted;

use helve_client::{Bearer, ErrorKind, HandleOptions, Handles, KeyOptions};
use scripted::Over;

#[test]
fn debug_of_client_and_stores_is_one_line_without_secrets() {
    let secret = "hlv_not-to-be-shown";
    let bearer = Bearer::given(secret).expect("it is a token");
    let builder = Over::Unary.builder(["a:1".to_owned(), "[::1]:2".to_owned()]);
    let client = builder.token(bearer).insecure_token().build();
    let client = client.expect("two addresses");
    let handles: Handles<u32> = client.handles(HandleOptions::new("carts", "alice"));
    let keys = client.keys(KeyOptions::shared());
    for said in [
        format!("{client:#?}"),
        format!("{handles:#?}"),
        format!("{keys:#?}"),
    ] {
        assert!(said.contains("a:1, [::1]:2"), "{said}");
        assert!(!said.contains('\n') && !said.contains(secret), "{said}");
    }
    assert!(format!("{handles:?}").contains("carts"));
}

#[test]
fn endpoint_without_port_is_refused_when_the_client_is_built() {
    for endpoint in ["helve-1", "http://helve-1", "[::1]", "10.0.0.1", "::1"] {
        let builder = Over::Streams.builder(["a:1".to_owned(), endpoint.to_owned()]);
        let refused = builder.build().expect_err(endpoint);
        assert_eq!(refused.kind(), ErrorKind::Invalid, "{refused}");
        assert!(refused.to_string().contains(":7400"), "{refused}");
    }
}
