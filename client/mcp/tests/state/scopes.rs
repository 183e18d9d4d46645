//! What a token may do is what its scopes say.

use helve_client::{Client, KeyOptions, StateTool};
use helve_mcp::{
    bearer::{Guard, Scopes},
    serve::{Access, router},
    state::{Callers, READING_TOOLS, server},
};
use reqwest::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    callers::{token_with, verifier},
    house::{ASSUMES, House, memory, settings},
    wire::Post,
};

const ISSUER: &str = "https://issuer.example";

async fn house(client: &Client) -> House {
    let replica = |shutdown: &_| {
        let mut settings = settings(ASSUMES, &[7; 32]);
        settings.callers = Callers::Authenticated;
        let server = server(client, settings);
        let router = router(server, &Access::default(), shutdown);
        let [read, write] = ["state:read", "state:write"].map(|scope| Some(scope.to_owned()));
        let scopes = Scopes::new(read, write, READING_TOOLS).unwrap();
        let guard = Guard::new(verifier(), vec![ISSUER.to_owned()]);
        guard.scopes(scopes).protect(router)
    };
    House::of(client, replica).await
}

/// What a call with this claim is answered: status, and the challenge.
async fn ask(house: &House, post: &Post, claim: (&str, Value)) -> (StatusCode, String) {
    let token = token_with("alice", claim.0, &claim.1);
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let url = format!("http://{}/mcp", house.replicas[0]);
    let mut request = http.request(Method::POST, url).bearer_auth(token);
    for (name, value) in &post.headers {
        request = request.header(*name, value);
    }
    let response = request.body(post.body.to_string()).send().await.unwrap();
    let challenge = response.headers().get("www-authenticate");
    let challenge = challenge.map(|value| value.to_str().unwrap().to_owned());
    assert!(response.headers().contains_key("content-type"));
    (response.status(), challenge.unwrap_or_default())
}

#[tokio::test]
async fn a_token_does_what_its_scopes_say_and_is_told_which_it_lacks() {
    let client = memory();
    let house = house(&client).await;
    let keys = client.keys(KeyOptions::new("alice"));
    let read = Post::call("retrieve", &json!({"key": "k"}));
    let list = Post::method("tools/list", json!({}));
    let store = Post::call("store", &json!({"key": "k", "value": 1}));
    let delete = Post::call("delete", &json!({"key": "k"}));
    let scope = |text: &str| ("scope", json!(text));

    for post in [&read, &list] {
        for claim in [
            scope("state:read"),
            ("scp", json!(["state:read"])),
            scope("a state:write"),
        ] {
            assert_eq!(ask(&house, post, claim).await.0, StatusCode::OK);
        }
        for claim in [
            scope(""),
            scope("state:reads"),
            scope("STATE:READ"),
            ("x", json!(1)),
        ] {
            let (status, challenge) = ask(&house, post, claim).await;
            assert_eq!(status, StatusCode::FORBIDDEN);
            assert!(
                challenge.contains("error=\"insufficient_scope\""),
                "{challenge}"
            );
            assert!(challenge.contains("scope=\"state:read\""), "{challenge}");
            assert!(
                challenge.contains("resource_metadata=\"https://"),
                "{challenge}"
            );
        }
    }
    for post in [&store, &delete] {
        let (status, challenge) = ask(&house, post, scope("state:read")).await;
        assert_eq!(status, StatusCode::FORBIDDEN);
        assert!(
            challenge.contains("scope=\"state:read state:write\""),
            "{challenge}"
        );
    }
    assert!(!keys.exists("k").await.unwrap());
    assert_eq!(
        ask(&house, &store, scope("state:write")).await.0,
        StatusCode::OK
    );
    assert!(keys.exists("k").await.unwrap());
}

#[tokio::test]
async fn caller_without_a_valid_token_is_told_the_scope_to_call() {
    let client = memory();
    let house = house(&client).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    for authorization in [None, Some("Bearer no token")] {
        let mut request = http.post(format!("http://{}/mcp", house.replicas[0]));
        if let Some(value) = authorization {
            request = request.header("authorization", value);
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), StatusCode::UNAUTHORIZED);
        let challenge = response.headers()["www-authenticate"].to_str().unwrap();
        // Only what it needs to begin: the scope to write is named once it is needed.
        assert!(challenge.contains("scope=\"state:read\""), "{challenge}");
        let has_error = challenge.contains("error=\"invalid_token\"");
        assert_eq!(has_error, authorization.is_some(), "{challenge}");
    }
}

#[tokio::test]
async fn the_scopes_stand_in_the_metadata() {
    let client = memory();
    let house = house(&client).await;
    let http = reqwest::Client::builder().no_proxy().build().unwrap();
    let path = "/.well-known/oauth-protected-resource/mcp";
    let url = format!("http://{}{path}", house.replicas[0]);
    let metadata = http.get(url).send().await.unwrap().text().await.unwrap();
    let metadata: Value = serde_json::from_str(&metadata).unwrap();
    assert_eq!(
        metadata["scopes_supported"],
        json!(["state:read", "state:write"])
    );
}
