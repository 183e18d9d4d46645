//! Which messages are refused, and with which code.

use proptest::prelude::*;

use super::*;
use crate::properties::check;

#[test]
fn each_kind_of_bad_message_has_its_code() {
    let call = |value: &str| {
        format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{{"name":"store","arguments":{{"key":"k","value":{value}}}}}}}"#
        )
    };
    let deep = "[".repeat(1000) + &"]".repeat(1000);
    for (value, code) in [
        (r#""\ud800""#, -32700),
        ("1e400", -32700),
        (&deep, -32700),
        (r#"{"a":1,"a":2}"#, -32600),
        ("18446744073709551616", -32602),
    ] {
        let refused = read(call(value).as_bytes()).expect_err(value);
        assert_eq!((refused.code.0, &refused.envelope.id), (code, &json!(7)));
    }
    assert!(read(call("18446744073709551615").as_bytes()).is_ok());
    for text in [
        "[]",
        "1",
        "{}",
        r#"{"jsonrpc":"2.0","id":1}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
    ] {
        let refused = read(text.as_bytes()).expect_err(text);
        assert_eq!(refused.code.0, -32600, "{text}");
    }
}

#[test]
fn names_that_the_parser_keeps_for_itself_are_refused_anywhere() {
    let mut nested = "1".to_owned();
    while nested.len() < 450_000 {
        let escaped = nested.replace('\\', "\\u005c").replace('"', "\\u0022");
        let (open, close) = ("[".repeat(110), "]".repeat(110));
        nested = format!(r#"{open}{{"$serde_json::private::RawValue":"{escaped}"}}{close}"#);
    }
    for value in [
        &nested,
        r#"{"$serde_json::private::RawValue":"{}"}"#,
        r#"{"a":[{"\u0024serde_json::private::\u0052awValue" : "1"}]}"#,
        r#"{"$serde_json::private::Number":"1"}"#,
    ] {
        for params in [
            format!(r#"{{"_meta":{{"x":{value}}}}}"#),
            format!(r#"{{"name":"store","arguments":{{"key":"k","value":{value}}}}}"#),
            value.to_owned(),
        ] {
            let text =
                format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/list","params":{params}}}"#);
            let refused = read(text.as_bytes()).expect_err(&text[..80]);
            assert_eq!((refused.code.0, &refused.envelope.id), (-32600, &json!(7)));
            assert!(refused.message.contains("another name"), "{refused:?}");
        }
    }
}

#[test]
fn requests_with_ids_that_no_answer_can_repeat_are_refused() {
    for id in [
        "null",
        "true",
        "1.5",
        "1e20",
        "9223372036854775808",
        "18446744073709551616",
        "100000000000000000000",
        "{}",
        "[1]",
    ] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
        let refused = read(text.as_bytes()).expect_err(id);
        assert_eq!(refused.code.0, -32600, "{id}");
        assert_eq!(refused.envelope.id, Value::Null, "{id}");
        assert!(refused.message.contains("`id`"), "{}", refused.message);
        assert!(!refused.envelope.is_unanswered(), "{id}");
    }
    for id in ["-9223372036854775808", "9223372036854775807", r#""""#] {
        let text = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"}}"#);
        assert!(read(text.as_bytes()).is_ok(), "{id}");
    }
    let id = "i".repeat(1022);
    let text = |id: &str| format!(r#"{{"jsonrpc":"2.0","id":"{id}","method":"made/up"}}"#);
    let ClientJsonRpcMessage::Request(request) = read(text(&id).as_bytes()).unwrap() else {
        panic!("it is a request")
    };
    assert_eq!(json!(request.id), json!(id));
    let refused = read(text(&"i".repeat(1 << 20)).as_bytes()).unwrap_err();
    assert_eq!((refused.code.0, refused.envelope.id), (-32600, Value::Null));
    assert!(refused.message.contains("`id`"), "{}", refused.message);
}

#[test]
fn integers_that_are_written_as_doubles_are_ids() {
    for (id, integer) in [("1.0", 1), ("-2e1", -20)] {
        let text = |params: &str| {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/list"{params}}}"#)
        };
        let ClientJsonRpcMessage::Request(request) = read(text("").as_bytes()).unwrap() else {
            panic!("it is a request")
        };
        assert_eq!(json!(request.id), json!(integer));
        // What is refused says which it was, too.
        let refused = read(text(r#","params":[]"#).as_bytes()).unwrap_err();
        let said = (refused.code.0, refused.envelope.id);
        assert_eq!(said, (-32602, json!(integer)));
    }
}

#[test]
fn initialize_that_is_too_large_is_told_from_other_refusals() {
    let text = |fill: usize| {
        let client = json!({"name": "c", "version": "1", "title": "a".repeat(fill)});
        let params =
            json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": client});
        json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}).to_string()
    };
    assert!(read(text(1 << 10).as_bytes()).is_ok());
    let refused = read(text(1 << 20).as_bytes()).unwrap_err();
    assert_eq!((refused.code.0, refused.is_too_large()), (-32600, true));
    assert_eq!(refused.envelope.id, json!(1));
}

#[test]
fn odd_envelopes_are_refused_with_a_reason() {
    let table = [
        (
            r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#,
            -32600,
            "batches",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","result":{}}"#,
            -32600,
            "no message of JSON-RPC",
        ),
        (" [", -32700, "Parse error"),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"ping\"}\0",
            -32700,
            "Parse error",
        ),
        (
            "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"p\0\"}",
            -32700,
            "Parse error",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}"#,
            -32600,
            "\"id\" occurs twice",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"ping","method":"a"}"#,
            -32600,
            "\"method\" occurs",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#,
            -32600,
            "no message",
        ),
        (
            r#"{"jsonrpc":2.0,"id":1,"method":"ping"}"#,
            -32600,
            "no message",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":[]}"#,
            -32602,
            "object",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":"a"}"#,
            -32602,
            "object",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":[1]}"#,
            -32602,
            "object",
        ),
    ];
    for (text, code, why) in table {
        let refused = read(text.as_bytes()).expect_err(text);
        assert_eq!(refused.code.0, code, "{text}: {refused:?}");
        assert!(refused.message.contains(why), "{text}: {refused:?}");
    }
}

#[test]
fn parameters_that_do_not_fit_are_named_as_such() {
    let refused = |method: &str, params: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}"{params}}}"#);
        let refused = read(text.as_bytes()).map(drop);
        refused.map_err(|refused| (refused.code.0, refused.envelope.id))
    };
    let wrong = Err((-32602, json!(7)));
    for method in [
        "tools/list",
        "tools/call",
        "ping",
        "server/discover",
        "other",
    ] {
        for meta in ["5", "[]", "\"a\""] {
            let params = format!(r#","params":{{"_meta":{meta}}}"#);
            assert_eq!(refused(method, &params), wrong, "{method} {meta}");
        }
    }
    let whole = r#""capabilities":{},"clientInfo":{"name":"a","version":"1"}"#;
    for params in [
        "{}",
        "{\"_meta\":{}}",
        &format!("{{\"protocolVersion\":5,{whole}}}"),
    ] {
        let params = format!(",\"params\":{params}");
        assert_eq!(refused("initialize", &params), wrong, "{params}");
    }
    assert_eq!(refused("initialize", ""), wrong);
    let whole = format!(r#","params":{{"protocolVersion":"2025-11-25",{whole}}}"#);
    assert_eq!(refused("initialize", &whole), Ok(()));
    // A later protocol has no such method: that is for the server to say.
    let named = format!(r#","params":{{"_meta":{{"{VERSION}":"2026-07-28"}}}}"#);
    assert_eq!(refused("initialize", &named), Ok(()));
}

#[test]
fn parameters_of_a_list_that_name_no_page_are_refused() {
    let list = |method: &str, params: &str| {
        let text = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{params}}}"#);
        read(text.as_bytes())
            .map(drop)
            .map_err(|refused| refused.code.0)
    };
    for method in [
        "tools/list",
        "prompts/list",
        "resources/list",
        "resources/templates/list",
    ] {
        for params in ["{}", r#"{"cursor":"a"}"#, r#"{"_meta":{"a":1}}"#] {
            assert_eq!(list(method, params), Ok(()), "{method} {params}");
        }
        for params in [
            r#"{"cursor":1}"#,
            r#"{"cursor":{}}"#,
            r#"{"_meta":{},"cursor":[]}"#,
        ] {
            assert_eq!(list(method, params), Err(-32602), "{method} {params}");
        }
    }
}

#[test]
fn a_message_that_a_client_makes_up_is_read_or_refused_in_few_words() {
    let part = prop_oneof![
        Just(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#.to_owned()),
        Just(r#"{"jsonrpc":"2.0","id":1,"method":"tools/list","params":"#.to_owned()),
        Just(r#"{"cursor":1}}"#.to_owned()),
        "\\PC{0,20}",
        "[{}\\[\\]:,\"0-9a-z.]{0,20}",
    ];
    let text = prop::collection::vec(part, 0..4).prop_map(|parts| parts.concat());
    check(&text, |text| {
        if let Err(refused) = read(text.as_bytes()) {
            prop_assert!(refused.message.len() < 400, "{}", refused.message);
            let id = &refused.envelope.id;
            prop_assert_eq!(&refused.answer(id)["id"], id);
        }
        Ok(())
    });
}
