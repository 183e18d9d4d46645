//! Whether all answers are of one cluster.

use std::collections::{BTreeMap, BTreeSet};

use super::answer::Answer;

/// Returns what to say of endpoints that are of several clusters: which endpoint is of which. `None` if they are of one. Nodes without a
/// cluster count for none.
#[must_use]
pub fn mixed<S>(answers: &[Answer<S>]) -> Option<String> {
    let mut clusters: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for answer in answers {
        if let Ok(reply) = &answer.reply
            && !reply.cluster_id.is_empty()
        {
            let endpoints = clusters.entry(reply.cluster_id.as_str()).or_default();
            endpoints.insert(answer.endpoint.as_str());
        }
    }
    if clusters.len() < 2 {
        return None;
    }
    let mut each = Vec::new();
    for (id, endpoints) in &clusters {
        let endpoints: Vec<&str> = endpoints.iter().copied().collect();
        each.push(format!("{id} at {}", endpoints.join(", ")));
    }
    Some(format!(
        "--endpoints are of several clusters: {}; give those of one",
        each.join("; ")
    ))
}
