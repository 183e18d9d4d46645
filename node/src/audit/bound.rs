//! How much of a call its line may repeat. Callers choose names and how many of them a call has, and JSON writes some bytes as six.

use super::event::{Event, Target};
use crate::excerpt::head;
use crate::limits::{AUDIT_LINE_TARGETS_BYTES_MAX, AUDIT_LINE_TARGETS_MAX, AUDIT_NAME_BYTES_MAX};

/// About what a line takes besides the names in it, and each target besides its own, in bytes.
const LINE_BYTES: usize = 512;
const TARGET_BYTES: usize = 128;

/// Put behind a name that was cut.
const CUT: &str = "…";

/// Bytes of a text as a JSON string, without its quotes.
fn written(text: &str) -> usize {
    let bytes = text.bytes().map(|byte| match byte {
        b'"' | b'\\' | b'\n' | b'\r' | b'\t' | 8 | 12 => 2,
        0..=31 => 6,
        _ => 1,
    });
    bytes.sum()
}

fn names(target: &mut Target) -> [&mut Option<String>; 6] {
    let Target {
        store,
        owner,
        id,
        key,
        prefix,
        subject,
    } = target;
    [store, owner, id, key, prefix, subject]
}

/// Cuts a name that is longer than a name may be, where a character ends.
fn cut(name: &mut String) {
    if name.len() > AUDIT_NAME_BYTES_MAX {
        name.truncate(head(name, AUDIT_NAME_BYTES_MAX).len());
        name.shrink_to_fit();
        name.push_str(CUT);
    }
}

/// Cuts what is too long for a line, and says in the event how many targets were left out. Answers about how many bytes the line takes
/// as it is written.
pub(super) fn bound(event: &mut Event) -> usize {
    let named = event.targets.len();
    event.targets.truncate(AUDIT_LINE_TARGETS_MAX);
    let (mut bytes, mut kept) = (0, 0);
    for target in &mut event.targets {
        let mut own = TARGET_BYTES;
        for name in names(target).into_iter().flatten() {
            cut(name);
            own += written(name);
        }
        if bytes + own > AUDIT_LINE_TARGETS_BYTES_MAX {
            break;
        }
        bytes += own;
        kept += 1;
    }
    event.targets.truncate(kept);
    event.targets.shrink_to_fit();
    event.more_targets += (named - kept) as u64;
    cut(&mut event.tenant);
    cut(&mut event.principal);
    LINE_BYTES + written(&event.tenant) + written(&event.principal) + bytes
}

#[cfg(test)]
mod tests {
    use proptest::{collection::vec, prelude::*};

    use super::*;
    use crate::audit::event::Class;

    fn of(names: Vec<String>) -> Event {
        let target = |name| Target {
            key: Some(name),
            owner: Some("ann".into()),
            ..Target::default()
        };
        Event {
            targets: names.into_iter().map(target).collect(),
            ..Event::of(Class::Read, "BatchRetrieve")
        }
    }

    #[test]
    fn a_million_targets_and_a_name_of_megabytes_take_a_bounded_line() {
        let mut many = of(vec!["k".into(); 1_000_000]);
        bound(&mut many);
        assert_eq!(many.targets.len(), AUDIT_LINE_TARGETS_MAX);
        assert_eq!(many.more_targets, 1_000_000 - AUDIT_LINE_TARGETS_MAX as u64);
        let name = "\u{1}".repeat(8 << 20);
        let mut long = of(vec![name.clone()]);
        long.tenant.clone_from(&name);
        long.principal = name;
        bound(&mut long);
        // A target that is too long for a line would be left out whole.
        assert_eq!(long.targets.len(), 1);
        let key = long.targets[0].key.as_ref().unwrap();
        for name in [key, &long.tenant, &long.principal] {
            assert!(name.ends_with(CUT), "{}", name.len());
            assert_eq!(name.len(), AUDIT_NAME_BYTES_MAX + CUT.len());
        }
        let line = serde_json::to_vec(&long).unwrap();
        assert!(line.len() < 24 * AUDIT_NAME_BYTES_MAX, "{}", line.len());
    }

    proptest! {
        #[test]
        fn no_line_takes_more_than_is_reckoned(names in vec(any::<String>(), 0..40), repeat in 1_usize..400) {
            let mut event = of(names.iter().map(|name| name.repeat(repeat)).collect());
            let reckoned = bound(&mut event);
            let line = serde_json::to_vec(&event).unwrap();
            prop_assert!(line.len() <= reckoned, "{} {}", line.len(), reckoned);
            prop_assert!(reckoned <= AUDIT_LINE_TARGETS_BYTES_MAX + 4 * LINE_BYTES);
        }
    }
}
