//! What passes before a server has spoken, and what its first bytes say of it.

use proptest::prelude::*;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, duplex};

use super::*;
use crate::properties::check;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;

fn frame(kind: u8, content: &[u8]) -> Vec<u8> {
    let length = u8::try_from(content.len()).unwrap();
    [&[0, 0, length, kind, 0, 0, 0, 0, 0], content].concat()
}

fn greeting() -> Vec<u8> {
    let settings = frame(SETTINGS, &[0; 12]);
    [PREFACE, &settings, &frame(WINDOW_UPDATE, &[0, 0, 0, 1])].concat()
}

#[test]
fn greeting_passes_and_calls_wait_however_they_are_cut() {
    let call = frame(HEADERS, b"a call");
    let whole = [greeting(), call].concat();
    // The length of a frame says nothing of a call.
    let expected = greeting().len() + 3;
    let cuts = prop::collection::vec(1..20_usize, 1..40);
    check(&cuts, |cuts| {
        let (mut passed, mut at) = (Passed::default(), 0);
        for cut in cuts.into_iter().cycle().take(whole.len()) {
            let end = whole.len().min(at + cut);
            at += passed.advance(&whole[at..end]);
        }
        prop_assert_eq!(at, expected);
        Ok(())
    });
}

#[test]
fn first_bytes_that_a_node_makes_up_let_a_call_pass_only_in_http_2() {
    let runtime = tokio::runtime::Builder::new_current_thread().build();
    let runtime = runtime.unwrap();
    let bytes = prop::collection::vec(any::<u8>(), 0..20);
    let http_2 = bytes
        .clone()
        .prop_map(|rest| [vec![FIRST_BYTE], rest].concat());
    check(&prop_oneof![bytes, http_2], |first| {
        let sent = [greeting(), frame(HEADERS, b"a call")].concat();
        let mut client = Greeted::new(tokio::io::join(&first[..], Vec::<u8>::new()));
        let written = runtime.block_on(client.write_all(&sent));
        let mut heard = Vec::new();
        let read = runtime.block_on(client.read_to_end(&mut heard));
        let (_, passed) = client.stream.into_inner();
        if first.first() == Some(&FIRST_BYTE) {
            prop_assert!(written.is_ok() && read.is_ok());
            prop_assert_eq!((passed, heard), (sent, first));
        } else {
            let (written, read) = (written.unwrap_err(), read.unwrap_err());
            prop_assert!(Silent::behind(&written).is_some(), "{written}");
            prop_assert_eq!(Silent::behind(&read), Silent::behind(&written));
            prop_assert_eq!(&passed[..], &sent[..greeting().len() + 3]);
        }
        Ok(())
    });
}

/// What a server reads of a greeting and a call, whose first bytes come when the greeting has; and what the client reads.
async fn exchange(first: &[u8]) -> (Vec<u8>, io::Result<Vec<u8>>) {
    let (client, mut server) = duplex(1 << 16);
    let mut client = Greeted::new(client);
    let sent = [greeting(), frame(HEADERS, b"a call")].concat();
    let first = first.to_vec();
    let serving = tokio::spawn(async move {
        let mut greeted = vec![0; greeting().len()];
        server.read_exact(&mut greeted).await.unwrap();
        server.write_all(&first).await.unwrap();
        server.read_to_end(&mut greeted).await.unwrap();
        greeted
    });
    let mut heard = vec![0; HEAD_BYTES];
    // Sends before it reads, as a transport may.
    let read = match client.write_all(&sent).await {
        Ok(()) => client.read_exact(&mut heard).await.map(|_| heard),
        Err(error) => Err(error),
    };
    drop(client);
    (serving.await.unwrap(), read)
}

#[tokio::test]
async fn call_is_sent_once_the_server_has_spoken_http_2() {
    let (sent, read) = exchange(&frame(SETTINGS, &[])).await;
    assert_eq!(read.unwrap(), frame(SETTINGS, &[]));
    assert_eq!(sent, [greeting(), frame(HEADERS, b"a call")].concat());
}

#[tokio::test]
async fn server_of_another_protocol_is_sent_no_call_and_named() {
    for (first, silent) in [
        (&b"\x15\x03\x03\0\x02\x02\x32"[..], Silent::Tls),
        (b"HTTP/1.1 400 Bad Request\r\n", Silent::Other),
        (b"SSH-2.0-x\r\n", Silent::Other),
    ] {
        let (sent, read) = exchange(first).await;
        let error = read.unwrap_err();
        assert_eq!(Silent::behind(&error), Some(silent), "{error}");
        assert!(!sent.ends_with(b"a call"), "{sent:?}");
    }
}

#[tokio::test]
async fn connection_that_closes_without_a_word_bore_no_call() {
    let (client, server) = duplex(1 << 16);
    let mut client = Greeted::new(client);
    drop(server);
    let error = client.read(&mut [0; 8]).await.unwrap_err();
    assert_eq!(Silent::behind(&error), Some(Silent::Closed));
    let error = client.write_all(&greeting()).await.unwrap_err();
    assert_eq!(Silent::behind(&error), Some(Silent::Closed));
}
