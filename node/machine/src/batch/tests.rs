//! Tests of the batch.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::Batch;
use crate::{fault::Fault, layout::Group, view::View};

struct Rows(BTreeMap<Bytes, Bytes>);

impl View for Rows {
    fn get(&self, key: &[u8]) -> Result<Option<Bytes>, Fault> {
        Ok(self.0.get(key).cloned())
    }

    fn range(&self, from: &[u8], to: &[u8], rows_max: usize) -> Result<Vec<(Bytes, Bytes)>, Fault> {
        let bounds = (
            std::ops::Bound::Included(from),
            std::ops::Bound::Excluded(to),
        );
        let rows = self.0.range::<[u8], _>(bounds).take(rows_max);
        Ok(rows
            .map(|(key, value)| (key.clone(), value.clone()))
            .collect())
    }
}

fn key(number: u16) -> Bytes {
    Bytes::copy_from_slice(&number.to_be_bytes())
}

#[test]
fn range_merges_what_is_written_with_what_is_stored() {
    let stored: BTreeMap<_, _> = (0..400)
        .step_by(2)
        .map(|n| (key(n), Bytes::from("old")))
        .collect();
    let mut expected = stored.clone();
    let mut batch = Batch::new(Rows(stored));
    for number in 0..400 {
        match number % 7 {
            0 | 1 => {
                batch.put(key(number), Bytes::from("new"));
                expected.insert(key(number), Bytes::from("new"));
            }
            2..5 => {
                batch.delete(key(number));
                expected.remove(&key(number));
            }
            _ => {}
        }
    }
    let expected = Rows(expected);
    for (from, to, rows_max) in [
        (0, 400, 1),
        (0, 400, 63),
        (0, 400, 64),
        (0, 400, 1000),
        (13, 200, 5),
        (9, 9, 3),
        (20, 10, 3),
    ] {
        let wanted = if from < to {
            expected.range(&key(from), &key(to), rows_max).unwrap()
        } else {
            Vec::new()
        };
        assert_eq!(
            batch.range(&key(from), &key(to), rows_max).unwrap(),
            wanted,
            "{from}..{to}, {rows_max}"
        );
    }
    for number in 0..400 {
        assert_eq!(
            batch.get(&key(number)).unwrap(),
            expected.get(&key(number)).unwrap()
        );
    }
}

#[test]
fn what_the_batch_wrote_wins_over_a_held_row_whichever_came_first() {
    let group = Group(1);
    let rows = [group.clock(), group.feature_level(), group.sealing()];
    let stored = rows.clone().map(|key| (key, Bytes::from("old")));
    let mut batch = Batch::new(Rows(stored.into()));
    let [replaced, deleted, untouched] = rows;
    batch.put(replaced.clone(), Bytes::from("new"));
    batch.hold(group).unwrap();
    batch.delete(deleted.clone());
    for (key, wanted) in [
        (replaced, Some("new")),
        (deleted, None),
        (untouched, Some("old")),
    ] {
        assert_eq!(batch.get(&key).unwrap(), wanted.map(Bytes::from), "{key:?}");
    }
}

#[test]
fn what_a_batch_puts_under_a_new_key_and_deletes_is_not_written() {
    let stored = BTreeMap::from([(key(1), Bytes::from("old")), (key(2), Bytes::from("old"))]);
    let mut batch = Batch::new(Rows(stored));
    batch.put_new(key(3), Bytes::from("short"));
    batch.put(key(3), Bytes::from("lived"));
    batch.delete(key(3));
    assert_eq!(batch.get(&key(3)).unwrap(), None);
    batch.put_new(key(4), Bytes::from("stays"));
    batch.delete(key(1));
    batch.delete(key(2));
    batch.put_new(key(2), Bytes::from("again"));
    batch.delete(key(2));
    let written = [(1, None), (2, None), (4, Some("stays"))];
    let written = written.map(|(number, value)| (key(number), value.map(Bytes::from)));
    assert_eq!(batch.finish().unwrap(), written);
}

#[test]
fn what_a_batch_deletes_and_puts_again_is_deleted_first() {
    let mut batch = Batch::new(Rows(BTreeMap::from([(key(1), Bytes::from("old"))])));
    batch.delete(key(1));
    batch.put_new(key(1), Bytes::from("again"));
    batch.put(key(1), Bytes::from("last"));
    assert_eq!(batch.get(&key(1)).unwrap(), Some(Bytes::from("last")));
    let written = [(key(1), None), (key(1), Some(Bytes::from("last")))];
    assert_eq!(batch.finish().unwrap(), written);
}
