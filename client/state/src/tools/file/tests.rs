//! What the files are after a crash, an escape, and a stranger's hand.

use std::{fs, time::Duration};

use helve_client::{ErrorKind, StateTool, Ttl};
use rustix::fs::{FlockOperation, flock};
use serde_json::json;

use super::*;

fn tool(directory: &Path) -> FileTool {
    FileTool::open(directory, ToolOptions::new()).unwrap()
}

fn files(directory: &Path) -> Vec<String> {
    let mut found = Vec::new();
    let mut open = vec![directory.to_owned()];
    while let Some(inner) = open.pop() {
        for entry in fs::read_dir(inner).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let inside = path.strip_prefix(directory).unwrap();
                found.push(inside.to_str().unwrap().to_owned());
            }
        }
    }
    found.sort();
    found
}

#[cfg(unix)]
#[tokio::test]
async fn files_and_directories_are_closed_to_other_users() {
    use std::os::unix::fs::PermissionsExt as _;

    let root = tempfile::tempdir().unwrap();
    let set = |path: &Path, mode| {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    };
    set(root.path(), 0o755);
    let tool = tool(root.path());
    tool.store("flat", &json!(1)).await.unwrap();
    tool.store("deep/inner/key", &json!(1)).await.unwrap();
    // A draft of an earlier version is readable.
    fs::write(root.path().join(".helve/draft"), "").unwrap();
    set(&root.path().join(".helve/draft"), 0o644);
    tool.store("flat", &json!(2)).await.unwrap();
    let mut open = vec![root.path().to_owned()];
    let mut seen = 0;
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).unwrap() {
            let path = entry.unwrap().path();
            let mode = fs::metadata(&path).unwrap().permissions().mode() & 0o777;
            let expected = if path.is_dir() { 0o700 } else { 0o600 };
            assert_eq!(mode, expected, "{}: {mode:o}", path.display());
            seen += 1;
            if path.is_dir() {
                open.push(path);
            }
        }
    }
    assert!(seen >= 6, "{seen}");
}

#[tokio::test]
async fn no_key_leads_out_of_the_directory() {
    let above = tempfile::tempdir().unwrap();
    let inside = above.path().join("a/b");
    let tool = tool(&inside);
    for key in [
        "../../out",
        "/etc/out",
        "..",
        "a/../../../out",
        "./x",
        "~root",
        "c:\\out",
    ] {
        tool.store(key, &json!(key)).await.unwrap();
        assert_eq!(tool.retrieve(key).await.unwrap(), Some(json!(key)));
    }
    let outside: Vec<_> = files(above.path())
        .into_iter()
        .filter(|file| !file.starts_with("a/b/"))
        .collect();
    assert_eq!(outside, [""; 0]);
    tool.store("checkpoints/agent-1/latest", &json!(1))
        .await
        .unwrap();
    assert!(inside.join("checkpoints/agent-1/latest.json").exists());
    tool.delete("checkpoints/agent-1/latest").await.unwrap();
    assert!(
        !inside.join("checkpoints").exists(),
        "empty directories go with their last key"
    );
}

#[tokio::test]
async fn a_crash_leaves_the_old_value_or_the_new_one() {
    let directory = tempfile::tempdir().unwrap();
    let tool = tool(directory.path());
    tool.store("k", &json!("old")).await.unwrap();
    // Died before the renaming: half a draft lies about.
    fs::write(directory.path().join(".helve/draft"), br#"{"key":"k","rev"#).unwrap();
    assert_eq!(tool.retrieve("k").await.unwrap(), Some(json!("old")));
    assert_eq!(tool.list("").await.unwrap(), ["k"]);
    tool.store("k", &json!("new")).await.unwrap();
    assert_eq!(tool.retrieve("k").await.unwrap(), Some(json!("new")));
}

#[tokio::test]
async fn value_that_an_editor_wrote_is_read_exactly_or_refused() {
    let directory = tempfile::tempdir().unwrap();
    let tool = tool(directory.path());
    tool.store("k", &json!(1)).await.unwrap();
    let path = directory.path().join("k.json");
    let row = fs::read_to_string(&path).unwrap();
    let edit = |value: &str| {
        let edited = row.replace("\"value\":1", &format!("\"value\":{value}"));
        assert_ne!(edited, row);
        fs::write(&path, edited).unwrap();
    };
    // As a former version stored 10^20.
    edit("100000000000000000000");
    assert_eq!(tool.retrieve("k").await.unwrap(), Some(json!(1e20)));
    for value in ["18446744073709551617", r#"{"a":1,"a":2}"#] {
        edit(value);
        let error = tool.retrieve("k").await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Codec, "{value}: {error}");
        assert!(error.to_string().contains("k.json"), "{error}");
    }
}

