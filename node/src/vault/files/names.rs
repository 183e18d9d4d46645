//! Names of key files with numbers in them. By bytes, `9.key` comes after `10.key`, and would pass for the newest key.

use std::{cmp::Ordering, ffi::OsStr, path::PathBuf};

use crate::refusal::Refusal;

/// Refuses names of which the last one has a lower number than another one. `paths` are in the order of their bytes.
///
/// # Errors
/// Names both files, and what to call the last one.
pub(super) fn check(paths: &[PathBuf]) -> Result<(), Refusal> {
    let names: Vec<&OsStr> = paths.iter().filter_map(|path| path.file_name()).collect();
    let Some((last, others)) = names.split_last() else {
        return Ok(());
    };
    let bytes = last.as_encoded_bytes();
    for other in others {
        let Some((start, digits)) = lower(bytes, other.as_encoded_bytes()) else {
            continue;
        };
        let (before, behind) = bytes.split_at(start);
        let padded = [before, &vec![b'0'; digits], behind].concat();
        let (last, other) = (last.display(), other.display());
        let problem = format!(
            "the last file by name is taken for the newest key, and that is {last}, though {other} has the higher number"
        );
        let remedy = format!(
            "give the numbers leading zeros on every node, such as {last} as {}, so that the newest key is the last one by name",
            String::from_utf8_lossy(&padded)
        );
        return Err(Refusal::new("--data-keys", problem, remedy));
    }
    Ok(())
}

/// Where the number of `last` begins that is lower than that of `other` in the same place, and how many digits it lacks.
///
/// A number is compared only where it ends alike in both names, not before a letter: digits of hexadecimal ids are no numbers.
fn lower(last: &[u8], other: &[u8]) -> Option<(usize, usize)> {
    let common = last.iter().zip(other).take_while(|(a, b)| a == b).count();
    let is_digit = |byte: &&u8| byte.is_ascii_digit();
    let start = common - last[..common].iter().rev().take_while(is_digit).count();
    let number = |name: &[u8]| {
        let digits = name[start..].iter().take_while(is_digit).count();
        let is_whole = !name
            .get(start + digits)
            .is_some_and(u8::is_ascii_alphabetic);
        (digits > 0 && is_whole).then_some(digits)
    };
    let (mine, others) = (number(last)?, number(other)?);
    let (a, b) = (&last[start..start + mine], &other[start..start + others]);
    (by_number(a, b) == Ordering::Less).then(|| (start, others.saturating_sub(mine)))
}

/// Compares digits as the numbers that they are, of any length.
fn by_number(a: &[u8], b: &[u8]) -> Ordering {
    let (a, b) = (significant(a), significant(b));
    a.len().cmp(&b.len()).then_with(|| a.cmp(b))
}

fn significant(digits: &[u8]) -> &[u8] {
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    &digits[zeros..]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said of these names, put in order.
    fn said(names: &[&str]) -> Option<String> {
        let mut paths: Vec<_> = names.iter().map(PathBuf::from).collect();
        paths.sort();
        check(&paths).err().map(|refusal| refusal.to_string())
    }

    #[test]
    fn last_name_with_a_lower_number_is_refused_with_its_new_name() {
        for (names, remedy) in [
            (&["9.key", "10.key"][..], "9.key as 09.key"),
            (&["9", "10", "100"], "9 as 09"),
            (
                &["2026-9.key", "2026-11.key", "2025-1.key"],
                "as 2026-09.key",
            ),
            (&["key99.pem", "key100.pem", "a.pem"], "as key099.pem"),
            (&["9.key", "010.key"], "9.key as 009.key"),
            (&["9.old", "10.key"], "9.old as 09.old"),
            (&["1-9-a", "1-10-b"], "as 1-09-a"),
        ] {
            let said = said(names).expect(names[0]);
            assert!(said.contains(remedy), "{said}");
        }
    }

    #[test]
    fn names_whose_order_is_that_of_their_numbers_are_taken() {
        for names in [
            &["data.key"][..],
            &["1", "2", "9"],
            &["09.key", "10.key", "11.key"],
            &["2026-01.key", "2026-11.key", "2027-01.key"],
            &["2026-11-09.key", "2026-11-10.key"],
            // The last one has no number, or one in another place.
            &["9.key", "10.key", "new.key"],
            &["9.key", "10.key", "k1.key"],
            &["1", "2026.key"],
            // Ids of keys are no numbers.
            &["9c1f.key", "10ab.key"],
            &["a9c1.key", "a10f.key"],
            &["550e8400-e29b", "12345678-e29b"],
            &["99", "99.old"],
        ] {
            assert_eq!(said(names), None, "{names:?}");
        }
    }
}
