//! How many values are said to be under which key.

use anyhow::Result;
use helve_proto::v1::MintRequest;

use super::key_status;
use crate::nodes;

const ROUNDS: u64 = 5;
/// Enough that towards their end the last read was long ago, and a node may answer before it writes
/// rows.
const MINTS: u64 = 150;

#[tokio::test]
async fn a_value_is_counted_as_soon_as_its_caller_is_answered() -> Result<()> {
    let cluster = nodes(1).start().await?;
    let caller = cluster.caller(1);
    for round in 1..=ROUNDS {
        for _ in 0..MINTS {
            let mint = MintRequest {
                store: "carts".into(),
                value: "a value".into(),
                ..MintRequest::default()
            };
            caller.mint(mint).await?;
        }
        let status = key_status(&caller).await?;
        let records: u64 = status.counts.iter().map(|count| count.records).sum();
        assert_eq!(records, round * MINTS, "{status:?}");
    }
    Ok(())
}
