//! What the cluster client makes of calls that a server of HTTP/2 says it did not take, and of servers that speak something else:
//! nothing was done, so a write is made again elsewhere, and is never ambiguous.

#![expect(clippy::unwrap_used, reason = "these are tests")]

mod scripted;

use std::time::Duration;

use helve_client::{
    Client, ErrorKind, Reason,
    v1::{CallIdentity, MintRequest, call_identity::Identity::RequestId},
};
use rcgen::generate_simple_self_signed;
use scripted::{Node, Over, Step};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
};
use tokio_stream::wrappers::TcpListenerStream;
use tonic::{
    service::Routes,
    transport::{Identity, Server, ServerTlsConfig},
};

/// Longer than any test takes.
const PATIENT: Duration = Duration::from_secs(600);
/// For calls that cannot succeed: time enough to connect and to send them on a busy machine.
const BRIEF: Duration = Duration::from_secs(1);

/// Kinds of frames, and an error (RFC 9113, sections 6 and 7).
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
const REFUSED_STREAM: u32 = 7;
const PREFACE_BYTES: usize = 24;

/// What a server does with each call.
#[derive(Debug, Clone, Copy)]
enum Refusal {
    /// Resets its stream as one that it did not take.
    Reset,
    /// Ends the connection at an earlier stream.
    GoAway,
    /// Ends the connection at this stream, and then breaks it.
    GoAwayBehind,
}

fn frame(kind: u8, stream: u32, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).expect("short");
    let head = [0, 0, length, kind, 0];
    [&head[..], &stream.to_be_bytes(), content].concat()
}

/// Reads a frame: its kind and its stream.
async fn read_frame(connection: &mut TcpStream) -> std::io::Result<(u8, u32)> {
    let mut head = [0; 9];
    connection.read_exact(&mut head).await?;
    let [a, b, c, kind, _flags, stream @ ..] = head;
    let length = u32::from_be_bytes([0, a, b, c]);
    let mut content = vec![0; usize::try_from(length).expect("it fits")];
    connection.read_exact(&mut content).await?;
    Ok((kind, u32::from_be_bytes(stream)))
}

async fn refuse(mut connection: TcpStream, refusal: Refusal) -> std::io::Result<()> {
    connection.read_exact(&mut [0; PREFACE_BYTES]).await?;
    connection.write_all(&frame(SETTINGS, 0, &[])).await?;
    loop {
        let (kind, stream) = read_frame(&mut connection).await?;
        if kind != HEADERS {
            continue;
        }
        let last = match refusal {
            Refusal::Reset => {
                let reset = frame(RST_STREAM, stream, &REFUSED_STREAM.to_be_bytes());
                connection.write_all(&reset).await?;
                continue;
            }
            Refusal::GoAway => stream - 1,
            Refusal::GoAwayBehind => stream,
        };
        let no_error = 0_u32;
        let content = [last.to_be_bytes(), no_error.to_be_bytes()].concat();
        connection.write_all(&frame(GOAWAY, 0, &content)).await?;
        if let Refusal::GoAwayBehind = refusal {
            return Ok(());
        }
    }
}

/// A server that refuses all calls.
async fn refusing(refusal: Refusal) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((connection, _)) = listener.accept().await {
            tokio::spawn(refuse(connection, refusal));
        }
    });
    address
}

/// A server that says this to everybody and then closes.
async fn saying(word: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    tokio::spawn(async move {
        while let Ok((mut connection, _)) = listener.accept().await {
            tokio::spawn(async move {
                connection.write_all(word).await?;
                connection.shutdown().await?;
                // Without a reset, which could overtake the word.
                connection.read_to_end(&mut Vec::new()).await
            });
        }
    });
    address
}

/// A node's port for TLS.
async fn secured() -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let own = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let identity = Identity::from_pem(own.cert.pem(), own.signing_key.serialize_pem());
    let tls = ServerTlsConfig::new().identity(identity);
    let server = Server::builder().tls_config(tls).unwrap();
    let server = { server }.add_routes(Routes::default());
    tokio::spawn(server.serve_with_incoming(TcpListenerStream::new(listener)));
    address
}

fn client(over: Over, addresses: &[&str]) -> Client {
    let builder = over.builder(addresses.iter().map(|&address| address.to_owned()));
    let builder = builder.deadline(PATIENT).attempt_timeout(PATIENT);
    builder.build().expect("there are addresses")
}

/// A write under an identity of the caller's own: the first thing that is sent.
fn write() -> MintRequest {
    MintRequest {
        identity: Some(CallIdentity {
            identity: Some(RequestId(vec![7; 16].into())),
        }),
        store: "s".to_owned(),
        value: "1".into(),
        ..MintRequest::default()
    }
}

#[tokio::test]
async fn write_that_was_not_taken_is_made_again_elsewhere_and_not_in_doubt() {
    for over in [Over::Streams, Over::Unary] {
        for refusal in [Refusal::Reset, Refusal::GoAway] {
            let refusing = refusing(refusal).await;
            // Of a call in doubt, the refusal would not be the outcome.
            let denied = Step::Refuse(Reason::Denied);
            let sound = Node::start([Step::Answer, denied]).await;
            let made = client(over, &[&refusing, &sound.address]);
            assert!(made.call(write()).await.is_ok(), "{over:?} {refusal:?}");
            let refused = client(over, &[&refusing, &sound.address]);
            let kind = refused.call(write()).await.unwrap_err().kind();
            assert_eq!(kind, ErrorKind::Denied, "{over:?} {refusal:?}");
        }
    }
}

#[tokio::test]
async fn write_that_no_server_takes_is_unavailable() {
    for over in [Over::Streams, Over::Unary] {
        for refusal in [Refusal::Reset, Refusal::GoAway] {
            let refusing = refusing(refusal).await;
            let client = client(over, &[&refusing]).with_deadline(BRIEF);
            let error = client.call(write()).await.unwrap_err();
            let kind = error.kind();
            assert_eq!(kind, ErrorKind::Unavailable, "{over:?} {refusal:?} {error}");
        }
    }
}

/// The server took it, and it may have been done.
#[tokio::test]
async fn write_that_was_taken_before_the_connection_ended_is_ambiguous() {
    for over in [Over::Streams, Over::Unary] {
        let going = refusing(Refusal::GoAwayBehind).await;
        let client = client(over, &[&going]).with_deadline(BRIEF);
        let error = client.call(write()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Ambiguous, "{over:?} {error}");
    }
}

#[tokio::test]
async fn write_in_plain_text_to_a_port_for_tls_is_unavailable() {
    const ALERT: &[u8] = b"\x15\x03\x03\0\x02\x02\x46";
    for over in [Over::Streams, Over::Unary] {
        for address in [secured().await, saying(ALERT).await, saying(b"").await] {
            let client = client(over, &[&address]).with_deadline(BRIEF);
            let error = client.call(write()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{over:?} {error}");
            let said = error.to_string();
            assert!(said.contains("TLS") && said.contains(&address), "{said}");
        }
    }
}

#[tokio::test]
async fn write_to_a_server_of_another_protocol_is_unavailable_at_once() {
    for over in [Over::Streams, Over::Unary] {
        for word in [&b"HTTP/1.1 400 Bad Request\r\n\r\n"[..], b"SSH-2.0-x\r\n"] {
            let address = saying(word).await;
            let error = client(over, &[&address]).call(write()).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable, "{over:?} {error}");
            assert!(
                error.to_string().contains("does not speak HTTP/2"),
                "{error}"
            );
        }
    }
}
