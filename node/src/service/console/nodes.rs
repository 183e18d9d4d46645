//! The cluster, as this node and the members that it asks say: the report of `helve status`.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use helve_proto::{
    peer::v1::PeerStatusRequest,
    v1::{Member, StatusReply},
};
use tokio::time::{Instant, timeout};
use tonic::Code;

use super::Console;
use crate::{
    cluster_report::{Answer, Remedy, Report, Silence},
    limits::{CONSOLE_NODES_PAUSE, CONSOLE_PEER_TIME_MAX},
};

/// The newest report, as JSON.
pub(super) struct Newest {
    text: Bytes,
    made: Instant,
}

/// Why a member says nothing of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Silent {
    /// It does not answer, or not in time.
    NoAnswer { address: String, why: String },
    /// Its version knows no such request.
    Older { address: String },
}

impl Silence for Silent {
    fn cause(&self) -> String {
        match self {
            Self::NoAnswer { .. } => "no_answer",
            Self::Older { .. } => "older_version",
        }
        .to_owned()
    }

    fn problem(&self) -> String {
        match self {
            Self::NoAnswer { address, why } => {
                format!("{address} does not answer the node whose console this is: {why}")
            }
            Self::Older { address } => {
                format!("{address} answers, and its version does not tell other nodes its status")
            }
        }
    }

    fn remedy(&self) -> Remedy {
        match self {
            Self::NoAnswer { .. } => Remedy::Node,
            Self::Older { address } => Remedy::Command(format!(
                "run `helve status --endpoints {address}`, or start a version that tells other nodes its status there"
            )),
        }
    }

    fn may_pass(&self) -> bool {
        matches!(self, Self::NoAnswer { .. })
    }
}

impl Console {
    /// The report, as `helve status --output json` prints it. Callers share one, which is at most [`CONSOLE_NODES_PAUSE`] old: so the
    /// members are not asked more often, however many pages are open.
    pub(super) async fn report(&self) -> Bytes {
        let mut newest = self.newest.lock().await;
        if let Some(newest) = newest.as_ref()
            && newest.made.elapsed() < CONSOLE_NODES_PAUSE
        {
            return newest.text.clone();
        }
        let report = Report::new(&self.answers().await);
        // All of it is text and numbers.
        let text = serde_json::to_vec(&report).expect("a report is JSON");
        let text = Bytes::from(text);
        *newest = Some(Newest {
            text: text.clone(),
            made: Instant::now(),
        });
        text
    }

    /// What this node and all other members say.
    async fn answers(&self) -> Vec<Answer<Silent>> {
        let own = self.services.status();
        let own_id = own.node.as_ref().map_or(0, |node| node.id);
        let others = own.members.iter().filter(|member| member.id != own_id);
        let others = join_all(others.map(|member| self.answer(member))).await;
        let endpoint = own.node.as_ref().map(|node| node.client_address.clone());
        let own = Answer {
            endpoint: endpoint.unwrap_or_default(),
            reply: Ok(own),
        };
        [own].into_iter().chain(others).collect()
    }

    async fn answer(&self, member: &Member) -> Answer<Silent> {
        let endpoint = member.client_address.clone();
        let asked = self.ask(member.id, CONSOLE_PEER_TIME_MAX).await;
        let reply = asked.map_err(|why| why.of(endpoint.clone()));
        Answer { endpoint, reply }
    }

    async fn ask(&self, id: u64, limit: Duration) -> Result<StatusReply, Why> {
        let (mut client, header) = self.links.client(id).ok_or(Why::NoAddress)?;
        let request = PeerStatusRequest {
            header: Some(header),
        };
        match timeout(limit, client.status(request)).await {
            Ok(Ok(reply)) => reply.into_inner().status.ok_or(Why::Older),
            Ok(Err(status)) if status.code() == Code::Unimplemented => Err(Why::Older),
            Ok(Err(status)) => Err(Why::Told(status.message().to_owned())),
            Err(_) => Err(Why::Late),
        }
    }
}

/// What came of a request.
enum Why {
    NoAddress,
    Older,
    Told(String),
    Late,
}

impl Why {
    fn of(self, address: String) -> Silent {
        let why = match self {
            Self::Older => return Silent::Older { address },
            Self::NoAddress => "its peer address is not known".to_owned(),
            Self::Told(why) => why,
            Self::Late => format!("no answer within {} s", CONSOLE_PEER_TIME_MAX.as_secs()),
        };
        Silent::NoAnswer { address, why }
    }
}

#[cfg(test)]
mod tests {
    use helve_proto::v1::{NodeStatus, Role};

    use super::*;

    fn report(other: Result<StatusReply, Silent>) -> Report {
        let member = |id: u64| Member {
            id,
            seat: id,
            voter: id < 3,
            client_address: format!("127.0.0.1:740{id}"),
            ..Member::default()
        };
        let node = NodeStatus {
            id: 1,
            seat: 1,
            role: Role::Leader.into(),
            leader_id: 1,
            ready: true,
            client_address: member(1).client_address,
            ..NodeStatus::default()
        };
        let own = StatusReply {
            node: Some(node),
            members: vec![member(1), member(2)],
            ..StatusReply::default()
        };
        let answer = |id: u64, reply| Answer {
            endpoint: member(id).client_address,
            reply,
        };
        Report::new(&[answer(1, Ok(own)), answer(2, other)])
    }

    #[test]
    fn silent_member_is_to_be_started_and_older_one_to_be_asked() {
        let address = || "127.0.0.1:7402".to_owned();
        let silent = report(Err(Why::Late.of(address())));
        assert_eq!(silent.nodes[1].cause.as_deref(), Some("no_answer"));
        assert!(
            silent.next[0].contains("helve serve --id 2"),
            "{:?}",
            silent.next
        );
        let older = report(Err(Why::Older.of(address())));
        assert_eq!(older.nodes[1].cause.as_deref(), Some("older_version"));
        let next = older.next.join("\n");
        assert!(
            next.contains("helve status --endpoints 127.0.0.1:7402"),
            "{next}"
        );
        assert!(!next.contains("--id 2"), "{next}");
    }
}
