//! What clients see when the server restarts, and when the cluster cannot answer.

use std::time::Duration;

use helve_client::{Client, ClusterBuilder};
use helve_mcp::{
    serve::{Access, router},
    state::{Retrieved, Stored, server},
};
use serde_json::json;
use tokio::net::TcpListener;

use crate::{
    house::{ASKS, ASSUMES, Caller, House, Running, User, loopback, memory, settings},
    wire::Post,
};

fn start(listener: TcpListener, client: &Client) -> Running {
    let server = server(client, settings(ASKS, &[7; 32]));
    Running::start(listener, |shutdown| {
        router(server, &Access::default(), shutdown)
    })
}

#[tokio::test]
async fn a_connected_client_survives_a_restart_and_so_does_what_it_was_asked() {
    let client = memory();
    let (listener, address) = loopback().await;
    let server = start(listener, &client);
    let caller = Caller::connect(address, User::Confirms).await;
    let _: Stored = caller.done("store", json!({"key": "k", "value": 1})).await;
    let delete = Post::call("delete", &json!({"key": "k"}));
    let asked = delete.send(address).await;
    let state = &asked.body["result"]["requestState"];
    assert!(state.is_string());

    server.stop().await;
    let server = start(TcpListener::bind(address).await.unwrap(), &client);
    let read: Retrieved = caller.done("retrieve", json!({"key": "k"})).await;
    assert_eq!(read.value, Some(json!(1)));
    let _: Stored = caller.done("store", json!({"key": "k", "value": 2})).await;
    let asked = delete.send(address).await;
    let state = asked.body["result"]["requestState"].clone();

    server.stop().await;
    let _server = start(TcpListener::bind(address).await.unwrap(), &client);
    let answer = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
    let confirmed = delete
        .param("requestState", state)
        .param("inputResponses", answer);
    let done = confirmed.send(address).await;
    assert_eq!(
        done.body["result"]["structuredContent"]["existed"],
        json!(true),
        "{done:?}"
    );
}

#[tokio::test]
async fn without_a_cluster_every_tool_says_so_and_names_no_node() {
    // Nothing listens there any more.
    let (_, dead) = loopback().await;
    let client = ClusterBuilder::new([dead.to_string()])
        .deadline(Duration::from_millis(300))
        .build()
        .unwrap();
    for gate in [ASSUMES, ASKS] {
        let replica = |shutdown: &_| {
            let server = server(&client, settings(gate, &[7; 32]));
            router(server, &Access::default(), shutdown)
        };
        let house = House::of(&client, replica).await;
        let caller = house.caller(User::Confirms).await;
        let calls = [
            ("retrieve", json!({"key": "k"})),
            ("exists", json!({"key": "k"})),
            ("list", json!({})),
            ("batch_retrieve", json!({"keys": ["k"]})),
            ("store", json!({"key": "k", "value": 1})),
            ("batch_store", json!({"items": [{"key": "k", "value": 1}]})),
            ("delete", json!({"key": "k"})),
        ];
        for (tool, arguments) in calls {
            let refused = caller.refused(tool, arguments).await;
            assert_eq!(refused.reason, "UNAVAILABLE", "{tool}: {refused:?}");
            let port = dead.port().to_string();
            assert!(!refused.text.contains(&port), "{}", refused.text);
        }
    }
}

#[tokio::test]
async fn without_a_store_that_remembers_what_was_used_no_state_is_redeemed() {
    let client = memory();
    let house = {
        let client = client.clone();
        let replica = move |shutdown: &_| {
            let server = server(&client, settings(ASKS, &[7; 32]));
            router(server, &Access::default(), shutdown)
        };
        House::of(&memory(), replica).await
    };
    let caller = house.caller(User::Confirms).await;
    let _: Stored = caller.done("store", json!({"key": "k", "value": 1})).await;
    let delete = Post::call("delete", &json!({"key": "k"}));
    let asked = delete.send(house.replicas[0]).await;
    let state = asked.body["result"]["requestState"].clone();
    client.close();
    let answer = json!({"confirm": {"action": "accept", "content": {"confirm": true}}});
    let confirmed = delete
        .param("requestState", state)
        .param("inputResponses", answer);
    let refused = confirmed.send(house.replicas[0]).await;
    // Nothing is said of the state but that it could not be checked.
    assert_eq!(refused.code(), -32603, "{refused:?}");
    let reason = &refused.body["error"]["data"]["reason"];
    assert_eq!(*reason, json!("unavailable"), "{refused:?}");
}
