//! The answer of a stream as lines of JSON: `{"result": MESSAGE}` each, and `{"error": ERROR}` as the last one if it fails.

use std::{convert::Infallible, future::poll_fn, pin::Pin, sync::Arc};

use axum::http::{HeaderValue, Response, header::CONTENT_TYPE};
use bytes::{Bytes, BytesMut};
use futures::stream;
use hyper::body::{Body as _, Frame};
use serde_json::json;
use tonic::{Status, body::Body};

use super::{
    codec::Codec,
    reply::{ending, error, merged, unframed},
    schema::Rpc,
};
use crate::service::{account::Account, budget::Charge};

/// Lines of JSON (<https://github.com/ndjson/ndjson-spec>).
const LINES: &str = "application/x-ndjson";

/// Messages of gRPC that become lines.
struct Lines {
    rpc: Rpc,
    body: Body,
    /// What has come, and is no whole message yet. At most one message and what came with it.
    bytes: BytesMut,
    account: Option<Arc<Account>>,
    /// What the line takes that is on its way. Given back when the transport asks for the next one.
    held: Vec<Charge>,
    is_over: bool,
}

/// The answer whose lines are the messages of this body, charged to the account until they have left.
pub(super) fn response(rpc: Rpc, body: Body, account: Option<Arc<Account>>) -> Response<Body> {
    let lines = Lines {
        rpc,
        body,
        bytes: BytesMut::new(),
        account,
        held: Vec::new(),
        is_over: false,
    };
    let lines = stream::unfold(lines, |mut lines| async move {
        let line = lines.next().await?;
        Some((Ok::<_, Infallible>(line), lines))
    });
    let body = axum::body::Body::from_stream(lines);
    let mut response = Response::new(Body::new(body));
    let content_type = HeaderValue::from_static(LINES);
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

impl Lines {
    async fn next(&mut self) -> Option<Bytes> {
        self.held.clear();
        while !self.is_over {
            if let Some(message) = unframed(&mut self.bytes) {
                return Some(self.line(message));
            }
            let frame = poll_fn(|context| Pin::new(&mut self.body).poll_frame(context)).await;
            let ended = match frame.map(|frame| frame.map(Frame::into_data)) {
                Some(Ok(Ok(data))) => {
                    self.bytes.extend_from_slice(&data);
                    continue;
                }
                Some(Ok(Err(other))) => match other.into_trailers() {
                    Ok(trailers) => ending(&trailers),
                    Err(_) => continue,
                },
                Some(Err(status)) => Err(status),
                None => Err(Status::internal("the reply ends without a status")),
            };
            self.is_over = true;
            if let Err(status) = ended {
                return Some(failed(&status));
            }
        }
        None
    }

    fn line(&mut self, message: Bytes) -> Bytes {
        if let Some(account) = &self.account {
            self.held = account.take_answers();
        }
        match merged(&self.rpc, Codec::Json, vec![message]) {
            Ok(text) => [&b"{\"result\":"[..], &text[..], &b"}\n"[..]]
                .concat()
                .into(),
            Err(status) => {
                self.is_over = true;
                failed(&status)
            }
        }
    }
}

fn failed(status: &Status) -> Bytes {
    format!("{}\n", json!({ "error": error(status) })).into()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderMap;
    use bytes::BufMut as _;
    use futures::StreamExt as _;
    use helve_proto::v1::{Change, ChangeKind, WatchReply};
    use prost::Message as _;
    use serde_json::Value;

    use super::*;

    fn framed(reply: &WatchReply) -> Bytes {
        let message = reply.encode_to_vec();
        let mut frame = BytesMut::new();
        frame.put_u8(0);
        frame.put_u32(u32::try_from(message.len()).expect("a short message"));
        frame.extend_from_slice(&message);
        frame.freeze()
    }

    /// The lines that come of these frames.
    async fn lines(frames: Vec<Frame<Bytes>>) -> Vec<Value> {
        let rpc = Rpc::named("/helve.v1.WatchService/Watch").expect("a call");
        let frames = stream::iter(frames.into_iter().map(Ok::<_, Status>));
        let body = Body::new(Framed(Box::pin(frames)));
        let body = axum::body::Body::new(response(rpc, body, None).into_body());
        let text = body.into_data_stream().map(|data| data.expect("a line"));
        let text = text.collect::<Vec<_>>().await.concat();
        let text = String::from_utf8(text).expect("JSON is UTF-8");
        let lines = text.lines().map(serde_json::from_str);
        lines.map(|line| line.expect("each line is JSON")).collect()
    }

    /// A body of these frames.
    struct Framed(Pin<Box<dyn futures::Stream<Item = Result<Frame<Bytes>, Status>> + Send>>);

    impl hyper::body::Body for Framed {
        type Data = Bytes;
        type Error = Status;

        fn poll_frame(
            mut self: Pin<&mut Self>,
            context: &mut std::task::Context<'_>,
        ) -> std::task::Poll<Option<Result<Frame<Bytes>, Status>>> {
            self.0.as_mut().poll_next(context)
        }
    }

    fn changed(revision: u64) -> Bytes {
        framed(&WatchReply {
            revision,
            changes: vec![Change {
                kind: ChangeKind::Deleted.into(),
                store: "carts".into(),
                ..Change::default()
            }],
            ..WatchReply::default()
        })
    }

    #[tokio::test]
    async fn each_message_is_a_line_however_it_is_cut() {
        let all = [changed(7), changed(8)].concat();
        let (head, tail) = all.split_at(9);
        let cut = [head, tail].map(|part| Frame::data(Bytes::copy_from_slice(part)));
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", HeaderValue::from_static("0"));
        let frames = cut.into_iter().chain([Frame::trailers(trailers)]);
        let lines = lines(frames.collect()).await;
        let told: Vec<_> = lines
            .iter()
            .map(|line| &line["result"]["revision"])
            .collect();
        assert_eq!(told, ["7", "8"]);
        assert_eq!(
            lines[0]["result"]["changes"][0]["kind"],
            "CHANGE_KIND_DELETED"
        );
    }

    #[tokio::test]
    async fn a_stream_that_breaks_says_so_in_its_last_line() {
        let lines = lines(vec![Frame::data(changed(7))]).await;
        assert_eq!(lines.len(), 2);
        assert_eq!(lines[1]["error"]["code"], "internal");
    }
}
