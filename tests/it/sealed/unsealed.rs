//! What is left of sealing once it was ended.

use std::fs;

use anyhow::Result;
use helve_proto::v1::{Unit, set_data_key_request::Target};
use helve_tests::wait::{Look, until};

use super::{Keys, all_under, callers, key_status, read_everywhere, set_key, write_everywhere};

#[tokio::test]
async fn once_sealing_was_ended_its_key_may_go_and_a_new_one_may_come() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup().start().await?;
    let id = write_everywhere(&callers(&cluster)).await?;
    let sealed = key_status(&cluster.caller(1)).await?.key_id;
    all_under(&cluster, &sealed).await?;
    set_key(&cluster.caller(1), Target::Plain(Unit {})).await?;
    all_under(&cluster, "").await?;
    let old = key_status(&cluster.caller(1)).await?.held;
    keys.add("2.key", 2)?;
    fs::remove_file(keys.0.path().join("1.key"))?;
    for seat in cluster.seats() {
        let caller = cluster.caller(seat);
        until(
            "a running node to let the old key go",
            async || match key_status(&caller).await {
                Ok(status) if status.held.len() == 1 && status.held != old => Look::Done(()),
                other => Look::NotYet(format!("{other:?}")),
            },
        )
        .await?;
    }
    for seat in cluster.seats() {
        cluster.kill(seat)?;
    }
    cluster.revive()?;
    cluster.all_ready().await?;
    // The new leader looks through all records before it says that nothing is left to do.
    all_under(&cluster, "").await?;
    read_everywhere(&callers(&cluster), &id).await?;
    let sealed = set_key(&cluster.caller(2), Target::Newest(Unit {})).await?;
    all_under(&cluster, &sealed.key_id).await?;
    read_everywhere(&callers(&cluster), &id).await
}
