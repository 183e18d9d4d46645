//! The cart server as MCP clients meet it: over HTTP, several replicas on one store, behind the balancer.

#![allow(clippy::unwrap_used)]

mod house;
mod odd;

use std::{collections::BTreeSet, sync::Arc};

use helve_mcp::{
    cart::{AbandonView, CartList, CartView, Order},
    flow::{Ending, Entry, Flow, Held, Ledger, judge},
};
use serde_json::{Value, json};

use crate::house::{
    Execution, House, http,
    words::{id, item, object, refusal},
};

#[tokio::test]
async fn a_cart_made_through_one_replica_is_known_to_the_other() {
    let house = House::open(2).await;
    let mut caller = house.caller();
    let cart: CartView = caller.call("create_cart", object(json!({}))).await.unwrap();
    for line in ["a", "b"] {
        let _: CartView = caller
            .call("add_item", item(&cart.cart_id, line, 2))
            .await
            .unwrap();
    }
    let view: CartView = caller.call("view_cart", id(&cart.cart_id)).await.unwrap();
    assert_eq!((view.lines.len(), view.total_cents), (2, 1000));
    let list: CartList = caller.call("list_carts", object(json!({}))).await.unwrap();
    assert_eq!((list.carts, list.open), (vec![view], 1));
    assert!(
        house.served().iter().all(|served| *served > 0),
        "both replicas answered"
    );
}

#[tokio::test]
async fn a_list_shows_a_hundred_carts_and_says_how_many_there_are() {
    let house = House::open(1).await;
    let mut caller = house.caller();
    let mut ids = Vec::new();
    for open in 1..=102_u64 {
        let cart: CartView = caller.call("create_cart", object(json!({}))).await.unwrap();
        ids.push(cart.cart_id);
        if open >= 99 {
            ids.sort();
            let list: CartList = caller.call("list_carts", object(json!({}))).await.unwrap();
            let shown: Vec<_> = list.carts.into_iter().map(|cart| cart.cart_id).collect();
            assert_eq!((&shown[..], list.open), (&ids[..ids.len().min(100)], open));
        }
    }
}

#[tokio::test]
async fn a_line_whose_answer_was_lost_is_added_once() {
    let house = House::open(2).await;
    let mut caller = house.caller();
    let cart: CartView = caller.call("create_cart", object(json!({}))).await.unwrap();
    house.lose_next_answer(Execution::Done);
    let view: CartView = caller
        .call("add_item", item(&cart.cart_id, "a", 1))
        .await
        .unwrap();
    assert_eq!(view.lines.len(), 1);
    assert_eq!(house.retries(), 1, "the client had to call again");
}

#[tokio::test]
async fn a_cart_whose_creation_was_not_answered_is_created_once() {
    let house = House::open(2).await;
    let mut caller = house.caller();
    caller.connect().await.unwrap();
    house.lose_next_answer(Execution::Done);
    let key = object(json!({"idempotency_key": "k"}));
    let cart: CartView = caller.call("create_cart", key.clone()).await.unwrap();
    assert_eq!(house.retries(), 1, "the client had to call again");
    let again: CartView = caller.call("create_cart", key).await.unwrap();
    assert_eq!(again.cart_id, cart.cart_id);
    let list: CartList = caller.call("list_carts", object(json!({}))).await.unwrap();
    assert_eq!(list.open, 1);
}

#[tokio::test]
async fn a_second_checkout_returns_the_same_order_even_if_the_first_was_not_answered() {
    let house = House::open(2).await;
    let mut caller = house.caller();
    let cart: CartView = caller.call("create_cart", object(json!({}))).await.unwrap();
    let _: CartView = caller
        .call("add_item", item(&cart.cart_id, "a", 3))
        .await
        .unwrap();
    house.lose_next_answer(Execution::Done);
    let first: Order = caller.call("checkout", id(&cart.cart_id)).await.unwrap();
    let second: Order = caller.call("checkout", id(&cart.cart_id)).await.unwrap();
    assert_eq!(first, second);
    assert_eq!(first.total_cents, 750);
    assert_eq!(house.retries(), 1, "the client had to call again");
}

#[tokio::test]
async fn a_request_that_never_reached_the_server_is_made_again() {
    let house = House::open(2).await;
    let mut caller = house.caller();
    let cart: CartView = caller.call("create_cart", object(json!({}))).await.unwrap();
    house.lose_next_answer(Execution::Undone);
    let view: CartView = caller
        .call("add_item", item(&cart.cart_id, "a", 1))
        .await
        .unwrap();
    assert_eq!(view.lines.len(), 1);
}

