//! What the files are after a crash, an escape, and a stranger's hand.

use std::fs;

use serde_json::json;

use super::{super::Lifespan, *};

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
async fn a_batch_that_was_written_down_is_carried_out_by_whoever_comes_next() {
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
