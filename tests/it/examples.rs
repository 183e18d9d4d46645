//! The client's examples run on a real cluster, and say what they should.

use anyhow::{Result, anyhow};
use helve_tests::cluster::Cluster;

use super::nodes;

#[path = "../../client/examples/compare_and_swap.rs"]
#[expect(dead_code, reason = "the program's `main` is not called here")]
mod compare_and_swap;
#[path = "../../client/examples/handle.rs"]
#[expect(dead_code, reason = "the program's `main` is not called here")]
mod handle;
#[path = "../../client/examples/request_state.rs"]
#[expect(dead_code, reason = "the program's `main` is not called here")]
mod request_state;
#[path = "../../client/examples/state_tool.rs"]
#[expect(dead_code, reason = "the program's `main` is not called here")]
mod state_tool;
#[path = "../../client/examples/transaction.rs"]
#[expect(dead_code, reason = "the program's `main` is not called here")]
mod transaction;

/// What an example says when it runs on this cluster.
macro_rules! said {
    ($example:ident, $cluster:expr) => {{
        let mut out = Vec::new();
        let run = $example::run(&$cluster.endpoints(), &mut out).await;
        run.map_err(|error| anyhow!("{}: {error}", stringify!($example)))?;
        String::from_utf8(out)?
    }};
}

async fn cluster() -> Result<Cluster> {
    nodes(1).start().await
}

#[tokio::test]
async fn example_handle_takes_a_value_once() -> Result<()> {
    let said = said!(handle, cluster().await?);
    let lines: Vec<&str> = said.lines().collect();
    let [minted, rest @ ..] = &lines[..] else {
        panic!("{said}");
    };
    assert!(minted.starts_with("minted cart-"), "{said}");
    assert_eq!(
        rest,
        [
            r#"it holds Some(["tea"])"#,
            r#"took ["tea"]"#,
            "a second take finds it Taken",
        ]
    );
    Ok(())
}

#[tokio::test]
async fn example_compare_and_swap_loses_no_price() -> Result<()> {
    let said = said!(compare_and_swap, cluster().await?);
    assert_eq!(
        said,
        "read 100\nanother caller stored 120\n\
         storing 110 was refused: the revision is another one\nstored 130\n"
    );
    Ok(())
}

#[tokio::test]
async fn example_transaction_checks_out_once_under_a_guard() -> Result<()> {
    let said = said!(transaction, cluster().await?);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(
        lines,
        [
            "holding the guard of examples/checkout",
            r#"checked out ["tea"], and released the guard"#,
            "the order is of this cart: true",
            r#"without the guard nothing is written: Some(["milk"]) is left"#,
        ]
    );
    Ok(())
}

#[tokio::test]
async fn example_state_tool_does_the_same_on_files_and_on_a_cluster() -> Result<()> {
    let said = said!(state_tool, cluster().await?);
    for name in ["files", "cluster"] {
        for line in ["3 steps", r#"the latest version is {"plan":"second"}"#] {
            assert!(said.contains(&format!("{name}: {line}\n")), "{said}");
        }
    }
    assert!(
        said.contains("files: durable false, exactly once true\n"),
        "{said}"
    );
    assert!(
        said.contains("cluster: durable true, exactly once true\n"),
        "{said}"
    );
    Ok(())
}

#[tokio::test]
async fn example_request_state_opens_once_on_another_replica() -> Result<()> {
    let said = said!(request_state, cluster().await?);
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[0].starts_with("the first replica sealed "), "{said}");
    assert_eq!(
        lines[1..],
        [
            "another user is refused: sealed for another subject",
            "the second replica opened it: confirm order 17",
            "a second time it is refused: redeemed before",
        ]
    );
    Ok(())
}