#[tokio::test]
async fn of_sixteen_checkouts_at_once_all_return_one_order() {
    let house = Arc::new(House::open(2).await);
    let mut caller = house.caller();
    let cart: CartView = caller.call("create_cart", object(json!({}))).await.unwrap();
    let _: CartView = caller
        .call("add_item", item(&cart.cart_id, "a", 3))
        .await
        .unwrap();
    let mut checkouts = tokio::task::JoinSet::new();
    for _ in 0..16 {
        let (house, cart_id) = (Arc::clone(&house), cart.cart_id.clone());
        checkouts.spawn(async move {
            let order: Order = house.caller().call("checkout", id(&cart_id)).await.unwrap();
            serde_json::to_string(&order).unwrap()
        });
    }
    let orders: BTreeSet<String> = checkouts.join_all().await.into_iter().collect();
    assert_eq!(orders.len(), 1);
}

#[tokio::test]
async fn sixteen_callers_of_one_cart_lose_no_line() {
    let house = Arc::new(House::open(2).await);
    let cart: CartView = house
        .caller()
        .call("create_cart", object(json!({})))
        .await
        .unwrap();
    let mut adds = tokio::task::JoinSet::new();
    for line in 0..16 {
        let (house, cart_id) = (Arc::clone(&house), cart.cart_id.clone());
        adds.spawn(async move {
            let item = item(&cart_id, &line.to_string(), 1);
            let _: CartView = house.caller().call("add_item", item).await.unwrap();
        });
    }
    adds.join_all().await;
    let view: CartView = house
        .caller()
        .call("view_cart", id(&cart.cart_id))
        .await
        .unwrap();
    assert_eq!(view.lines.len(), 16);
}

#[tokio::test]
async fn an_error_says_what_became_of_the_cart() {
    let house = House::open(2).await;
    let mut caller = house.caller();
    let mut carts = Vec::new();
    for number in 0..3 {
        if number == 1 {
            // What expired, and what was taken, is told apart from the unknown for a day.
            house.advance(house::IDLE_TTL * 9 / 8).await;
        }
        let cart: CartView = caller.call("create_cart", object(json!({}))).await.unwrap();
        let line = item(&cart.cart_id, "a", 1);
        let _: CartView = caller.call("add_item", line).await.unwrap();
        carts.push(cart.cart_id);
    }
    let [expired, ordered, abandoned] = carts.try_into().unwrap();
    let _: Order = caller.call("checkout", id(&ordered)).await.unwrap();
    let _: AbandonView = caller.call("abandon_cart", id(&abandoned)).await.unwrap();
    let unknown = "cart-AAAAAAAAAAAAAAAAAAAAAAAAAA".to_owned();
    let expected = [
        (&ordered, "CHECKED_OUT", "has been checked out"),
        (&abandoned, "ABANDONED", "has been abandoned"),
        (&expired, "EXPIRED", "has expired"),
        (&unknown, "UNKNOWN", "is unknown"),
    ];
    for (cart_id, reason, words) in expected {
        for tool in ["view_cart", "add_item"] {
            let arguments = if tool == "add_item" {
                item(cart_id, "z", 1)
            } else {
                id(cart_id)
            };
            let told = refusal(caller.call::<CartView>(tool, arguments).await);
            assert_eq!(told.0, reason, "{tool}");
            assert!(
                told.1.contains(words) && told.1.contains(cart_id),
                "{told:?}"
            );
        }
    }
    // What is over stays over, and says so as often as it is asked.
    let _: AbandonView = caller.call("abandon_cart", id(&abandoned)).await.unwrap();
    assert_eq!(
        refusal(
            caller
                .call::<AbandonView>("abandon_cart", id(&ordered))
                .await
        )
        .0,
        "CHECKED_OUT"
    );
    assert_eq!(
        refusal(caller.call::<Order>("checkout", id(&abandoned)).await).0,
        "ABANDONED"
    );
    assert_eq!(
        refusal(caller.call::<Order>("checkout", id(&expired)).await).0,
        "EXPIRED"
    );
}

#[tokio::test]
async fn bad_arguments_are_tool_errors_and_change_nothing() {
    let house = House::open(1).await;
    let mut caller = house.caller();
    let cart: CartView = caller.call("create_cart", object(json!({}))).await.unwrap();
    let _: CartView = caller
        .call("add_item", item(&cart.cart_id, "a", 1))
        .await
        .unwrap();
    for (arguments, reason) in [
        (item(&cart.cart_id, "a", 2), "LINE_MISMATCH"),
        (item(&cart.cart_id, "b", 0), "BAD_ARGUMENT"),
        (item(&cart.cart_id, "", 1), "BAD_ARGUMENT"),
        (item(&"x".repeat(129), "b", 1), "BAD_ARGUMENT"),
        (item("", "b", 1), "BAD_ARGUMENT"),
    ] {
        assert_eq!(
            refusal(caller.call::<CartView>("add_item", arguments).await).0,
            reason
        );
    }
    let view: CartView = caller.call("view_cart", id(&cart.cart_id)).await.unwrap();
    assert_eq!(view.lines.len(), 1);
}

