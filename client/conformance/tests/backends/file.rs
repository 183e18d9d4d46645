//! The file tool.

use helve_state::{FileTool, ToolOptions};

use super::{Configured, assert_conforms, assert_values_of_a_list_are_bounded};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_pass() {
    let directory = tempfile::tempdir().expect("there is room");
    let path = directory.path().join("states");
    assert_conforms(Configured::new("file", format!("    path: {path:?}\n"))).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn memory_passes() {
    // Each document makes a memory of its own, so the suite runs on one behind prefixes in the crate's other tests; here a
    // document without config must do.
    let config = helve_state::StateToolConfig::from_yaml("state_tool: {type: memory}");
    let tool =
        helve_state::create_state_tool(&config.expect("it is whole")).expect("it needs nothing");
    tool.store("k", &serde_json::json!(1))
        .await
        .expect("it takes it");
    assert_eq!(tool.list("").await.expect("it answers"), ["k"]);
}

#[tokio::test]
async fn values_of_a_list_are_bounded() {
    let directory = tempfile::tempdir().expect("there is room");
    let options = ToolOptions::new().deadline(std::time::Duration::from_secs(120));
    let tool = FileTool::open(directory.path(), options).expect("it is ours");
    assert_values_of_a_list_are_bounded(&tool).await;
}
