//! The console: pages for operators on the HTTP port, and the calls that they make, as JSON.
//!
//! ```text
//! /console/                        files of this binary: a page, its style and its modules
//! /console/api/whoami              what the caller's token is for
//! /console/api/nodes               the cluster, as `helve status` shows it
//! /console/api/stores              the stores of the caller's tenant
//! /console/api/helve.v1.X/CALL     a few calls of the client port; a watch is lines of JSON
//! ```
//!
//! A call of the client port goes the way of those: the same credentials, budgets, deadlines and audit log. The rest passes the same
//! access check. A token comes in the header `Authorization` alone, which no browser sends by itself.

mod admitted;
mod files;
mod guard;
mod held;
mod nodes;
mod places;
mod stores;
#[cfg(test)]
mod tests;

use std::{future::ready, net::SocketAddr, sync::Arc};

use axum::{
    Router,
    body::Body as HttpBody,
    extract::{ConnectInfo, Request, State},
    http::{
        HeaderMap, Response, StatusCode, Uri,
        header::{CONTENT_TYPE, COOKIE, ORIGIN},
    },
    middleware,
    response::{IntoResponse as _, Redirect},
    routing::{any, get, post},
};
use helve_proto::v1::TokenRole;
use serde_json::{Value as Json, json};
use tokio::sync::Mutex;
use tonic::{Status, body::Body, codegen::Service as _};

pub(super) use self::places::Places;
use self::{guard::Guard, held::Held, nodes::Newest, places::Place};
use super::{
    NodeNames, Services,
    arriving::Arriving,
    caller::{Caller, Power},
    direct_routes::DirectRoutes,
    failure::Failure,
    json, rules, undelivered,
};
use crate::peer_links::PeerLinks;

/// Where the calls are.
const API: &str = "/console/api";
/// The calls of the client port that the console makes; others are refused. What changes something is deleting a handle alone.
const CALLS: [&str; 7] = [
    "/helve.v1.AccessService/ListTenants",
    "/helve.v1.HandleService/Count",
    "/helve.v1.HandleService/Delete",
    "/helve.v1.HandleService/Get",
    "/helve.v1.HandleService/List",
    "/helve.v1.StateService/List",
    "/helve.v1.WatchService/Watch",
];
/// Rules of the client port's calls that what is no call of it keeps.
const AS_STATUS: &str = "/helve.v1.ClusterService/Status";
const AS_COUNT: &str = "/helve.v1.HandleService/Count";
const JSON: &str = "application/json";

/// What the console is made from.
struct Console {
    services: Arc<Services>,
    routes: DirectRoutes,
    links: PeerLinks,
    newest: Mutex<Option<Newest>>,
    places: Places,
}

/// The routes of the console of a node that is called by these names, whose calls take these places.
pub(super) fn router(services: &Arc<Services>, names: NodeNames, places: Places) -> Router {
    let console = Arc::new(Console {
        services: Arc::clone(services),
        routes: super::direct_routes(services),
        links: PeerLinks::new(services.cluster.consensus.clone()),
        newest: Mutex::default(),
        places,
    });
    let guard = Arc::new(Guard::new(names));
    let files = files::ALL.iter().fold(Router::new(), |router, file| {
        router.route(file.path, get(move || ready(file.response())))
    });
    files
        .route("/console", get(async || Redirect::permanent("/console/")))
        .route("/console/api/whoami", get(whoami))
        .route("/console/api/nodes", get(nodes))
        .route("/console/api/stores", get(stores))
        .route("/console/api/{service}/{call}", post(call))
        .route("/console/{*path}", any(async || nothing()))
        .layer(middleware::from_fn_with_state(guard, guard::pass))
        .with_state(console)
}

/// A call of the client port.
async fn call(
    State(console): State<Arc<Console>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    mut request: Request,
) -> Response<HttpBody> {
    let path = request.uri().path().strip_prefix(API).unwrap_or_default();
    let Some(path) = CALLS.into_iter().find(|call| *call == path) else {
        return nothing();
    };
    *request.uri_mut() = Uri::from_static(path);
    let place = match console.let_in(&mut request, from).await {
        Ok((_, place)) => place,
        Err(refused) => return refused,
    };
    // The guard has looked at it, and the client port refuses it.
    request.headers_mut().remove(ORIGIN);
    request.headers_mut().remove(COOKIE);
    let mut request = request.map(|body| Arriving::new(Body::new(body)));
    let call = match json::adopt_for_console(&mut request) {
        Ok(call) => call,
        Err(refusal) => return sent(refusal, None),
    };
    let mut routes = console.routes.clone();
    let Ok(answer) = routes.call(request).await;
    let answer = undelivered::explain(answer);
    sent(call.answer(answer).await, Some(place))
}

