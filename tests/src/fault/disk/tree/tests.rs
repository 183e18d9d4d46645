//! What a power loss leaves, name by name.

use rand::{SeedableRng as _, rngs::SmallRng};

use super::*;

fn file(tree: &mut Tree, name: &str, bytes: &[u8]) -> Ino {
    let node = Node::File(Content::default());
    let ino = tree.create(ROOT, name.as_ref(), node, 0o644).unwrap();
    tree.write(ino, 0, bytes).unwrap();
    ino
}

/// The files of a directory with what they hold.
fn files(tree: &Tree, directory: Ino) -> BTreeMap<String, Vec<u8>> {
    let entries = tree.entries(directory).unwrap().iter();
    entries
        .map(|(name, &ino)| {
            let bytes = tree.content(ino).unwrap().read(0, usize::MAX).to_vec();
            (name.to_string_lossy().into_owned(), bytes)
        })
        .collect()
}

fn expect(tree: &Tree, expected: &[(&str, &[u8])]) {
    let expected = expected
        .iter()
        .map(|(name, bytes)| ((*name).to_owned(), bytes.to_vec()));
    assert_eq!(files(tree, ROOT), expected.collect());
    let used: usize = files(tree, ROOT).values().map(Vec::len).sum();
    assert_eq!(tree.used_bytes(), used as u64);
}

#[test]
fn a_new_file_is_lost_unless_it_was_synced() {
    let mut tree = Tree::new();
    let kept = file(&mut tree, "kept", b"1");
    tree.sync(kept).unwrap();
    file(&mut tree, "lost", b"2");
    let lost = tree.lose_power(Keep::Nothing);
    assert_eq!(
        lost,
        Lost {
            writes: 0,
            names: 1
        }
    );
    expect(&tree, &[("kept", b"1")]);
}

#[test]
fn a_synced_directory_keeps_the_name_and_not_the_content() {
    let mut tree = Tree::new();
    file(&mut tree, "empty", b"1");
    tree.sync(ROOT).unwrap();
    let lost = tree.lose_power(Keep::Nothing);
    assert_eq!(
        lost,
        Lost {
            writes: 1,
            names: 0
        }
    );
    expect(&tree, &[("empty", b"")]);
}

#[test]
fn a_rename_is_undone_as_a_whole_unless_it_was_synced() {
    for synced in [false, true] {
        let mut tree = Tree::new();
        let old = file(&mut tree, "CURRENT", b"old");
        tree.sync(old).unwrap();
        let new = file(&mut tree, "temporary", b"new");
        tree.sync(new).unwrap();
        let (from, to) = ("temporary".as_ref(), "CURRENT".as_ref());
        tree.rename((ROOT, from), (ROOT, to)).unwrap();
        expect(&tree, &[("CURRENT", b"new")]);
        if synced {
            tree.sync(ROOT).unwrap();
        }
        tree.lose_power(Keep::Nothing);
        if synced {
            expect(&tree, &[("CURRENT", b"new")]);
        } else {
            expect(&tree, &[("CURRENT", b"old"), ("temporary", b"new")]);
        }
    }
}

#[test]
fn a_removed_file_comes_back_with_what_was_durable() {
    let mut tree = Tree::new();
    let ino = file(&mut tree, "f", b"1");
    tree.sync(ino).unwrap();
    tree.write(ino, 1, b"2").unwrap();
    tree.unlink(ROOT, "f".as_ref()).unwrap();
    expect(&tree, &[]);
    tree.lose_power(Keep::Nothing);
    expect(&tree, &[("f", b"1")]);
    tree.unlink(ROOT, "f".as_ref()).unwrap();
    tree.sync(ROOT).unwrap();
    tree.lose_power(Keep::Nothing);
    expect(&tree, &[]);
    assert!(tree.inode(ino).is_err());
}

#[test]
fn an_open_file_without_a_name_takes_space_until_it_is_released() {
    let mut tree = Tree::new();
    let ino = file(&mut tree, "f", b"12345");
    tree.open(ino).unwrap();
    tree.unlink(ROOT, "f".as_ref()).unwrap();
    assert_eq!(tree.used_bytes(), 5);
    tree.write(ino, 5, b"6").unwrap();
    assert_eq!(tree.used_bytes(), 6);
    tree.release(ino);
    assert_eq!(tree.used_bytes(), 0);
}

#[test]
fn two_names_are_one_file() {
    let mut tree = Tree::new();
    let ino = file(&mut tree, "a", b"1");
    tree.link(ino, ROOT, "b".as_ref()).unwrap();
    assert_eq!(tree.inode(ino).unwrap().links, 2);
    assert_eq!(tree.used_bytes(), 1);
    tree.unlink(ROOT, "a".as_ref()).unwrap();
    expect(&tree, &[("b", b"1")]);
    tree.lose_power(Keep::Nothing);
    expect(&tree, &[]);
}

#[test]
fn a_directory_with_files_is_not_removed_and_one_that_is_lost_takes_its_files_along() {
    let mut tree = Tree::new();
    let directory = Node::Directory(BTreeMap::new());
    let directory = tree.create(ROOT, "d".as_ref(), directory, 0o755).unwrap();
    let node = Node::File(Content::default());
    let inner = tree.create(directory, "f".as_ref(), node, 0o644).unwrap();
    tree.write(inner, 0, b"1").unwrap();
    let refused = tree.remove_directory(ROOT, "d".as_ref());
    assert_eq!(refused, Err(Errno::NOTEMPTY));
    tree.lose_power(Keep::Nothing);
    assert!(tree.inode(directory).is_err() && tree.inode(inner).is_err());
    assert_eq!(tree.used_bytes(), 0);
}

#[test]
fn syncing_a_file_keeps_the_directory_that_it_is_in() {
    let mut tree = Tree::new();
    let directory = Node::Directory(BTreeMap::new());
    let directory = tree.create(ROOT, "d".as_ref(), directory, 0o755).unwrap();
    let node = Node::File(Content::default());
    let inner = tree.create(directory, "f".as_ref(), node, 0o644).unwrap();
    tree.write(inner, 0, b"1").unwrap();
    tree.sync(inner).unwrap();
    tree.lose_power(Keep::Nothing);
    assert_eq!(
        files(&tree, directory),
        [("f".to_owned(), b"1".to_vec())].into()
    );
}

#[test]
fn names_are_kept_in_the_order_in_which_they_were_given() {
    let mut counts = [0; 4];
    for seed in 0..100 {
        let mut tree = Tree::new();
        for name in ["1", "2", "3"] {
            file(&mut tree, name, b"");
        }
        tree.lose_power(Keep::Some(&mut SmallRng::seed_from_u64(seed)));
        let names: Vec<String> = files(&tree, ROOT).into_keys().collect();
        assert!(["1", "2", "3"].starts_with(&names.iter().map(String::as_str).collect::<Vec<_>>()));
        counts[names.len()] += 1;
    }
    assert!(counts.iter().all(|&count| count > 5), "{counts:?}");
}
