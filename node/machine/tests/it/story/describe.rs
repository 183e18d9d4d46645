//! What comes of a call, in the words of the stories.

use bytes::Bytes;
use helve_proto::{
    command::v1::{Outcome, Refusal, outcome},
    v1::{ClaimReply, HandleStatus, RecordInfo, TransactReply, WriteStatus, transact_reply},
};

use crate::host::START_MS;

pub(super) fn text(value: &Bytes) -> String {
    String::from_utf8(value.to_vec()).unwrap()
}

pub(super) fn handle_status(status: HandleStatus) -> String {
    status
        .as_str_name()
        .trim_start_matches("HANDLE_STATUS_")
        .to_lowercase()
}

fn write_status(status: WriteStatus) -> String {
    status
        .as_str_name()
        .trim_start_matches("WRITE_STATUS_")
        .to_lowercase()
}

/// Times are told from the story's start.
pub(super) fn describe_info(info: &RecordInfo) -> String {
    let since = |ms: u64| format!("{}s", (ms - START_MS) / 1000);
    let mut words = vec![
        format!("revision={}", info.revision),
        format!("created={}", since(info.created_at_ms)),
        format!("updated={}", since(info.updated_at_ms)),
    ];
    words.extend(
        info.expires_at_ms
            .map(|ms| format!("expires={}", since(ms))),
    );
    words.extend(info.idle_ttl_ms.map(|ms| format!("idle={}s", ms / 1000)));
    words.extend(
        info.idle_deadline_ms
            .map(|ms| format!("idles_until={}", since(ms))),
    );
    words.push(format!("bytes={}", info.value_bytes));
    words.join(" ")
}

pub(super) fn describe(outcome: &Outcome) -> String {
    use outcome::Outcome as Kind;

    match outcome.outcome.as_ref().unwrap() {
        Kind::Refused(refused) => {
            let reason = refused
                .refusal()
                .as_str_name()
                .trim_start_matches("REFUSAL_")
                .to_lowercase();
            match refused.refusal() {
                Refusal::Conflict => {
                    format!("{reason} {} at {}", refused.revision, refused.operation)
                }
                _ => reason,
            }
        }
        Kind::Mint(_) => "minted".to_owned(),
        Kind::Put(reply) => write_status(reply.status()),
        Kind::Take(reply) => format!("{} {}", handle_status(reply.status()), text(&reply.value))
            .trim()
            .to_owned(),
        Kind::Claim(reply) => describe_claim(reply),
        Kind::Renew(reply) => handle_status(reply.status()),
        Kind::Delete(reply) => handle_status(reply.status()),
        Kind::Store(reply) => write_status(reply.status()),
        Kind::DeleteKey(reply) => if reply.existed { "existed" } else { "absent" }.to_owned(),
        Kind::BatchStore(reply) => format!("stored {}", reply.infos.len()),
        Kind::Transact(reply) => describe_transact(reply),
        Kind::OpenSession(_) => "open".to_owned(),
        Kind::RaiseFeatureLevel(raised) => format!("level {}", raised.level),
        Kind::SetTenant(_) => "set".to_owned(),
        Kind::Probe(probed) => format!("probed {}", probed.count),
        other => format!("{other:?}"),
    }
}

/// The status, what it brings, until when it holds, and what is known of the leases before.
fn describe_claim(reply: &ClaimReply) -> String {
    let status = reply.status().as_str_name();
    let mut words = vec![status.trim_start_matches("CLAIM_STATUS_").to_lowercase()];
    words.extend((reply.fence > 0).then(|| format!("fence={}", reply.fence)));
    words.extend((!reply.value.is_empty()).then(|| text(&reply.value)));
    let info = reply.info.as_ref();
    let until = info.and_then(|info| info.expires_at_ms);
    words.extend(until.map(|ms| format!("until={}s", (ms - START_MS) / 1000)));
    words.extend(reply.earlier.map(|earlier| {
        let end = earlier.end().as_str_name();
        let end = end.trim_start_matches("LEASE_END_").to_lowercase();
        let ended_s = (earlier.ended_at_ms - START_MS) / 1000;
        format!("earlier={end}:{}@{ended_s}s", earlier.fence)
    }));
    words.join(" ")
}

fn describe_transact(reply: &TransactReply) -> String {
    match reply.result.as_ref().unwrap() {
        transact_reply::Result::Committed(committed) => {
            let values = committed
                .replies
                .iter()
                .map(|reply| text(&reply.value))
                .filter(|value| !value.is_empty());
            format!("committed {}", values.collect::<Vec<_>>().join(" "))
                .trim()
                .to_owned()
        }
        transact_reply::Result::Aborted(aborted) => {
            format!(
                "aborted {} at {}",
                handle_status(aborted.status()),
                aborted.operation
            )
        }
    }
}
