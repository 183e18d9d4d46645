//! A disk for backups that fills up, and that loses power.

use std::{fs, path::Path};

use anyhow::Result;
use helve_tests::{
    fault::{
        self,
        disk::{Disk, Loss},
    },
    ledger::Ledger,
    promise,
};
use rand::{SeedableRng as _, rngs::SmallRng};

use super::{super::nodes, MINTS, back_up, mint, refusal, report, restore, verify};

/// Room for the first files of a backup, and not for all.
const SCARCE_BYTES: u64 = 4 << 10;

fn mounted(at: &Path) -> Result<Option<Disk>> {
    if fault::left_out("a disk for backups", Disk::missing()).is_some() {
        return Ok(None);
    }
    fs::create_dir(at)?;
    Ok(Some(Disk::mount(at)?))
}

#[tokio::test]
async fn backup_that_a_full_disk_or_a_power_cut_ends_is_made_by_the_same_command() -> Result<()> {
    let directory = tempfile::tempdir()?;
    let mount = directory.path().join("disk");
    let Some(mut disk) = mounted(&mount)? else {
        return Ok(());
    };
    let (to, data) = (mount.join("to"), directory.path().join("data"));
    let cluster = nodes(1).start().await?;
    let ledger = Ledger::new("carts");
    mint(&ledger, &cluster, MINTS).await?;
    disk.switch(|switches| switches.capacity_bytes = SCARCE_BYTES);
    let full = refusal(&back_up(&cluster, 1, &to).await?, 4)?;
    promise!(
        full.contains(&to.display().to_string()) && full.contains("free space"),
        "{full}"
    );
    disk.mend();
    refusal(&restore(&to, &data, &[]).await?, 2)?;
    // The power is cut in the middle: of what was not synced, a part is kept.
    let mut dice = SmallRng::seed_from_u64(7);
    disk.lose_power(Loss::Torn(&mut dice))?;
    report(&back_up(&cluster, 1, &to).await?)?;
    // A backup that was reported outlives a power cut.
    disk.lose_power(Loss::Whole)?;
    report(&verify(&to).await?)?;
    report(&restore(&to, &data, &[]).await?)?;
    Ok(())
}