#[tokio::test]
async fn the_tools_state_their_schemas_hints_and_the_carts_lifetime() {
    let house = House::open(1).await;
    let tools = house
        .caller()
        .connect()
        .await
        .unwrap()
        .list_all_tools()
        .await
        .unwrap();
    let names: BTreeSet<_> = tools.iter().map(|tool| tool.name.to_string()).collect();
    let expected = [
        "abandon_cart",
        "add_item",
        "checkout",
        "create_cart",
        "list_carts",
        "view_cart",
    ];
    assert_eq!(names, expected.map(str::to_owned).into());
    for tool in tools {
        assert!(
            tool.output_schema.is_some(),
            "{} has a structured result",
            tool.name
        );
        assert_eq!(
            tool.annotations.as_ref().unwrap().open_world_hint,
            Some(false)
        );
        let described = |property: &Value| property["description"].is_string();
        let properties = tool
            .input_schema
            .get("properties")
            .and_then(Value::as_object);
        assert!(
            properties
                .into_iter()
                .flatten()
                .all(|(_, property)| described(property))
        );
        if tool.name == "create_cart" {
            let description = tool.description.unwrap();
            assert!(
                description.contains("expire after 24 hours of inactivity"),
                "{description}"
            );
        }
    }
}

#[tokio::test]
async fn only_posts_from_allowed_hosts_and_origins_are_served() {
    let house = House::open(1).await;
    let replica = house.replicas[0];
    let status = |method, headers| http(replica, method, "/mcp", headers);
    assert_eq!(
        status("GET", "Host: localhost\r\nAccept: text/event-stream\r\n").await,
        405
    );
    assert_eq!(status("DELETE", "Host: localhost\r\n").await, 405);
    assert_eq!(status("POST", "Host: evil.example\r\n").await, 403);
    assert_eq!(
        status(
            "POST",
            "Host: localhost\r\nOrigin: https://evil.example\r\n"
        )
        .await,
        403
    );
    assert_eq!(
        http(replica, "GET", "/livez", "Host: localhost\r\n").await,
        200
    );
}

#[tokio::test]
async fn flows_through_lost_answers_leave_what_the_ledger_says() {
    let house = House::open(2).await;
    let ledger = Ledger::in_memory();
    let mut caller = house.caller();
    let run: Arc<str> = "test".into();
    for number in 0..20 {
        let flow = Flow::mixed(number, &run);
        if number % 3 == 0 {
            house.lose_next_answer(Execution::Done);
        }
        flow.run(&mut caller, &ledger).await;
    }
    let accounts = ledger.accounts().unwrap();
    assert_eq!(accounts.gave_up, Vec::<String>::new());
    assert!(house.retries() >= 7);
    let held: Held = house.held().await;
    assert_eq!(
        held.carts.len(),
        2,
        "two of twenty flows leave their carts open"
    );
    assert!(
        judge(&accounts, &held).is_clean(),
        "{:?}",
        judge(&accounts, &held)
    );
    ledger.note(&Entry::CreateTried { flow: 99 });
    let ghost = Flow {
        ending: Ending::LeaveOpen,
        ..Flow::mixed(99, &run)
    };
    ghost.run(&mut caller, &Ledger::in_memory()).await;
    let again = Flow {
        ending: Ending::LeaveOpen,
        ..Flow::mixed(100, &run)
    };
    again.run(&mut caller, &Ledger::in_memory()).await;
    let held = house.held().await;
    assert_eq!(
        judge(&accounts, &held).doubled.len(),
        2,
        "carts that no ledger knows are found"
    );
}

#[tokio::test]
async fn a_ledger_file_has_a_line_for_each_event() {
    let dir = std::env::temp_dir().join(format!("helve-ledger-{}", std::process::id()));
    let ledger = Ledger::create(&dir).unwrap();
    ledger.note(&Entry::CreateTried { flow: 7 });
    ledger.note(&Entry::Created {
        flow: 7,
        cart_id: "c".into(),
    });
    let text = std::fs::read_to_string(&dir).unwrap();
    std::fs::remove_file(&dir).unwrap();
    let lines: Vec<Value> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(
        lines[1],
        json!({"event": "created", "flow": 7, "cart_id": "c"})
    );
    assert_eq!(lines.len(), 2);
}
