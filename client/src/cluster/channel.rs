//! The endpoints of a cluster, and which of them to try next.

use std::{
    fmt,
    sync::{
        Arc, Mutex, OnceLock, PoisonError, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
};

use helve_proto::Reason;
use tokio::time::Instant;
use tonic::transport::Endpoint;

use crate::{
    cluster::{
        address::Address,
        dial::Dial,
        exchange::{ExchangeStream, Streams},
        limits::{ALONE, LEARNED_ENDPOINTS_MAX, SUSPECT},
        node_connection::NodeConnection,
    },
    error::Error,
};

/// Which endpoints a leader hint may point to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Hints {
    /// To those that the caller gave.
    Known,
    /// To others too.
    Learn,
}

/// The nodes that a client may talk to.
#[derive(Debug)]
pub(crate) struct Pool {
    nodes: RwLock<Vec<Arc<Node>>>,
    /// Where the next call goes first.
    preferred: AtomicUsize,
    hints: Hints,
    dial: Dial,
    learned_max: usize,
}

/// One node, as its endpoint.
#[derive(Debug)]
pub(crate) struct Node {
    /// Its place in the pool.
    index: usize,
    /// `host:port`, as the node advertises it.
    authority: String,
    endpoint: Endpoint,
    dial: Dial,
    /// For lists and calls that go alone. Made by the first, because it needs a runtime; connected, and connected again, when
    /// needed.
    channel: OnceLock<NodeConnection>,
    streams: Streams,
    suspect_until: Mutex<Option<Instant>>,
    /// Until then calls go each by itself: a proxy between passes no streams of many on.
    alone_until: Mutex<Option<Instant>>,
}

impl Pool {
    /// Connects to nothing yet.
    pub(crate) fn new(addresses: &[String], hints: Hints, dial: Dial) -> Result<Self, Error> {
        if addresses.is_empty() {
            let message = "a cluster needs at least one endpoint, as HOST:PORT";
            return Err(Error::refused(Reason::BadRequest, message, 0, 0));
        }
        // Of a list that was split, the comma may be of a password: what is before it is one, too.
        if let Some(named) = addresses.iter().rfind(|address| address.contains('@')) {
            named.parse::<Address>()?;
        }
        let node =
            |(index, address): (usize, &String)| Node::new(index, address, &dial).map(Arc::new);
        let nodes = addresses.iter().enumerate().map(node);
        Ok(Self {
            nodes: RwLock::new(nodes.collect::<Result<_, _>>()?),
            preferred: AtomicUsize::new(0),
            hints,
            dial,
            learned_max: addresses.len() + LEARNED_ENDPOINTS_MAX,
        })
    }

    /// The node for the first try of a call.
    pub(crate) fn preferred(&self) -> Arc<Node> {
        let nodes = self.nodes();
        Arc::clone(&nodes[self.preferred.load(Ordering::Relaxed) % nodes.len()])
    }

    /// The nodes that the caller gave.
    pub(crate) fn given(&self) -> Vec<Arc<Node>> {
        let nodes = self.nodes();
        nodes[..self.learned_max - LEARNED_ENDPOINTS_MAX].to_vec()
    }

    /// The node to try after this one: the next that is not suspect, or the next, but none that will not do for this call, by index.
    pub(crate) fn after(&self, node: &Node, useless: &[usize]) -> Option<Arc<Node>> {
        let nodes = self.nodes();
        let around = (1..=nodes.len()).map(|step| &nodes[(node.index + step) % nodes.len()]);
        let mut usable = around.filter(|node| !useless.contains(&node.index));
        let sound = usable.clone().find(|node| !node.is_suspect());
        sound.or_else(|| usable.next()).map(Arc::clone)
    }

    /// A node did not answer: other calls shall not begin with it.
    pub(crate) fn suspect(&self, node: &Node) {
        node.set_suspect_until(Some(Instant::now() + SUSPECT));
        let next = self.after(node, &[]).map_or(0, |next| next.index);
        // A call that began before the others moved away must not move them again.
        let _moved_already =
            self.preferred
                .compare_exchange(node.index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    /// A node answered, and named the leader; empty: it knows none.
    pub(crate) fn answered(&self, node: &Node, leader: &str) {
        node.set_suspect_until(None);
        if leader.is_empty() {
            return;
        }
        let known = self
            .nodes()
            .iter()
            .find(|node| node.authority == leader)
            .cloned();
        if let Some(leader) = known.or_else(|| self.learn(leader))
            && !leader.is_suspect()
        {
            self.preferred.store(leader.index, Ordering::Relaxed);
        }
    }

    fn learn(&self, address: &str) -> Option<Arc<Node>> {
        let mut nodes = self.nodes.write().unwrap_or_else(PoisonError::into_inner);
        if self.hints == Hints::Known || nodes.len() >= self.learned_max {
            return None;
        }
        if let Some(node) = nodes.iter().find(|node| node.authority == address) {
            return Some(Arc::clone(node));
        }
        // A hint that is no address is a hint not to be followed.
        let node = Node::new(nodes.len(), address, &self.dial).ok()?;
        nodes.push(Arc::new(node));
        nodes.last().cloned()
    }

    fn nodes(&self) -> std::sync::RwLockReadGuard<'_, Vec<Arc<Node>>> {
        self.nodes.read().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The addresses.
impl fmt::Display for Pool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, node) in self.nodes().iter().enumerate() {
            let separator = if index == 0 { "" } else { ", " };
            write!(f, "{separator}{}", node.authority)?;
        }
        Ok(())
    }
}

