//! `requestState` between a server's handlers and its clients: sealed on its way out, opened on its way in, or refused.

#![allow(clippy::unwrap_used)]

mod guarded;
mod logged;
#[path = "../../src/properties.rs"]
mod properties;

use helve_client::MemoryBuilder;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::{
    guarded::{Ask, PLAIN, Replica},
    logged::Lines,
    properties::check,
};

fn invalid() -> Value {
    json!({
        "code": -32602,
        "message": "Invalid or expired requestState",
        "data": {"reason": "invalid_request_state"},
    })
}

#[tokio::test]
async fn a_round_that_began_on_one_replica_ends_on_another_for_every_method() {
    let (one, two) = (Replica::new(7, "shop", None), Replica::new(7, "shop", None));
    let methods = [
        ("tools/call", "delete"),
        ("prompts/get", "greeting"),
        ("resources/read", "file:///a"),
    ];
    for (method, target) in methods {
        let ask = Ask {
            method,
            target,
            ..Ask::tool()
        };
        let sealed = one.sealed(&ask).await;
        assert!(!sealed.contains(PLAIN) && sealed.starts_with("h1."));
        let done = two.ask(&ask, Some(&sealed)).await;
        assert!(done.to_string().contains(PLAIN), "{method}: {done}");
    }
}

#[tokio::test]
async fn parameters_that_do_not_fit_are_no_unknown_method_behind_the_boundary() {
    let replica = Replica::new(7, "shop", None);
    for (method, code) in [
        ("tools/call", -32602),
        ("prompts/get", -32602),
        ("completion/complete", -32601),
        ("tasks/get", -32601),
        ("no/such/method", -32601),
    ] {
        let ask = Ask {
            method,
            arguments: json!(1),
            ..Ask::tool()
        };
        let error = replica.ask(&ask, None).await;
        assert_eq!(error["code"], code, "{method}: {error}");
    }
    assert_eq!(replica.runs(), 0);
}

#[tokio::test]
async fn whatever_is_wrong_with_an_echo_the_error_is_the_same_and_no_handler_runs() {
    let replica = Replica::new(7, "shop", None);
    let ask = Ask::tool();
    let sealed = replica.sealed(&ask).await;
    let runs = replica.runs();
    let others = [
        Ask {
            user: Some("mallory"),
            ..ask.clone()
        },
        Ask {
            user: None,
            ..ask.clone()
        },
        Ask {
            target: "store",
            ..ask.clone()
        },
        Ask {
            method: "prompts/get",
            ..ask.clone()
        },
        Ask {
            arguments: json!({"key": "b"}),
            ..ask.clone()
        },
        Ask {
            arguments: json!({}),
            ..ask.clone()
        },
    ];
    for other in others {
        assert_eq!(replica.ask(&other, Some(&sealed)).await, invalid());
    }
    let echoes = [
        format!("{sealed}-TAMPERED"),
        sealed[..sealed.len() - 4].to_owned(),
        sealed.replacen("h1.", "h2.", 1),
        format!("v1.{}", &sealed[3..]),
        PLAIN.to_owned(),
        String::new(),
        "A".repeat(100_000),
    ];
    for echo in &echoes {
        assert_eq!(replica.ask(&ask, Some(echo)).await, invalid(), "{echo}");
    }
    for foreign in [
        Replica::new(8, "shop", None),
        Replica::new(7, "other", None),
    ] {
        assert_eq!(foreign.ask(&ask, Some(&sealed)).await, invalid());
        assert_eq!(foreign.runs(), 0);
    }
    assert_eq!(replica.runs(), runs, "no handler ran");
    let done = replica.ask(&ask, Some(&sealed)).await;
    assert!(done.to_string().contains(PLAIN), "it still holds: {done}");
}

#[tokio::test]
async fn a_state_that_may_be_used_once_is_used_once_on_all_replicas_together() {
    let client = MemoryBuilder::new().build().unwrap();
    let replicas = [(); 3].map(|()| Replica::new(7, "shop", Some(&client)));
    let ask = Ask::tool();
    let sealed = replicas[0].sealed(&ask).await;
    let answers = replicas.iter().map(|one| one.ask(&ask, Some(&sealed)));
    let answers = futures::future::join_all(answers).await;
    let done = |answer: &&Value| answer.to_string().contains(PLAIN);
    assert_eq!(answers.iter().filter(done).count(), 1, "{answers:?}");
    let refused = |answer: &&Value| **answer == invalid();
    assert_eq!(answers.iter().filter(refused).count(), 2, "{answers:?}");
}

#[tokio::test]
async fn a_state_that_cannot_be_checked_is_not_called_invalid_and_no_handler_runs() {
    let client = MemoryBuilder::new().build().unwrap();
    let replica = Replica::new(7, "shop", Some(&client));
    let ask = Ask::tool();
    let sealed = replica.sealed(&ask).await;
    let runs = replica.runs();
    client.close();
    let error = replica.ask(&ask, Some(&sealed)).await;
    assert_eq!(error["code"], -32603, "{error}");
    assert_eq!(error["data"], json!({"reason": "unavailable"}));
    let forged = replica.ask(&ask, Some("h1.AAAA")).await;
    assert_eq!(forged, invalid(), "that needs no cluster");
    assert_eq!(replica.runs(), runs);
}

#[tokio::test]
async fn equal_arguments_in_another_order_are_the_same_request_and_none_are_empty_ones() {
    let replica = Replica::new(7, "shop", None);
    let ask = |arguments: &str| Ask {
        arguments: serde_json::from_str(arguments).unwrap(),
        ..Ask::tool()
    };
    let sealed = replica.sealed(&ask(r#"{"a":1,"b":2}"#)).await;
    let done = replica.ask(&ask(r#"{"b":2,"a":1}"#), Some(&sealed)).await;
    assert!(done.to_string().contains(PLAIN), "{done}");
    let sealed = replica.sealed(&ask("{}")).await;
    let done = replica.ask(&ask("null"), Some(&sealed)).await;
    assert!(done.to_string().contains(PLAIN), "{done}");
}

#[test]
fn nothing_that_a_client_makes_up_reaches_a_handler() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let replica = Replica::new(7, "shop", None);
    let echo = prop_oneof![any::<String>(), "h1\\.[A-Za-z0-9_-]{0,400}"];
    check(&echo, |echo| {
        let answer = runtime.block_on(replica.ask(&Ask::tool(), Some(&echo)));
        prop_assert_eq!(answer, invalid());
        Ok(())
    });
    assert_eq!(replica.runs(), 0);
}

#[tokio::test]
async fn long_name_of_a_refused_state_is_cut_in_the_log() {
    let replica = Replica::new(7, "shop", None);
    let ask = Ask {
        target: Box::leak("x".repeat(1 << 20).into_boxed_str()),
        ..Ask::tool()
    };
    let (lines, _collecting) = Lines::collect();
    // The line is one for many: it comes within seconds of other tests' lines.
    let refused = "h1.wrong";
    let mut calls = 0;
    while lines.all().is_empty() {
        assert_eq!(replica.ask(&ask, Some(refused)).await, invalid());
        calls += 1;
        assert!(calls < 100_000, "no line");
    }
    let all = lines.all();
    assert!(
        all.iter().all(|line| line.len() < 1 << 10),
        "{}",
        all[0].len()
    );
    assert!(all[0].contains("xxx..."), "{}", all[0]);
}
