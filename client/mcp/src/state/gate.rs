//! What a server of the state tool may start as: a function from what the operator asked for to what is served, or to every
//! reason against it. `docs/mcp.md` has the same as a table, and a test holds both together over all combinations.
//!
//! After mistmcp's stateless mode (its pull request 43), which hides tools at build time and
//! refuses the one start whose confirmations could not work. Here confirmations do work without
//! sessions (SEP-2322), if the replica that asks and the one that is answered share a key.

/// Who can reach the server, and through how many processes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Transport {
    /// One client, over standard input and output, for as long as the process lives.
    Stdio,
    /// HTTP on a loopback address.
    Loopback,
    /// HTTP on an address that other machines reach.
    Beyond,
}

/// Where the state is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backing {
    /// In a cluster.
    Cluster,
    /// In this process, gone when it ends.
    Memory,
}

/// How many processes serve under one name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Replicas {
    /// This one.
    One,
    /// Others, too.
    Several,
}

/// What confirmations are sealed under.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Key {
    /// Nothing was said. Over standard input and output it is then a key of this process.
    Unset,
    /// A key of this process, gone when it ends.
    Ephemeral,
    /// A key that all replicas have, before and after a restart.
    Shared,
}

/// What the operator asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Asked {
    /// How clients reach the server.
    pub transport: Transport,
    /// Where the state is.
    pub backing: Backing,
    /// How many processes serve it.
    pub replicas: Replicas,
    /// What confirmations are sealed under.
    pub key: Key,
    /// Whether state may be changed.
    pub writes: bool,
    /// Whether there is a tool that deletes.
    pub delete: bool,
    /// Whether destructive calls go without a confirmation.
    pub assume_yes: bool,
    /// Whether `Host` headers are named.
    pub hosts: bool,
    /// Whether `Origin` headers are named.
    pub origins: bool,
    /// Whether callers must say who they are.
    pub authentication: bool,
}

/// What is served. It is settled before the first client comes, and the same for all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gate {
    /// Which tools there are.
    pub tools: Visible,
    /// What becomes of calls that replace or delete.
    pub destructive: Destructive,
}

/// Which tools there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Visible {
    /// Those that read.
    Reads,
    /// Those that store, too.
    Writes,
    /// All.
    Deletes,
}

/// What becomes of calls that replace or delete.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Destructive {
    /// There are none.
    Absent,
    /// The user is asked, through the client; who cannot be asked is refused.
    Confirmed,
    /// They are carried out.
    Assumed,
}

/// Why a server does not start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, thiserror::Error)]
pub enum Refusal {
    /// Deleting is writing.
    #[error("--enable-delete without --enable-writes: deleting is writing; add --enable-writes")]
    DeleteWithoutWrites,
    /// Standard input has one reader.
    #[error("--stdio with --replicas: one process serves one client there; leave --replicas out")]
    SeveralOverStdio,
    /// Each replica would have a store of its own.
    #[error(
        "--replicas with --memory: each replica would hold other state; name a cluster with --endpoints instead of --memory"
    )]
    SeveralInMemory,
    /// A confirmation that one replica asked for would not hold on another.
    #[error(
        "--replicas with --ephemeral-key: what one replica asks, another could not check; give all the same --key-file"
    )]
    SeveralEphemeral,
    /// A confirmation could not be checked after a restart, nor on another replica.
    #[error(
        "--enable-writes without a key: replacing and deleting ask the user, and the answer may reach another process; give all \
         replicas the same --key-file (`helve key new FILE` makes one), or --ephemeral-key to a single one, or --assume-yes to let agents replace and delete \
         unasked"
    )]
    NoKey,
    /// Any page in any browser could reach the server.
    #[error(
        "--listen beyond this machine without --allowed-host and --allowed-origin: name the hosts that clients call it by, and \
         the origins whose pages may (`none` for no page at all), or listen on 127.0.0.1"
    )]
    NoHostsOrOrigins,
    /// Anyone on the network could read and change everything.
    #[error(
        "--listen beyond this machine without --token-key-file: anyone who reaches it would be let in; say what bearer tokens are \
         checked with, or listen on 127.0.0.1"
    )]
    NoAuthentication,
}

impl Asked {
    /// What is served then.
    ///
    /// # Errors
    /// Every reason why nothing is: do not start, and name them all.
    pub fn settle(&self) -> Result<Gate, Vec<Refusal>> {
        let several = self.replicas == Replicas::Several;
        let http = self.transport != Transport::Stdio;
        let beyond = self.transport == Transport::Beyond;
        let asks = self.writes && !self.assume_yes;
        let reasons = [
            (self.delete && !self.writes, Refusal::DeleteWithoutWrites),
            (several && !http, Refusal::SeveralOverStdio),
            (
                several && self.backing == Backing::Memory,
                Refusal::SeveralInMemory,
            ),
            (
                several && self.key == Key::Ephemeral,
                Refusal::SeveralEphemeral,
            ),
            (http && asks && self.key == Key::Unset, Refusal::NoKey),
            (
                beyond && !(self.hosts && self.origins),
                Refusal::NoHostsOrOrigins,
            ),
            (beyond && !self.authentication, Refusal::NoAuthentication),
        ];
        let against: Vec<_> = reasons
            .into_iter()
            .filter_map(|(holds, refusal)| holds.then_some(refusal))
            .collect();
        if !against.is_empty() {
            return Err(against);
        }
        Ok(Gate {
            tools: match (self.writes, self.delete) {
                (false, _) => Visible::Reads,
                (true, false) => Visible::Writes,
                (true, true) => Visible::Deletes,
            },
            destructive: match (self.writes, self.assume_yes) {
                (false, _) => Destructive::Absent,
                (true, false) => Destructive::Confirmed,
                (true, true) => Destructive::Assumed,
            },
        })
    }
}