/// An answer that goes out over the HTTP port. What it took is given back once the transport has it.
fn sent(mut answer: Response<Body>, place: Option<Place>) -> Response<HttpBody> {
    let account = answer.extensions_mut().remove();
    answer.map(|body| HttpBody::new(Held::new(body, account, place)))
}

fn json_of(answer: &Json) -> Response<HttpBody> {
    ([(CONTENT_TYPE, JSON)], answer.to_string()).into_response()
}

fn refused(status: &Status) -> Response<HttpBody> {
    sent(json::refused(status), None)
}

fn nothing() -> Response<HttpBody> {
    let error = json!({
        "code": "unimplemented",
        "message": "the console has nothing at this path, or not by this method: docs/operations/console.md lists what it has",
    });
    let mut answer = json_of(&error);
    *answer.status_mut() = StatusCode::NOT_FOUND;
    answer
}

/// What the caller's credential is for.
async fn whoami(
    State(console): State<Arc<Console>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response<HttpBody> {
    match console.admit(AS_STATUS, &headers, from).await {
        Ok(admitted) => json_of(&who(&console, &admitted.caller)),
        Err(refused) => refused,
    }
}

fn who(console: &Console, caller: &Caller) -> Json {
    let lets = |path| rules::of(path).is_some_and(|least| rules::is_met(least, caller));
    let (stores, key_prefixes) = match &caller.power {
        Power::Token { grant, .. } => (&grant.stores[..], &grant.key_prefixes[..]),
        Power::All | Power::Nothing => (&[][..], &[][..]),
    };
    let role = match caller.role() {
        TokenRole::Reader => "reader",
        TokenRole::Writer => "writer",
        TokenRole::Admin => "admin",
        TokenRole::Operator => "operator",
        TokenRole::Unspecified => "anyone",
    };
    json!({
        "role": role,
        "tenant": if caller.is_operator() { "" } else { caller.tenant.as_str() },
        "principal": caller.principal,
        "stores": stores,
        "key_prefixes": key_prefixes,
        "node_id": console.services.cluster.consensus.identity().node_id(),
        "may": {
            "read_records": lets("/helve.v1.HandleService/Get"),
            "evict": lets("/helve.v1.HandleService/Delete"),
            "list_tenants": lets("/helve.v1.AccessService/ListTenants"),
        },
    })
}

/// The cluster, as `helve status` shows it.
async fn nodes(
    State(console): State<Arc<Console>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
) -> Response<HttpBody> {
    let _admitted = match console.admit(AS_STATUS, &headers, from).await {
        Ok(admitted) => admitted,
        Err(refused) => return refused,
    };
    let mut timer = console.services.metrics.call("ConsoleNodes");
    let report = console.report().await;
    timer.answered("OK");
    ([(CONTENT_TYPE, JSON)], report).into_response()
}

/// Behind which store a page begins, by the query of its request; `None` if that says anything else. Names of stores have no
/// characters that a query would encode.
fn behind(query: &str) -> Option<&str> {
    match query {
        "" => Some(""),
        query => query.strip_prefix("after=").filter(|name| {
            let is_of_name = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            name.bytes().all(is_of_name)
        }),
    }
}

/// The stores of the caller's tenant.
async fn stores(
    State(console): State<Arc<Console>>,
    ConnectInfo(from): ConnectInfo<SocketAddr>,
    uri: Uri,
    headers: HeaderMap,
) -> Response<HttpBody> {
    let admitted = match console.admit(AS_COUNT, &headers, from).await {
        Ok(admitted) => admitted,
        Err(refused) => return refused,
    };
    let Some(after) = behind(uri.query().unwrap_or_default()) else {
        let why = "the query is none of a page of stores: send ?after=STORE, or none";
        return refused(&Failure::Malformed(why.into()).into());
    };
    let mut timer = console.services.metrics.call("ListStores");
    let listed = console.services.stores(&admitted, after.to_owned()).await;
    timer.answered(match &listed {
        Ok(_) => "OK",
        Err(problem) => problem.reason().as_str(),
    });
    match listed {
        Ok(stores) => json_of(&stores),
        Err(problem) => refused(&problem.into_status()),
    }
}
