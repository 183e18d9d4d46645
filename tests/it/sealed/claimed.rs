//! Notes and results of claims, sealed at rest.

use anyhow::{Result, ensure};
use helve_proto::v1::ClaimStatus;

use super::{Keys, MARK, all_under, on_disk, rotate};
use crate::claims::{begin, claim, finish, known};

#[tokio::test]
async fn notes_and_results_of_claims_are_sealed_and_outlive_their_key() -> Result<()> {
    let keys = Keys::new()?;
    let mut cluster = keys.setup().start().await?;
    let caller = cluster.caller(1);
    known(&caller).await?;
    let held = caller.claim(claim("held", begin(MARK))).await?;
    let silent = caller.claim(claim("silent", begin(b""))).await?;
    let paid = caller.claim(claim("paid", begin(MARK))).await?;
    for fresh in [&held, &silent, &paid] {
        let info = fresh.info.as_ref();
        ensure!(
            fresh.status() == ClaimStatus::Fresh && info.is_some_and(|i| i.sealed_under.is_empty()),
            "{fresh:?}"
        );
    }
    let finished = claim("paid", finish(paid.fence, MARK));
    let kept = caller.claim(finished.clone()).await?;
    ensure!(kept.status() == ClaimStatus::Finished, "{kept:?}");
    let key_id = rotate(&cluster, &keys, "2.key", 2).await?;
    all_under(&cluster, &key_id).await?;
    for seat in cluster.seats() {
        let caller = cluster.caller(seat);
        for (id, status, value) in [
            ("held", ClaimStatus::InFlight, MARK),
            ("silent", ClaimStatus::InFlight, &b""[..]),
            ("paid", ClaimStatus::Done, MARK),
        ] {
            let found = caller.claim(claim(id, begin(b""))).await?;
            ensure!(
                found.status() == status && found.value == value,
                "node {seat}: {id}: {found:?}"
            );
        }
        // The same call, though its value was sealed under another key.
        let again = caller.claim(finished.clone()).await?;
        ensure!(again.info == kept.info, "node {seat}: {again:?}");
    }
    let late = caller
        .claim(claim("silent", finish(silent.fence, MARK)))
        .await?;
    ensure!(late.status() == ClaimStatus::Finished, "{late:?}");
    let found = on_disk(&mut cluster).await?;
    ensure!(found.is_empty(), "{found:?}");
    Ok(())
}
