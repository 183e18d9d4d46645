//! The network carries, and breaks what it is told to break, and nothing else.

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::*;
use crate::{
    address::next_loopback,
    wait::{Look, until},
};

const WORD: &[u8] = b"hello";
const FORTH: (Side, Side) = (Side::Clients, Side::Node(1));
const BACK: (Side, Side) = (Side::Node(1), Side::Clients);

/// A network before one node that says again whatever it hears.
struct Echo {
    network: Network,
    at: Listeners,
}

impl Echo {
    async fn start() -> Self {
        let address = next_loopback();
        let at = Listeners::of_seat(address, 1);
        for node in [at.client, at.peer] {
            let listener = tokio::net::TcpListener::bind(node).await.unwrap();
            task::spawn(async move {
                while let Ok((mut stream, _)) = listener.accept().await {
                    task::spawn(async move {
                        let (mut read, mut write) = stream.split();
                        drop(tokio::io::copy(&mut read, &mut write).await);
                    });
                }
            });
        }
        let network = Network::start(address, &[1, 2]).unwrap();
        Self { network, at }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.at.client_front).await.unwrap()
    }

    fn treat(&self, (from, to): (Side, Side), treatment: Treatment) {
        self.network.lanes().treat(from, to, treatment);
    }

    async fn counts(&self, (from, to): (Side, Side), wanted: impl Fn(&Counts) -> bool) -> Counts {
        until("the network to count", async || {
            match self.network.lanes().counts(from, to) {
                counts if wanted(&counts) => Look::Done(counts),
                counts => Look::NotYet(format!("{counts:?}")),
            }
        })
        .await
        .unwrap()
    }
}

async fn say(stream: &mut TcpStream) {
    stream.write_all(WORD).await.unwrap();
}

async fn hear(stream: &mut TcpStream) -> std::io::Result<Vec<u8>> {
    let mut heard = vec![0; WORD.len()];
    stream.read_exact(&mut heard).await?;
    Ok(heard)
}

#[tokio::test]
async fn what_is_sent_comes_through_both_ways_until_it_ends() {
    let echo = Echo::start().await;
    let mut stream = echo.connect().await;
    say(&mut stream).await;
    assert_eq!(hear(&mut stream).await.unwrap(), WORD);
    stream.shutdown().await.unwrap();
    assert_eq!(stream.read(&mut [0; 1]).await.unwrap(), 0);
    let five = Counts {
        passed: 5,
        ..Counts::default()
    };
    assert_eq!(echo.counts(FORTH, |_| true).await, five);
    assert_eq!(echo.counts(BACK, |_| true).await, five);
}

#[tokio::test]
async fn what_is_held_arrives_when_the_lane_passes_again() {
    let echo = Echo::start().await;
    let mut stream = echo.connect().await;
    say(&mut stream).await;
    hear(&mut stream).await.unwrap();
    echo.treat(FORTH, Treatment::Hold);
    say(&mut stream).await;
    let counts = echo.counts(FORTH, |counts| counts.held > 0).await;
    assert_eq!((counts.passed, counts.held), (5, 1));
    echo.network.lanes().clear();
    assert_eq!(hear(&mut stream).await.unwrap(), WORD);
}

#[tokio::test]
async fn a_connection_that_is_made_while_the_lane_holds_is_made_later() {
    let echo = Echo::start().await;
    echo.treat(FORTH, Treatment::Hold);
    let mut stream = echo.connect().await;
    say(&mut stream).await;
    echo.counts(FORTH, |counts| counts.held > 0).await;
    echo.network.lanes().clear();
    assert_eq!(hear(&mut stream).await.unwrap(), WORD);
}

