//! Tests of `window`: nothing is left out, nothing twice, and what is gone is said to be.

use helve_proto::{
    command::v1::{Command, command::Operation},
    v1::{
        BatchStoreRequest, CallIdentity, ChangeKind, StoreItem, WatchKeys, WatchRequest,
        WatchStore, call_identity::Identity, watch_request::Target as Watched,
    },
};

use super::*;
use crate::{
    Batch, Context, Fault, View, apply,
    layout::{Space, Target},
    level,
};

const GROUP_ID: u32 = 1;

const NOW_MS: u64 = 1_800_000_000_000;

/// A request id of the time of all commands here.
fn request_id(number: u64) -> Bytes {
    let mut id = [0; 16];
    id[..6].copy_from_slice(&NOW_MS.to_be_bytes()[2..]);
    id[6] = 0x70;
    id[8..].copy_from_slice(&(number | 1 << 63).to_be_bytes());
    Bytes::copy_from_slice(&id)
}

struct Nothing;

impl View for Nothing {
    fn get(&self, _: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(None)
    }

    fn range(&self, _: &[u8], _: &[u8], _: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        Ok(Vec::new())
    }
}

/// What an entry changes that stores these keys.
fn stored(index: u64, keys: &[String]) -> Vec<RecordChange> {
    let item = |key: &String| StoreItem {
        key: key.clone(),
        ..StoreItem::default()
    };
    let operation = Operation::BatchStore(BatchStoreRequest {
        items: keys.iter().map(item).collect(),
        ..BatchStoreRequest::default()
    });
    let command = Command {
        feature_level: level::needed(&operation),
        tenant: "default".to_owned(),
        proposed_at_ms: NOW_MS,
        identity: Some(CallIdentity {
            identity: Some(Identity::RequestId(request_id(index))),
        }),
        operation: Some(operation),
        ..Command::default()
    };
    let mut batch = Batch::new(Nothing);
    let context = Context {
        group_id: GROUP_ID,
        index,
    };
    apply(&context, &command, &mut batch).unwrap();
    batch.take_changes()
}

fn push(window: &mut Window, index: u64, keys: &[&str]) {
    let keys: Vec<_> = keys.iter().copied().map(str::to_owned).collect();
    window.push(vec![(index, stored(index, &keys))], index);
}

fn keys(prefix: &str) -> Selection {
    let request = WatchRequest {
        target: Some(Watched::Keys(WatchKeys {
            owner: String::new(),
            prefix: prefix.to_owned(),
        })),
        ..WatchRequest::default()
    };
    Selection::of(GROUP_ID, "default", &request)
}

/// At most this many changes, of any size.
fn part(changes_max: usize) -> Part {
    Part {
        changes_max,
        bytes_max: usize::MAX,
    }
}

fn seen(found: &Found) -> Vec<(u64, u32, String)> {
    let changes = found.changes.iter().map(|change| {
        let info = change.info.clone().unwrap();
        (info.revision, change.ordinal, info.name)
    });
    changes.collect()
}

#[test]
fn look_finds_what_is_selected_after_its_place() {
    let mut window = Window::new(GROUP_ID, 1 << 20);
    window.begin_after(3);
    push(&mut window, 4, &["a1", "b1", "a2"]);
    push(&mut window, 6, &["a3"]);
    window.push(Vec::new(), 9);
    let found = window.look(Next::After(3), &keys("a"), part(10)).unwrap();
    let expected = [(4, 0, "a1"), (4, 2, "a2"), (6, 0, "a3")];
    assert_eq!(seen(&found), expected.map(|(i, o, n)| (i, o, n.to_owned())));
    assert_eq!((found.upto, found.next), (9, Next::After(9)));
    let found = window.look(Next::After(4), &keys("a"), part(10)).unwrap();
    assert_eq!(seen(&found), [(6, 0, "a3".to_owned())]);
    // Ahead of this node: nothing is to be seen, and nothing said of what it has not applied.
    let found = window.look(Next::After(20), &keys("a"), part(10)).unwrap();
    assert_eq!((found.changes.len(), found.upto), (0, 20));
}

#[test]
fn look_cut_short_goes_on_in_the_middle_of_an_entry() {
    let mut window = Window::new(GROUP_ID, 1 << 20);
    push(&mut window, 1, &["a", "b", "c"]);
    push(&mut window, 2, &["d"]);
    let mut next = Next::After(0);
    let mut all = Vec::new();
    let mut said = Vec::new();
    for _ in 0..3 {
        let found = window.look(next, &keys(""), part(2)).unwrap();
        all.extend(seen(&found));
        said.push(found.upto);
        next = found.next;
    }
    let names: Vec<_> = all.iter().map(|(_, _, name)| name.as_str()).collect();
    assert_eq!(names, ["a", "b", "c", "d"]);
    // The first part ends within entry 1, which so is not done.
    assert_eq!(said, [0, 2, 2]);
}

