//! Which requests over HTTP are calls, and what their messages are.

use proptest::{collection::vec, prelude::*};
use prost::Message as _;
use prost_reflect::DynamicMessage;

use super::*;
use crate::properties::check;

const GET: &str = "/helve.v1.HandleService/Get";

fn request(path: &str, headers: &[(&str, &str)]) -> Request<Arriving> {
    let mut request = Request::post(path).header("host", "node");
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    request.body(Arriving::new(Body::empty())).unwrap()
}

/// The HTTP status of a request that is no call; 0 for one that is.
fn status(request: &mut Request<Arriving>) -> u16 {
    match adopt(request, &NodeNames::any()) {
        Ok(_) => 0,
        Err(refusal) => refusal.status().as_u16(),
    }
}

#[test]
fn calls_of_grpc_are_left_alone() {
    for content_type in ["application/grpc", "application/grpc+proto"] {
        let mut request = request(GET, &[("content-type", content_type)]);
        *request.version_mut() = Version::HTTP_2;
        assert!(adopt(&mut request, &NodeNames::any()).unwrap().is_none());
        assert_eq!(request.headers()[CONTENT_TYPE], content_type);
    }
    let mut bare = request(GET, &[]);
    *bare.version_mut() = Version::HTTP_2;
    assert!(adopt(&mut bare, &NodeNames::any()).unwrap().is_none());
    // A proxy that speaks gRPC-Web with pages may leave the header there.
    let headers = [
        ("content-type", "application/grpc"),
        ("origin", "https://shop.example"),
    ];
    let mut proxied = request(GET, &headers);
    *proxied.version_mut() = Version::HTTP_2;
    let call = adopt(&mut proxied, &NodeNames::any());
    assert!(call.unwrap().is_none());
}

#[test]
fn pages_in_browsers_are_refused_whatever_they_send() {
    let origin = ("origin", "https://evil.example");
    let types = [
        "application/json",
        "application/proto",
        "text/plain",
        "application/x-www-form-urlencoded",
    ];
    for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
        for content_type in types {
            let mut request = request(GET, &[("content-type", content_type), origin]);
            *request.version_mut() = version;
            assert_eq!(status(&mut request), 403, "{version:?} {content_type}");
        }
        let mut without_type = request(GET, &[origin]);
        *without_type.version_mut() = version;
        assert_eq!(status(&mut without_type), 403, "{version:?}");
        let mut preflight = request(GET, &[origin]);
        *preflight.method_mut() = Method::OPTIONS;
        *preflight.version_mut() = version;
        assert_eq!(status(&mut preflight), 403, "{version:?}");
    }
    // Without TLS, browsers speak HTTP/1.1 only, in which there is no gRPC.
    let grpc = ("content-type", "application/grpc");
    assert_eq!(status(&mut request(GET, &[grpc, origin])), 403);
    assert_eq!(status(&mut request(GET, &[grpc])), 415);
}

#[test]
fn calls_in_json_become_calls_of_grpc() {
    let json = [
        "application/json",
        "application/JSON; charset=utf-8",
        "application/proto",
    ];
    for content_type in json {
        let headers = [
            ("content-type", content_type),
            ("content-length", "2"),
            ("connect-protocol-version", "1"),
            ("connect-timeout-ms", "1500"),
        ];
        let mut request = request(GET, &headers);
        let call = adopt(&mut request, &NodeNames::any()).unwrap().unwrap();
        let is_proto = content_type == PROTO;
        assert_eq!(call.codec == Codec::Proto, is_proto, "{content_type}");
        assert_eq!(request.headers()[CONTENT_TYPE], GRPC);
        assert_eq!(request.headers()["grpc-timeout"], "1500m");
        assert!(!request.headers().contains_key(CONTENT_LENGTH));
    }
}

#[test]
fn a_timeout_of_ten_digits_fits_the_header_of_grpc() {
    let mut headers = HeaderMap::new();
    headers.insert(TIMEOUT, HeaderValue::from_static("9999999999"));
    let time = timeout(&mut headers).unwrap();
    assert_eq!(time, Some(Duration::from_millis(9_999_999_999)));
    assert_eq!(headers["grpc-timeout"], "9999999S");
    for odd in ["", "-1", "+1", "1.5", "12345678901", "1s"] {
        headers.insert(TIMEOUT, HeaderValue::from_static(odd));
        assert_eq!(timeout(&mut headers), Err(Refusal::Timeout), "{odd}");
    }
}

#[test]
fn requests_that_are_no_calls_are_told_why() {
    let json = ("content-type", "application/json");
    for (path, headers, expected) in [
        ("/", vec![json], 404),
        ("/helve.v1.HandleService", vec![json], 404),
        ("/helve.v1.HandleService/Gett", vec![json], 404),
        // Nodes' own contracts are not there, though their descriptors are.
        ("/helve.peer.v1.PeerService/Append", vec![json], 404),
        ("/helve.v1.WatchService/Watch", vec![json], 501),
        ("/helve.v1.CallService/Exchange", vec![json], 501),
        (GET, vec![], 415),
        (GET, vec![("content-type", "text/plain")], 415),
        (GET, vec![("content-type", "application/connect+json")], 415),
        (GET, vec![json, ("content-encoding", "gzip")], 501),
        (GET, vec![json, ("connect-protocol-version", "2")], 400),
        (GET, vec![json, ("connect-timeout-ms", "soon")], 400),
        (GET, vec![json], 0),
        ("/helve.v1.HandleService/List", vec![json], 0),
        ("/helve.v1.StateService/List", vec![json], 0),
    ] {
        let mut request = request(path, &headers);
        assert_eq!(status(&mut request), expected, "{path} {headers:?}");
    }
    let mut got = request(GET, &[json]);
    *got.method_mut() = Method::GET;
    assert_eq!(status(&mut got), 405);
}

