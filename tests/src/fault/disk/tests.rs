//! The mounted disk, through the system calls that programs use.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write as _},
    os::unix::fs::{FileExt as _, OpenOptionsExt as _},
    path::PathBuf,
    process::Command,
    time::Duration,
};

use rand::SeedableRng as _;
use tempfile::TempDir;

use super::*;

/// A disk at a directory of its own. The disk is dropped first.
struct Mounted {
    disk: Disk,
    directory: TempDir,
}

impl Mounted {
    /// `None` where no disk can be mounted, unless every fault is required.
    fn new() -> Option<Self> {
        if crate::fault::left_out("a disk of our own", Disk::missing()).is_some() {
            return None;
        }
        let directory = tempfile::tempdir().unwrap();
        let disk = Disk::mount(directory.path()).unwrap();
        Some(Self { disk, directory })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn sync_directory(&self) {
        File::open(self.directory.path())
            .unwrap()
            .sync_all()
            .unwrap();
    }

    fn lose_power(&mut self) -> Lost {
        self.disk.lose_power(Loss::Whole).unwrap()
    }
}

fn appended(path: &Path, bytes: &[u8]) -> File {
    let file = OpenOptions::new().create(true).append(true).open(path);
    let mut file = file.unwrap();
    file.write_all(bytes).unwrap();
    file
}

fn os_error<T: std::fmt::Debug>(result: io::Result<T>) -> Option<i32> {
    result.unwrap_err().raw_os_error()
}

#[test]
fn a_write_is_lost_without_a_sync_and_kept_with_one() {
    let Some(mut mounted) = Mounted::new() else {
        return;
    };
    for (name, synced) in [("lost", false), ("kept", true), ("kept-data", true)] {
        let file = appended(&mounted.path(name), b"hello");
        match name {
            "kept" => file.sync_all().unwrap(),
            "kept-data" => file.sync_data().unwrap(),
            _ => assert!(!synced),
        }
        appended(&mounted.path(name), b" world");
        assert_eq!(fs::read(mounted.path(name)).unwrap(), b"hello world");
    }
    let lost = mounted.lose_power();
    assert!(lost.writes >= 3, "{lost:?}");
    // Its name came before names that were committed.
    assert_eq!(fs::read(mounted.path("lost")).unwrap(), b"");
    assert_eq!(fs::read(mounted.path("kept")).unwrap(), b"hello");
    assert_eq!(fs::read(mounted.path("kept-data")).unwrap(), b"hello");
}

#[test]
fn a_synchronous_write_is_kept() {
    let Some(mut mounted) = Mounted::new() else {
        return;
    };
    let mut options = OpenOptions::new();
    let options = options.create(true).write(true);
    let o_dsync = i32::try_from(rustix::fs::OFlags::DSYNC.bits()).unwrap();
    let mut file = options
        .custom_flags(o_dsync)
        .open(mounted.path("f"))
        .unwrap();
    file.write_all(b"hello").unwrap();
    drop(file);
    mounted.lose_power();
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"hello");
}

#[test]
fn a_rename_is_lost_without_a_sync_of_its_directory() {
    let Some(mut mounted) = Mounted::new() else {
        return;
    };
    for name in ["old", "new"] {
        appended(&mounted.path(name), name.as_bytes())
            .sync_all()
            .unwrap();
    }
    fs::rename(mounted.path("new"), mounted.path("old")).unwrap();
    assert_eq!(fs::read(mounted.path("old")).unwrap(), b"new");
    let lost = mounted.lose_power();
    assert_eq!(
        lost,
        Lost {
            writes: 0,
            names: 1
        }
    );
    assert_eq!(fs::read(mounted.path("old")).unwrap(), b"old");
    fs::rename(mounted.path("new"), mounted.path("old")).unwrap();
    mounted.sync_directory();
    assert_eq!(mounted.lose_power(), Lost::default());
    assert_eq!(fs::read(mounted.path("old")).unwrap(), b"new");
    assert!(!mounted.path("new").exists());
}

#[test]
fn a_torn_loss_keeps_a_prefix_of_what_was_appended() {
    let Some(mut mounted) = Mounted::new() else {
        return;
    };
    let path = mounted.path("log");
    appended(&path, b"").sync_all().unwrap();
    let mut lengths = std::collections::BTreeSet::new();
    for seed in 0..20 {
        let before = fs::read(&path).unwrap();
        appended(&path, b"aaaa");
        appended(&path, b"bbbb");
        let all = fs::read(&path).unwrap();
        let mut rng = SmallRng::seed_from_u64(seed);
        mounted.disk.lose_power(Loss::Torn(&mut rng)).unwrap();
        let after = fs::read(&path).unwrap();
        assert!(all.starts_with(&after) && after.starts_with(&before));
        lengths.insert(after.len() - before.len());
    }
    assert!(lengths.len() > 2, "{lengths:?}");
}

