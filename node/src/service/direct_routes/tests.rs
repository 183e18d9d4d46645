//! Calls for which there is no room slow their connections down, and calls without a credential do
//! not.

use std::iter;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};
use tonic::Code;

use super::{super::pace::Paced, *};
use crate::{limits::LITTLE_READ_BYTES, node::Alone};

const MADE_UP: &str = "Bearer hlv_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";
const MUCH: usize = 4 * LITTLE_READ_BYTES;

/// A call over a connection of this pace, which shows this.
fn call(pace: &Pace, authorization: &str) -> Request<Arriving> {
    let request = Request::post("http://node:7400/helve.v1.HandleService/Get");
    let request = request.header("authorization", authorization);
    let mut request = request.body(Arriving::new(Body::empty())).unwrap();
    request.extensions_mut().insert(pace.clone());
    request
}

/// How it is answered.
async fn answered(routes: &mut DirectRoutes, request: Request<Arriving>) -> Code {
    let answer = routes.call(request).await.unwrap();
    Status::from_header_map(answer.headers()).unwrap().code()
}

/// How much a connection of this pace is read at once.
async fn read_at_once(pace: &Pace) -> usize {
    let (mut caller, node) = duplex(MUCH);
    caller.write_all(&[0; MUCH]).await.unwrap();
    let mut buffer = [0; MUCH];
    let mut node = Paced::new(node, pace.clone());
    node.read(&mut buffer).await.unwrap()
}

#[tokio::test]
async fn look_up_of_a_credential_without_room_slows_its_connection() {
    let node = Alone::start().await;
    let mut routes = direct_routes(&node.services);
    let access_check = node.services.access_check();
    let budgets = access_check.budgets();
    let stranger = budgets.stranger(None);
    let take = || budgets.take(&stranger, What::Calls, 1).ok();
    let _look_ups: Vec<_> = iter::from_fn(take).collect();
    let pace = Pace::default();
    pace.found_room();
    let unknown = answered(&mut routes, call(&pace, "Bearer none")).await;
    assert_eq!(unknown, Code::Unauthenticated);
    assert_eq!(read_at_once(&pace).await, MUCH, "one of many callers");
    let refused = answered(&mut routes, call(&pace, MADE_UP)).await;
    assert_eq!(refused, Code::ResourceExhausted);
    assert_eq!(read_at_once(&pace).await, LITTLE_READ_BYTES);
}