/// Bodies that are JSON of a call, or nearly.
fn body() -> impl Strategy<Value = Vec<u8>> {
    let nearly = r#"\{"(key|owner|value|lifetime|if_revision|ifRevision|x)": ?("[a-zA-Z0-9+/=]{0,9}"|-?[0-9]{1,22}|\{"(never|afterMs)": ?(\{\}|7)\}|\[\]|null)\}"#;
    prop_oneof![
        nearly.prop_map(String::into_bytes),
        r#"[\[\]{}":,a-z0-9\\]{0,60}"#.prop_map(String::into_bytes),
        vec(any::<u8>(), 0..60),
    ]
}

#[test]
fn a_body_that_a_client_makes_up_is_a_message_or_refused() {
    let rpc = Rpc::of("/helve.v1.StateService/Store").unwrap();
    check(&body(), |body| {
        match intake::of_json(&rpc, &body) {
            Ok(message) => {
                let bytes = message.encode_to_vec();
                let again = DynamicMessage::decode(rpc.request(), bytes.as_slice());
                prop_assert_eq!(again.unwrap().encode_to_vec(), bytes);
            }
            Err(refused) => prop_assert!(matches!(refused, Failure::Malformed(_))),
        }
        Ok(())
    });
}

/// Bodies of lists: of records, or of names.
fn lists() -> impl Strategy<Value = Vec<u8>> {
    let records = r#"\{"items": ?\[(\{"(key|value)": ?"[a-z=\\]{0,4}"\},){0,9}\{ ?\}\]\}"#;
    let names = r#"\{"(keys|owner)": ?\[("[a-z]{0,4}",){0,9}(null|""|[0-9]{1,3}e?[0-9]?)\]\}"#;
    prop_oneof![records, names].prop_map(String::into_bytes)
}

#[test]
fn body_that_a_client_makes_up_makes_no_more_than_it_is_charged() {
    let calls = (any::<u8>(), prop_oneof![body(), lists()]);
    check(&calls, |(path, body)| {
        fuzzing::json_body(&[&[path][..], &body[..]].concat());
        Ok(())
    });
}

#[test]
fn long_text_where_a_call_has_none_is_refused_and_not_repeated() {
    // A parser's error writes each of these in six bytes.
    let long = "\u{7f}".repeat(100_000);
    for (path, body) in [
        ("StateService/Store", format!(r#""{long}""#)),
        ("StateService/Store", format!(r#"["{long}"]"#)),
        (
            "StateService/Store",
            format!(r#"{{"ifRevision":"{long}"}}"#),
        ),
        ("StateService/Store", format!(r#"{{"lifetime":"{long}"}}"#)),
        (
            "StateService/Store",
            format!(r#"{{"lifetime":{{"never":"{long}"}}}}"#),
        ),
        (
            "StateService/BatchStore",
            format!(r#"{{"items":["{long}"]}}"#),
        ),
        // Each of the keys may be long, and a text is no list of them.
        (
            "StateService/BatchRetrieve",
            format!(r#"{{"keys":"{long}"}}"#),
        ),
        (
            "AccessService/CreateToken",
            format!(r#"{{"grant":{{"role":"{long}"}}}}"#),
        ),
    ] {
        let rpc = Rpc::of(&format!("/helve.v1.{path}")).unwrap();
        let refused = intake::of_json(&rpc, body.as_bytes()).unwrap_err();
        let Failure::Malformed(why) = refused else {
            panic!("{refused:?}");
        };
        assert!(why.len() < 512, "{path}: {} bytes", why.len());
    }
}

#[test]
fn text_where_a_call_has_one_may_be_long() {
    let long = "\u{7f}".repeat(100_000);
    for (path, body) in [
        ("StateService/Store", format!(r#"{{"key":"{long}"}}"#)),
        (
            "StateService/BatchRetrieve",
            format!(r#"{{"keys":["{long}"]}}"#),
        ),
    ] {
        let rpc = Rpc::of(&format!("/helve.v1.{path}")).unwrap();
        assert!(intake::of_json(&rpc, body.as_bytes()).is_ok(), "{path}");
    }
}

#[test]
fn a_timeout_that_a_client_makes_up_is_a_number_or_refused() {
    check(&"[0-9 +-.a-z]{0,12}", |text| {
        let mut headers = HeaderMap::new();
        if let Ok(value) = HeaderValue::try_from(&text) {
            headers.insert(TIMEOUT, value);
            let is_number =
                (1..=10).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
            prop_assert_eq!(timeout(&mut headers).is_ok(), is_number);
        }
        Ok(())
    });
}
