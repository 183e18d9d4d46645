//! Pages of lists from a node of an older version, which knows no pages: it lists all, and the client stops it.

mod scripted;

use std::time::Duration;

use helve_client::{ClusterBuilder, HandleOptions, HandleStore, Handles};
use scripted::{LISTED_HANDLES, LISTED_PARTS, Node, listed_id};

const PAGE: usize = 10;

/// Longer than any test takes.
const PATIENT: Duration = Duration::from_secs(600);

async fn store() -> (Node, Handles<u32>) {
    let node = Node::start([]).await;
    let builder = ClusterBuilder::new([node.address.clone()]);
    let client = builder
        .deadline(PATIENT)
        .build()
        .expect("it has an address");
    (node, client.handles(HandleOptions::shared("s")))
}

fn ids(first: usize) -> Vec<String> {
    (first..first + PAGE).map(listed_id).collect()
}

#[tokio::test]
async fn page_of_an_old_node_is_cut_and_its_stream_ended() {
    let (node, store) = store().await;
    let page = store.list_page(None, PAGE).await.unwrap();
    let names: Vec<_> = page.items.into_iter().map(|info| info.name).collect();
    assert_eq!(names, ids(0));
    assert_eq!(page.next, Some(listed_id(PAGE - 1)));
    assert_eq!(page.revision, 7);
    let before = node.listed_parts();
    let values = store.list_values_page(None, PAGE).await.unwrap();
    assert_eq!(values.items.len(), PAGE);
    // What the transport has room for, and no more.
    let made = node.listed_parts() - before;
    assert!(made < LISTED_PARTS / 2, "{made} parts were made");
    let first = store.list_first_values(PAGE).await.unwrap();
    assert_eq!(first.items.len(), PAGE);
}

#[tokio::test]
async fn page_of_an_old_node_begins_behind_its_name() {
    let (_node, store) = store().await;
    // In the middle of a part, several parts on.
    let behind = 7 * LISTED_HANDLES + 41;
    let after = listed_id(behind);
    let page = store.list_page(Some(&after), PAGE).await.unwrap();
    let names: Vec<_> = page.items.into_iter().map(|info| info.name).collect();
    assert_eq!(names, ids(behind + 1));
    let last = LISTED_PARTS * LISTED_HANDLES - 3;
    let page = store.list_page(Some(&listed_id(last)), PAGE).await.unwrap();
    assert_eq!((page.items.len(), page.next), (2, None));
}
