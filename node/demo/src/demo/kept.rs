//! What the nodes keep, beside what the clients were told: values that are sealed, and audit logs that are whole.

use std::{fs, slice};

use anyhow::Context as _;
use helve_command::cluster::{ClusterArgs, request};
use helve_node::audit::{self, Head};
use helve_proto::v1::{DataKeyStatusRequest, cluster_service_client::ClusterServiceClient};

use super::nodes::{Node, Nodes};

/// What was found.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Values of all nodes, those that are kept for retries included.
    pub(super) values: u64,
    /// How many of them are sealed.
    pub(super) values_sealed: u64,
    /// Lines of the nodes' audit logs that follow each from the one before.
    pub(super) audit_lines: u64,
    /// Where an audit log is not what was written.
    pub(super) audit_broken: Vec<String>,
}

impl Kept {
    /// Asks each node alone, as an operator, and reads its audit log.
    ///
    /// # Errors
    /// If a node does not answer, or its log cannot be read.
    pub(super) async fn by(nodes: &Nodes, operator: &ClusterArgs) -> anyhow::Result<Self> {
        let mut kept = Self::default();
        for node in &nodes.0 {
            kept.count(node, operator)
                .await
                .with_context(|| format!("cannot see what {} keeps", node.process.name()))?;
            kept.verify(node)?;
        }
        Ok(kept)
    }

    async fn count(&mut self, node: &Node, operator: &ClusterArgs) -> anyhow::Result<()> {
        let channel = operator.channel(&node.client.to_string())?;
        let asked = request(DataKeyStatusRequest {}, operator.timeout);
        let reply = ClusterServiceClient::new(channel)
            .data_key_status(asked)
            .await?
            .into_inner();
        anyhow::ensure!(!reply.partial, "not all values were counted in time");
        for count in reply.counts {
            let values = count.records + count.kept;
            self.values += values;
            if !count.key_id.is_empty() {
                self.values_sealed += values;
            }
        }
        Ok(())
    }

    /// As `helve audit verify` does.
    fn verify(&mut self, node: &Node) -> anyhow::Result<()> {
        // Before the log itself, which the node goes on writing.
        let head = fs::read_to_string(node.data_dir.join("audit-head"))?;
        let head: Head = head.trim_end().parse().map_err(anyhow::Error::msg)?;
        let report = audit::verify::verify(slice::from_ref(&node.audit_log), None, Some(head))?;
        let lines = report.files.iter().map(|file| file.lines);
        self.audit_lines += lines.sum::<u64>();
        if let Some(broken) = report.broken {
            self.audit_broken.push(format!(
                "{}, line {}: {}",
                broken.file.display(),
                broken.line,
                broken.why
            ));
        }
        Ok(())
    }
}