#[tokio::test]
async fn batch_that_was_written_down_is_carried_out_by_the_next() {
    let directory = tempfile::tempdir().unwrap();
    let died = tool(directory.path());
    died.store("a", &json!("old")).await.unwrap();
    let items = ["a", "b/c"].map(|key| (key.to_owned(), json!("new")));
    died.disk
        .write_down(items.to_vec(), Lifespan::Never)
        .unwrap();
    // Died after it had carried out a part.
    let half = fs::read(directory.path().join(".helve/batch")).unwrap();
    let rows: Vec<Row> = serde_json::from_slice(&half).unwrap();
    died.disk.write(&rows[0]).unwrap();
    drop(died);
    let next = tool(directory.path());
    let keys = ["a", "b/c"].map(str::to_owned);
    assert_eq!(
        next.batch_retrieve(&keys).await.unwrap(),
        [Some(json!("new")), Some(json!("new"))]
    );
    assert!(!directory.path().join(".helve/batch").exists());
}

#[tokio::test]
async fn a_file_that_is_no_row_is_an_error_and_not_an_absent_key() {
    let directory = tempfile::tempdir().unwrap();
    let tool = tool(directory.path());
    tool.store("k", &json!(1)).await.unwrap();
    fs::copy(
        directory.path().join("k.json"),
        directory.path().join("moved.json"),
    )
    .unwrap();
    let moved = tool.list("").await.unwrap_err();
    assert_eq!(moved.kind(), ErrorKind::Codec);
    fs::remove_file(directory.path().join("moved.json")).unwrap();
    fs::write(directory.path().join("k.json"), b"{}").unwrap();
    let foreign = tool.retrieve("k").await.unwrap_err();
    assert_eq!(foreign.kind(), ErrorKind::Codec);
}

#[tokio::test]
async fn file_that_is_no_row_blocks_no_other_key() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("foreign.json"), b"{}").unwrap();
    let tool = tool(directory.path());
    let short = Ttl::After(Duration::from_millis(1));
    tool.store_record("k", &json!(1), short).await.unwrap();
    while tool.exists("k").await.unwrap() {
        tokio::task::yield_now().await;
    }
    assert_eq!(tool.sweep().await.unwrap(), 1);
    assert!(directory.path().join("foreign.json").exists());
}

/// Another process dies in the middle of one batch after the other, as soon as it has the lock.
#[tokio::test(flavor = "multi_thread", worker_threads = 1)]
async fn a_batch_is_never_seen_in_part_though_one_crash_follows_another() {
    let directory = tempfile::tempdir().unwrap();
    let options = ToolOptions::new().deadline(Duration::from_secs(60));
    let tool = FileTool::open(directory.path(), options).unwrap();
    let keys = ["a", "b"].map(str::to_owned);
    tool.exists("a").await.unwrap();
    let dying = Disk::open(directory.path().to_owned()).unwrap();
    let items = keys.clone();
    let crashes = tokio::task::spawn_blocking(move || {
        let lock = fs::File::open(dying.lock_path()).unwrap();
        for number in 0..20 {
            flock(&lock, FlockOperation::LockExclusive).unwrap();
            let items = items.clone().map(|key| (key, json!(number)));
            dying.write_down(items.to_vec(), Lifespan::Never).unwrap();
            let batch = fs::read(dying.own("batch")).unwrap();
            let rows: Vec<Row> = serde_json::from_slice(&batch).unwrap();
            dying.write(&rows[0]).unwrap();
            flock(&lock, FlockOperation::Unlock).unwrap();
            while dying.has_batch().unwrap() {
                std::thread::yield_now();
            }
        }
    });
    while !crashes.is_finished() {
        let values = tool.batch_retrieve(&keys).await.unwrap();
        assert_eq!(values[0], values[1]);
    }
    crashes.await.unwrap();
}

#[tokio::test]
async fn a_write_that_waits_for_the_lock_until_its_deadline_had_no_effect() {
    let directory = tempfile::tempdir().unwrap();
    let options = ToolOptions::new().deadline(Duration::from_millis(20));
    let tool = FileTool::open(directory.path(), options).unwrap();
    let lock = fs::File::create(directory.path().join(".helve/lock")).unwrap();
    flock(&lock, FlockOperation::LockExclusive).unwrap();
    let late = tool.store("k", &json!(1)).await.unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Unavailable, "{late}");
    flock(&lock, FlockOperation::Unlock).unwrap();
    // By one that has time to read on a busy machine.
    let reader = FileTool::open(directory.path(), ToolOptions::new()).unwrap();
    assert_eq!(reader.retrieve("k").await.unwrap(), None);
}

#[tokio::test]
async fn a_sweep_removes_what_has_expired() {
    let directory = tempfile::tempdir().unwrap();
    let tool = tool(directory.path());
    tool.store("stays", &json!(1)).await.unwrap();
    let short = Ttl::After(Duration::from_millis(1));
    tool.store_record("a/b", &json!(1), short).await.unwrap();
    while tool.exists("a/b").await.unwrap() {
        tokio::task::yield_now().await;
    }
    assert!(directory.path().join("a/b.json").exists());
    assert_eq!(tool.sweep().await.unwrap(), 1);
    assert_eq!(
        files(directory.path()),
        [".helve/lock", ".helve/revision", "stays.json"]
    );
}
