//! Sizes of messages that decode, and bytes that are no message.

use helve_proto::v1::{
    BatchRetrieveRequest, BatchStoreRequest, ExchangeCall, ExchangeRequest, MintRequest, Operation,
    StoreItem, TransactRequest, exchange_call::Call,
};
use proptest::prelude::*;

use super::*;
use crate::{
    limits::MESSAGE_BYTES_MAX,
    properties::{bytes_like, check},
    service::status::Problem,
};

const EXCHANGE: &str = "/helve.v1.CallService/Exchange";
const RETRIEVE: &str = "/helve.v1.StateService/BatchRetrieve";
const BYTES_MAX: usize = 16 << 20;

fn size(path: &str, wire: &[u8]) -> Result<usize, Reason> {
    let shapes = Shapes::of_contract();
    let request = shapes.request(path).unwrap();
    let size = request.decoded_bytes(wire, BYTES_MAX);
    size.map_err(|failure| Problem::from(failure).reason())
}

fn keys(count: usize, bytes: usize) -> BatchRetrieveRequest {
    BatchRetrieveRequest {
        owner: "ann".to_owned(),
        keys: vec!["k".repeat(bytes); count],
    }
}

fn exchanged(calls: usize, keys_each: usize, bytes: usize) -> ExchangeRequest {
    let call = ExchangeCall {
        call: Some(Call::BatchRetrieve(keys(keys_each, bytes))),
        ..ExchangeCall::default()
    };
    ExchangeRequest {
        calls: vec![call; calls],
    }
}

#[test]
fn shapes_are_no_smaller_than_the_types_they_describe() {
    let shapes = Shapes::of_contract();
    let bytes = |path| shapes.messages[shapes.request(path).unwrap().message].bytes;
    assert!(bytes(RETRIEVE) >= size_of::<BatchRetrieveRequest>());
    assert!(bytes("/helve.v1.HandleService/Mint") >= size_of::<MintRequest>());
    let element = |path: &str, name: &str| {
        let shape = &shapes.messages[shapes.request(path).unwrap().message];
        let mut fields = shape.fields.iter();
        let field = fields.find(|field| field.name == name).unwrap();
        field.element_bytes
    };
    for (path, name, bytes) in [
        (EXCHANGE, "calls", size_of::<ExchangeCall>()),
        (
            "/helve.v1.TransactService/Transact",
            "operations",
            size_of::<Operation>(),
        ),
        (
            "/helve.v1.StateService/BatchStore",
            "items",
            size_of::<StoreItem>(),
        ),
        (RETRIEVE, "keys", size_of::<String>()),
    ] {
        let told = element(path, name);
        assert!(
            (bytes..=3 * bytes).contains(&told),
            "{name}: {told} of {bytes}"
        );
    }
}

#[test]
fn no_message_of_the_contract_has_more_repeated_fields_than_are_counted() {
    for shape in Shapes::of_contract().messages {
        let repeated = shape.fields.iter().filter_map(|field| field.repeated);
        assert!(repeated.max().is_none_or(|last| last < REPEATED_MAX));
    }
}

#[test]
fn largest_calls_of_the_contract_are_let_through() {
    let batch = BatchStoreRequest {
        items: vec![StoreItem::default(); 128],
        ..BatchStoreRequest::default()
    };
    let transaction = TransactRequest {
        operations: vec![Operation::default(); 128],
        ..TransactRequest::default()
    };
    let table = [
        (RETRIEVE, keys(128, 1_024).encode_to_vec()),
        ("/helve.v1.StateService/BatchStore", batch.encode_to_vec()),
        (
            "/helve.v1.TransactService/Transact",
            transaction.encode_to_vec(),
        ),
        (EXCHANGE, exchanged(1_024, 1, 16).encode_to_vec()),
        (EXCHANGE, exchanged(64, 128, 64).encode_to_vec()),
    ];
    for (path, wire) in table {
        let size = size(path, &wire).unwrap();
        assert!(size < 4 << 20, "{path}: {size} of {} bytes", wire.len());
    }
}

#[test]
fn messages_of_tiny_elements_are_refused_before_they_are_decoded() {
    // An element of two bytes, as often as a message has room for.
    let elements = |number: u8| [number << 3 | 2, 0].repeat(MESSAGE_BYTES_MAX / 2);
    for (path, number) in [
        (EXCHANGE, 1),
        (RETRIEVE, 2),
        ("/helve.v1.StateService/BatchStore", 3),
        ("/helve.v1.TransactService/Transact", 2),
    ] {
        assert_eq!(
            size(path, &elements(number)),
            Err(Reason::TooLarge),
            "{path}"
        );
    }
    // Each list is within the bound, and all of them are not.
    let nested = exchanged(1_000, 1_000, 0).encode_to_vec();
    assert_eq!(size(EXCHANGE, &nested), Err(Reason::TooLarge));
    // The same field many times over is one list.
    let list = exchanged(1, 1_000, 0).calls[0].call.clone();
    let Some(Call::BatchRetrieve(list)) = list else {
        panic!("it was made of one");
    };
    assert_eq!(
        size(RETRIEVE, &list.encode_to_vec().repeat(2)),
        Err(Reason::TooLarge)
    );
}

#[test]
fn bytes_that_a_client_makes_up_have_a_size_if_they_decode_and_never_panic() {
    let real = vec![
        exchanged(3, 5, 7).encode_to_vec(),
        exchanged(1, 0, 0).encode_to_vec(),
    ];
    let shapes = Shapes::of_contract();
    let request = shapes.request(EXCHANGE).unwrap();
    check(&bytes_like(real), |bytes| {
        let told = request.decoded_bytes(&bytes, BYTES_MAX);
        // What decodes is within its told size, but for groups, which are skipped when they are decoded and refused here.
        if let (Ok(decoded), Ok(told)) = (ExchangeRequest::decode(bytes.as_slice()), told) {
            let texts: usize = decoded.calls.iter().map(text_bytes).sum();
            let elements = decoded.calls.len() * size_of::<ExchangeCall>();
            prop_assert!(told >= texts + elements, "{told}: {decoded:?}");
        }
        Ok(())
    });
}

fn text_bytes(call: &ExchangeCall) -> usize {
    match &call.call {
        Some(Call::BatchRetrieve(retrieve)) => {
            let keys = retrieve.keys.iter().map(String::len);
            retrieve.owner.len() + keys.sum::<usize>()
        }
        _ => 0,
    }
}