#[test]
fn killing_a_process_loses_nothing_that_it_wrote() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let path = mounted.path("f");
    let script = format!("printf hello > '{}'; kill -9 $$", path.display());
    let status = Command::new("sh").args(["-c", &script]).status().unwrap();
    assert!(!status.success());
    assert_eq!(fs::read(path).unwrap(), b"hello");
}

#[test]
fn a_program_on_it_is_mapped_into_memory_and_runs() {
    let Some(mut mounted) = Mounted::new() else {
        return;
    };
    let program = mounted.path("true");
    fs::copy("/bin/true", &program).unwrap();
    File::open(&program).unwrap().sync_all().unwrap();
    assert!(Command::new(&program).status().unwrap().success());
    mounted.lose_power();
    assert!(Command::new(&program).status().unwrap().success());
}

#[test]
fn a_full_disk_refuses_writes_and_new_files_until_there_is_room() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    mounted
        .disk
        .switch(|switches| switches.capacity_bytes = 8192);
    let file = appended(&mounted.path("f"), &[1; 8192]);
    const ENOSPC: Option<i32> = Some(28);
    assert_eq!(os_error((&file).write_all(b"1")), ENOSPC);
    assert_eq!(os_error(File::create(mounted.path("g"))), ENOSPC);
    let inside = OpenOptions::new().write(true).open(mounted.path("f"));
    inside.unwrap().write_all_at(&[2; 4096], 0).unwrap();
    let free = rustix::fs::statvfs(mounted.directory.path()).unwrap();
    assert_eq!(free.f_bavail, 0);
    assert_eq!(mounted.disk.counts().full, 2);
    mounted.disk.mend();
    (&file).write_all(b"1").unwrap();
    assert_eq!(mounted.disk.used_bytes(), 8193);
}

#[test]
fn a_sync_fails_once_or_for_ever_and_what_it_should_have_written_is_gone() {
    let Some(mut mounted) = Mounted::new() else {
        return;
    };
    const EIO: Option<i32> = Some(5);
    let file = appended(&mounted.path("f"), b"hello");
    file.sync_all().unwrap();
    mounted
        .disk
        .switch(|switches| switches.sync = Sync::FailsOnce);
    (&file).write_all(b"lost").unwrap();
    assert_eq!(os_error(file.sync_all()), EIO);
    file.sync_all().unwrap();
    mounted.disk.switch(|switches| switches.sync = Sync::Fails);
    assert_eq!(os_error(file.sync_data()), EIO);
    assert_eq!(os_error(file.sync_data()), EIO);
    assert_eq!(mounted.disk.counts().failed_syncs, 3);
    drop(file);
    mounted.disk.mend();
    mounted.lose_power();
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"hello\0\0\0\0");
}

#[test]
fn a_read_only_disk_is_read_and_not_written() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let file = appended(&mounted.path("f"), b"hello");
    mounted
        .disk
        .switch(|switches| switches.access = Access::ReadOnly);
    const EROFS: Option<i32> = Some(30);
    assert_eq!(os_error((&file).write_all(b"1")), EROFS);
    assert_eq!(os_error(fs::remove_file(mounted.path("f"))), EROFS);
    assert_eq!(fs::read(mounted.path("f")).unwrap(), b"hello");
    assert_eq!(mounted.disk.counts().read_only, 2);
}

#[test]
fn a_slow_disk_counts_what_it_delays() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let file = appended(&mounted.path("f"), b"hello");
    mounted
        .disk
        .switch(|switches| switches.sync_delay = Duration::from_millis(20));
    file.sync_all().unwrap();
    file.sync_all().unwrap();
    assert_eq!(mounted.disk.counts().delayed, 2);
}

#[test]
fn many_files_are_listed_and_removed() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let directory = mounted.path("d");
    fs::create_dir(&directory).unwrap();
    for number in 0..500 {
        fs::write(directory.join(format!("{number}")), b"1").unwrap();
    }
    assert_eq!(fs::read_dir(&directory).unwrap().count(), 500);
    fs::hard_link(directory.join("7"), mounted.path("seven")).unwrap();
    fs::remove_dir_all(&directory).unwrap();
    assert_eq!(fs::read(mounted.path("seven")).unwrap(), b"1");
    assert_eq!(mounted.disk.used_bytes(), 1);
}

#[test]
fn a_dropped_disk_is_unmounted() {
    let Some(mounted) = Mounted::new() else {
        return;
    };
    let path = mounted.directory.path().to_owned();
    let is_mounted = || {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        mounts.contains(&format!(" {} ", path.display()))
    };
    assert!(is_mounted());
    drop(mounted.disk);
    assert!(!is_mounted());
    drop(mounted.directory);
}