#[tokio::test]
async fn a_lane_is_cut_one_way_and_the_connection_reset_when_it_has_a_hole() {
    let echo = Echo::start().await;
    let mut stream = echo.connect().await;
    say(&mut stream).await;
    hear(&mut stream).await.unwrap();
    echo.treat(BACK, Treatment::Swallow);
    say(&mut stream).await;
    let back = echo.counts(BACK, |counts| counts.swallowed == 5).await;
    assert_eq!(back.passed, 5);
    assert_eq!(echo.counts(FORTH, |_| true).await.passed, 10);
    echo.network.lanes().clear();
    let error = hear(&mut stream).await.unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[tokio::test]
async fn a_lane_that_refuses_resets_old_connections_and_new_ones() {
    let echo = Echo::start().await;
    let mut old = echo.connect().await;
    say(&mut old).await;
    hear(&mut old).await.unwrap();
    echo.treat(FORTH, Treatment::Refuse);
    assert!(hear(&mut old).await.is_err());
    let mut new = echo.connect().await;
    assert!(hear(&mut new).await.is_err());
    assert!(echo.counts(FORTH, |_| true).await.reset >= 2);
}

#[tokio::test]
async fn late_pieces_arrive_in_order() {
    let echo = Echo::start().await;
    let mut stream = echo.connect().await;
    let delay = Treatment::Delay {
        base: Duration::from_millis(5),
        jitter: Duration::from_millis(20),
    };
    let limit = Treatment::Limit {
        bytes_per_s: 10_000,
    };
    for treatment in [delay, Treatment::Loss { percent: 30 }, limit] {
        let before = echo.counts(FORTH, |_| true).await;
        echo.treat(FORTH, treatment);
        for round in 0..20_u8 {
            stream.write_all(&[round; WORD.len()]).await.unwrap();
            assert_eq!(hear(&mut stream).await.unwrap(), [round; WORD.len()]);
        }
        let since = echo.counts(FORTH, |_| true).await.since(&before);
        assert_eq!(since.passed, 100);
        assert!(since.delayed > 0, "{treatment:?}: {since}");
    }
}

#[tokio::test]
async fn a_corrupted_piece_differs_by_one_bit() {
    let echo = Echo::start().await;
    let mut stream = echo.connect().await;
    echo.treat(FORTH, Treatment::Corrupt { percent: 99 });
    let mut flipped = 0;
    for _ in 0..20 {
        say(&mut stream).await;
        let heard = hear(&mut stream).await.unwrap();
        let bits = heard.iter().zip(WORD).map(|(a, b)| (a ^ b).count_ones());
        let bits: u32 = bits.sum();
        assert!(bits <= 1, "{heard:?}");
        flipped += u64::from(bits);
    }
    assert!(flipped > 0);
    assert_eq!(echo.counts(FORTH, |_| true).await.corrupted, flipped);
}

#[tokio::test]
async fn pieces_that_reset_end_the_connection() {
    let echo = Echo::start().await;
    echo.treat(FORTH, Treatment::Reset { percent: 99 });
    until("a piece to reset its connection", async || {
        let mut stream = echo.connect().await;
        say(&mut stream).await;
        Look::of(
            hear(&mut stream)
                .await
                .map_or_else(|_| Ok(()), |_| Err("it came through")),
        )
    })
    .await
    .unwrap();
    echo.counts(FORTH, |counts| counts.reset > 0).await;
}

#[tokio::test]
async fn each_pair_of_peers_has_lanes_of_its_own() {
    let echo = Echo::start().await;
    echo.network.runs_as(2, std::process::id());
    let mut stream = TcpStream::connect(echo.at.peer_front).await.unwrap();
    say(&mut stream).await;
    assert_eq!(hear(&mut stream).await.unwrap(), WORD);
    let peers = (Side::Node(2), Side::Node(1));
    assert_eq!(echo.counts(peers, |_| true).await.passed, 5);
    assert_eq!(echo.counts(FORTH, |_| true).await, Counts::default());
}

#[tokio::test]
async fn where_no_node_listens_the_dialler_is_reset() {
    let echo = Echo::start().await;
    let at = Listeners::of_seat(echo.at.client.ip(), 2);
    let mut stream = TcpStream::connect(at.client_front).await.unwrap();
    assert!(hear(&mut stream).await.is_err());
}