#[test]
fn look_finds_no_more_bytes_than_fit_and_one_change_at_least() {
    let mut window = Window::new(GROUP_ID, 1 << 20);
    let long = "k".repeat(1_000);
    push(&mut window, 1, &["a", "b", &long, "c"]);
    let all = window.look(Next::After(0), &keys(""), part(10)).unwrap();
    let frames = all
        .changes
        .iter()
        .map(|change| change.encoded_len() + FRAME_BYTES);
    let short = frames.clone().next().unwrap();
    assert!(frames.max().unwrap() > 3 * short);
    let (mut next, mut sizes) = (Next::After(0), Vec::new());
    while next != Next::After(1) {
        let bytes_max = 3 * short;
        let part = Part {
            changes_max: 10,
            bytes_max,
        };
        let found = window.look(next, &keys(""), part).unwrap();
        sizes.push(found.changes.len());
        next = found.next;
    }
    assert_eq!(sizes, [2, 1, 1]);
}

#[test]
fn look_passes_many_foreign_changes_in_bounded_steps() {
    let mut window = Window::new(GROUP_ID, 16 << 20);
    let foreign: Vec<_> = (0..100).map(|n| format!("x{n}")).collect();
    for index in 1..=30 {
        window.push(vec![(index, stored(index, &foreign))], index);
    }
    push(&mut window, 31, &["a"]);
    let (mut next, mut looks) = (Next::After(0), 0);
    let found = loop {
        let found = window.look(next, &keys("a"), part(10)).unwrap();
        looks += 1;
        next = found.next;
        if !found.changes.is_empty() {
            break found;
        }
        assert!(found.upto < 31, "it said that it saw all");
    };
    assert_eq!(seen(&found), [(31, 0, "a".to_owned())]);
    assert_eq!(looks, 1 + 3_000 / LOOK_MAX);
}

#[test]
fn watcher_behind_the_window_is_told_where_it_begins() {
    let one = Numbered::bytes(&stored(1, &["k1".to_owned()])[0]);
    let mut window = Window::new(GROUP_ID, 3 * one);
    for index in 1..=5 {
        push(&mut window, index, &[&format!("k{index}")]);
    }
    assert_eq!(
        window.look(Next::After(1), &keys(""), part(10)),
        Err(TooOld { floor: 2 })
    );
    let found = window.look(Next::After(2), &keys(""), part(10)).unwrap();
    assert_eq!(found.changes.len(), 3);
    assert_eq!(window.fullness().changes, 3);
    assert!(window.fullness().bytes <= 3 * one);
    // An entry that is larger than the window leaves nothing, and says so.
    push(&mut window, 6, &["a", "b", "c", "d", "e"]);
    assert_eq!(
        window.look(Next::After(5), &keys(""), part(10)),
        Err(TooOld { floor: 6 })
    );
}

#[test]
fn tenant_that_writes_much_shortens_no_other_tenants_window() {
    let change = |tenant: &str, id: usize| {
        let target = Target::handle("carts", "ann", &format!("{id:04}")).unwrap();
        let space = Space {
            group_id: GROUP_ID,
            tenant,
        };
        RecordChange::end(ChangeKind::Deleted, space.record(&target))
    };
    let one = Numbered::bytes(&change("loud", 0));
    let mut window = Window::new(GROUP_ID, 10 * one);
    let look = |window: &Window, tenant: &str, index| {
        let store = WatchStore {
            store: "carts".to_owned(),
            ..WatchStore::default()
        };
        let request = WatchRequest {
            target: Some(Watched::Store(store)),
            ..WatchRequest::default()
        };
        let selection = Selection::of(GROUP_ID, tenant, &request);
        let found = window.look(Next::After(index), &selection, part(1_000));
        found.map(|found| found.changes.len())
    };
    window.push(vec![(5, vec![change("calm", 0)])], 5);
    for index in 6..106_u64 {
        let changes = [0, 1].map(|id| change("loud", id)).to_vec();
        window.push(vec![(index, changes)], index);
    }
    assert_eq!(look(&window, "calm", 4), Ok(1), "its only change is there");
    assert_eq!(look(&window, "none", 4), Ok(0), "nothing of it has gone");
    let gone = TooOld { floor: 101 };
    assert_eq!(look(&window, "loud", 4), Err(gone));
    assert_eq!(look(&window, "loud", 101), Ok(8));
    // What takes up most goes first, of whichever tenant.
    let many = (1..100).map(|id| change("calm", id)).collect();
    window.push(vec![(106, many)], 106);
    assert_eq!(look(&window, "loud", 103), Ok(4));
    assert_eq!(look(&window, "calm", 105), Err(TooOld { floor: 106 }));
    assert!(window.fullness().bytes <= 10 * one);
    for kept in window.tenants.values() {
        assert!(kept.changes.capacity() <= 32, "room of what has gone");
    }
    window.begin_after(200);
    assert_eq!(
        window.fullness(),
        Window::new(GROUP_ID, 10 * one).fullness()
    );
    for tenant in ["calm", "none"] {
        assert_eq!(look(&window, tenant, 199), Err(TooOld { floor: 200 }));
        assert_eq!(look(&window, tenant, 200), Ok(0));
    }
}

#[test]
fn installed_snapshot_leaves_a_gap_that_is_told() {
    let mut window = Window::new(GROUP_ID, 1 << 20);
    push(&mut window, 1, &["a"]);
    window.begin_after(10);
    assert_eq!(
        window.look(Next::After(1), &keys(""), part(10)),
        Err(TooOld { floor: 10 })
    );
    push(&mut window, 11, &["b"]);
    let found = window.look(Next::After(10), &keys(""), part(10)).unwrap();
    assert_eq!(seen(&found), [(11, 0, "b".to_owned())]);
}
