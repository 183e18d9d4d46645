//! Names of megabytes where a few bytes are expected, in the hope that the node echoes them.

use futures::{StreamExt as _, stream};
use tonic::{Code, Status, transport::Channel};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

/// How calls with long names ended.
#[derive(Debug, Default)]
pub struct Echoes {
    /// The codes, without repetition.
    pub codes: Vec<Code>,
    /// Bytes of the longest message.
    pub longest: usize,
}

impl Echoes {
    /// Adds how one call ended.
    pub fn add(&mut self, ended: &Result<(), Status>) {
        let code = ended.as_ref().err().map_or(Code::Ok, Status::code);
        let message = ended.as_ref().err().map_or("", Status::message);
        if !self.codes.contains(&code) {
            self.codes.push(code);
        }
        self.longest = self.longest.max(message.len());
    }
}

/// Asks for the health of a service whose name has this many bytes, in as many calls, all at once.
pub async fn health(channel: Channel, bytes: usize, calls: usize) -> Echoes {
    let asked = stream::iter(0..calls).map(|_| {
        let mut client = HealthClient::new(channel.clone());
        let service = "n".repeat(bytes);
        async move { client.check(HealthCheckRequest { service }).await.map(drop) }
    });
    let mut echoes = Echoes::default();
    let mut asked = asked.buffer_unordered(calls);
    while let Some(ended) = asked.next().await {
        echoes.add(&ended);
    }
    echoes
}