impl Node {
    fn new(index: usize, address: &str, dial: &Dial) -> Result<Self, Error> {
        let (authority, endpoint) = dial.endpoint(address)?;
        Ok(Self {
            index,
            authority,
            endpoint,
            dial: dial.clone(),
            channel: OnceLock::new(),
            streams: Streams::default(),
            suspect_until: Mutex::new(None),
            alone_until: Mutex::new(None),
        })
    }

    /// `host:port`.
    pub(crate) fn authority(&self) -> &str {
        &self.authority
    }

    /// Needs a tokio runtime around it.
    pub(crate) fn channel(&self) -> NodeConnection {
        self.channel.get_or_init(|| self.connect()).clone()
    }

    /// Needs a tokio runtime around it.
    pub(crate) fn stream(&self) -> Arc<ExchangeStream> {
        self.streams.pick(|| self.connect())
    }

    fn connect(&self) -> NodeConnection {
        let channel = self.dial.connect(&self.endpoint);
        NodeConnection::new(self.authority.as_str(), channel, &self.dial.bearer)
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(crate) fn is_suspect(&self) -> bool {
        is_before(&self.suspect_until)
    }

    /// Whether calls go each by itself for now.
    pub(crate) fn is_alone(&self) -> bool {
        is_before(&self.alone_until)
    }

    /// A proxy between passes no streams of many calls on.
    pub(crate) fn set_alone(&self) {
        let mut until = self
            .alone_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *until = Some(Instant::now() + ALONE);
    }

    fn set_suspect_until(&self, until: Option<Instant>) {
        *self
            .suspect_until
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = until;
    }
}

fn is_before(until: &Mutex<Option<Instant>>) -> bool {
    let until = *until.lock().unwrap_or_else(PoisonError::into_inner);
    until.is_some_and(|until| Instant::now() < until)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::cluster::bearer::Bearer;

    fn pool(hints: Hints) -> Pool {
        let addresses = ["a:1", "http://b:1", "c:1"].map(str::to_owned);
        Pool::new(&addresses, hints, Dial::plain(Duration::from_secs(1))).unwrap()
    }

    #[test]
    fn a_silent_node_is_passed_over_until_it_answers() {
        let pool = pool(Hints::Known);
        let first = pool.preferred();
        pool.suspect(&first);
        let second = pool.preferred();
        assert_eq!(second.authority, "b:1");
        pool.answered(&second, "a:1");
        assert_eq!(
            pool.preferred().authority,
            "b:1",
            "the hint names a suspect"
        );
        pool.answered(&first, "a:1");
        assert_eq!(pool.preferred().authority, "a:1");
    }

    #[test]
    fn if_all_are_silent_they_are_tried_in_turn() {
        let pool = pool(Hints::Known);
        let mut node = pool.preferred();
        for expected in ["b:1", "c:1", "a:1", "b:1"] {
            pool.suspect(&node);
            node = pool.after(&node, &[]).unwrap();
            assert_eq!(node.authority, expected);
        }
    }

    #[test]
    fn leader_that_no_node_named_is_followed_only_if_asked_for() {
        let (known, learn) = (pool(Hints::Known), pool(Hints::Learn));
        for (pool, expected) in [(known, "a:1"), (learn, "d:1")] {
            pool.answered(&pool.preferred(), "d:1");
            assert_eq!(pool.preferred().authority, expected);
        }
    }

    #[test]
    fn leader_beyond_this_machine_is_told_no_token() {
        let mut dial = Dial::plain(Duration::from_secs(1));
        dial.bearer = Bearer::given("hlv_secret").unwrap();
        let pool = Pool::new(&["127.0.0.1:1".to_owned()], Hints::Learn, dial).unwrap();
        pool.answered(&pool.preferred(), "10.0.0.1:7400");
        assert_eq!(pool.preferred().authority, "127.0.0.1:1");
        pool.answered(&pool.preferred(), "127.0.0.2:7400");
        assert_eq!(pool.preferred().authority, "127.0.0.2:7400");
    }

    #[test]
    fn what_is_no_endpoint_is_refused() {
        for addresses in [vec![], vec!["no endpoint".to_owned()]] {
            let refused = Pool::new(
                &addresses,
                Hints::Known,
                Dial::plain(Duration::from_secs(1)),
            );
            assert_eq!(refused.unwrap_err().reason(), Some(Reason::BadRequest));
        }
    }

    #[test]
    fn comma_in_a_password_parts_no_endpoints_of_which_one_is_repeated() {
        for list in [
            "http://u:s3cret,x@h:1",
            "http://u:7400,s3cret@h:1",
            "a:1,u:s3cret,x@h:1,b:2",
        ] {
            let addresses: Vec<_> = list.split(',').map(str::to_owned).collect();
            let dial = Dial::plain(Duration::from_secs(1));
            let refused = Pool::new(&addresses, Hints::Known, dial)
                .unwrap_err()
                .to_string();
            assert!(refused.contains("no user name"), "{refused}");
            assert!(
                !refused.contains("s3cret") && !refused.contains("u:"),
                "{refused}"
            );
        }
    }
}
