//! Properties of all codecs, in every form: what was sealed opens, and nothing else does.

use std::{sync::Arc, time::Duration};

use futures::FutureExt as _;
use helve_client::ErrorKind;
use proptest::{prelude::*, sample::Index};

use super::*;
use crate::properties::check;

/// Codecs with keys that are given wait for nothing.
fn block_on<O>(work: impl Future<Output = O>) -> O {
    work.now_or_never().expect("nothing to wait for")
}

const SEALED_AT_MS: u64 = 1_899_999_700_000;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Form {
    Hardened,
    Signed,
    Encrypted,
}

const FORMS: [Form; 3] = [Form::Hardened, Form::Signed, Form::Encrypted];

impl Form {
    fn codec(self, key: u8, now_ms: fn() -> u64) -> Box<dyn StateCodec> {
        let key = OperatorKey::new([key; 32]).unwrap();
        let compat = CompatCodec::new(&key).binding(StateBinding::SubjectAndTool);
        match self {
            Self::Hardened => {
                Box::new(HardenedCodec::new(Arc::new(FixedKeys::new(&key))).at(now_ms))
            }
            Self::Signed => Box::new(compat.at(now_ms)),
            Self::Encrypted => Box::new(compat.mode(StateMode::Encrypted).at(now_ms)),
        }
    }

    fn sealed(self, state: &str, context: &StateContext<'_>) -> String {
        block_on(self.codec(7, || SEALED_AT_MS).encode(state, context)).unwrap()
    }

    fn open(self, sealed: &str, context: &StateContext<'_>) -> Result<Opened, Refusal> {
        block_on(self.codec(7, || SEALED_AT_MS).decode(sealed, context))
    }
}

fn form() -> impl Strategy<Value = Form> {
    prop::sample::select(&FORMS[..])
}

/// States as servers make them, and as they should not.
fn state() -> impl Strategy<Value = String> {
    prop_oneof!["\\{\"step\":[0-9]{1,3}\\}", "\\PC{0,80}", any::<String>()]
}

/// A subject and a tool that every form can bind.
fn names() -> impl Strategy<Value = (String, String)> {
    ("[a-z|:@ü-]{0,12}", "[a-z_/\\x00]{0,12}")
}

fn context<'a>((subject, tool): &'a (String, String)) -> StateContext<'a> {
    StateContext::new().subject(subject).target(tool)
}

#[test]
fn what_was_sealed_opens_in_its_context() {
    check(&(form(), state(), names()), |(form, state, names)| {
        let sealed = form.sealed(&state, &context(&names));
        let opened = form.open(&sealed, &context(&names)).unwrap();
        prop_assert_eq!(opened.state, state);
        prop_assert!(opened.expires_at_ms > SEALED_AT_MS);
        Ok(())
    });
}

#[test]
fn a_changed_byte_anywhere_is_refused() {
    let change = (form(), state(), any::<Index>(), any::<char>());
    check(&change, |(form, state, at, with)| {
        let context = StateContext::new().subject("alice");
        let sealed = form.sealed(&state, &context);
        let at = at.index(sealed.len());
        let mut changed: Vec<char> = sealed.chars().collect();
        changed[at] = with;
        let changed: String = changed.into_iter().collect();
        let opened = form.open(&changed, &context);
        prop_assert_eq!(opened.is_ok(), changed == sealed, "{}", changed);
        Ok(())
    });
}

#[test]
fn a_changed_bit_of_what_the_base64_holds_is_refused() {
    let change = (form(), state(), any::<Index>(), 0..8_u8);
    check(&change, |(form, state, at, bit)| {
        let context = StateContext::new().subject("alice");
        let sealed = form.sealed(&state, &context);
        let mut parts: Vec<_> = sealed.split('.').map(str::to_owned).collect();
        let part = 1 + at.index(parts.len() - 1);
        let mut bytes = primitives::from_base64(&parts[part]).unwrap();
        let at = at.index(bytes.len());
        bytes[at] ^= 1 << bit;
        parts[part] = primitives::base64(&bytes);
        prop_assert!(form.open(&parts.join("."), &context).is_err());
        Ok(())
    });
}

#[test]
fn what_is_cut_or_continued_is_refused() {
    let change = (form(), state(), any::<Index>(), "[A-Za-z0-9_.=-]{1,40}");
    check(&change, |(form, state, at, more)| {
        let context = StateContext::new().subject("alice");
        let sealed = form.sealed(&state, &context);
        let cut = &sealed[..at.index(sealed.len())];
        prop_assert!(form.open(cut, &context).is_err());
        let continued = format!("{sealed}{more}");
        prop_assert!(form.open(&continued, &context).is_err());
        let preceded = format!("{more}{sealed}");
        prop_assert!(form.open(&preceded, &context).is_err());
        Ok(())
    });
}

#[test]
fn other_spellings_of_the_same_bytes_are_refused() {
    let spellings = prop::sample::select(vec!["=", "==", "\n", " ", "\t", "bits", "plain"]);
    check(&(form(), state(), spellings), |(form, state, spelling)| {
        let context = StateContext::new().subject("alice");
        let sealed = form.sealed(&state, &context);
        let respelt = match spelling {
            "bits" => stray_bits(&sealed),
            "plain" => sealed.replace('-', "+").replace('_', "/"),
            more => format!("{sealed}{more}"),
        };
        // Not every text has another spelling of every kind.
        match form.open(&respelt, &context) {
            Ok(_) => prop_assert_eq!(respelt, sealed),
            Err(refusal) => {
                prop_assert!(matches!(refusal, Refusal::Malformed), "{:?}", refusal);
                prop_assert_ne!(respelt, sealed);
            }
        }
        Ok(())
    });
}

/// The same text, but for bits of its last character that encode nothing.
fn stray_bits(sealed: &str) -> String {
    const ALPHABET: &str = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let (head, last) = sealed.split_at(sealed.len() - 1);
    let used_bits = match sealed.rsplit('.').next().unwrap().len() % 4 {
        2 => 2,
        3 => 4,
        _ => return sealed.to_owned(),
    };
    let value = ALPHABET.find(last).unwrap();
    let stray = value | ((1 << (6 - used_bits)) - 1);
    format!("{head}{}", &ALPHABET[stray..=stray])
}

#[test]
fn another_context_is_refused() {
    let contexts = (form(), state(), names(), names());
    check(&contexts, |(form, state, mine, other)| {
        let sealed = form.sealed(&state, &context(&mine));
        let opened = form.open(&sealed, &context(&other));
        prop_assert_eq!(opened.is_ok(), mine == other);
        Ok(())
    });
}

#[test]
fn each_part_of_the_context_is_bound_in_the_hardened_form_and_so_is_its_absence() {
    type Said<'a> = [Option<&'a str>; 5];
    fn context<'a>(said: &Said<'a>) -> StateContext<'a> {
        let digest = |text: &str| ArgumentsDigest::of(&serde_json::json!(text));
        StateContext {
            subject: said[0],
            audience: said[1],
            method: said[2],
            target: said[3],
            arguments: said[4].map(digest),
        }
    }
    let part = prop::sample::select(vec![None, Some(""), Some("a"), Some("b")]);
    let said = prop::array::uniform5(part);
    check(&(state(), said.clone(), said), |(state, mine, other)| {
        let sealed = Form::Hardened.sealed(&state, &context(&mine));
        let opened = Form::Hardened.open(&sealed, &context(&other));
        let first = (0..5).find(|&part| mine[part] != other[part]);
        let expected = match (first, &opened) {
            (None, Ok(opened)) => opened.state == state,
            (Some(0), Err(Refusal::Subject))
            | (Some(1), Err(Refusal::Audience))
            | (Some(2), Err(Refusal::Method))
            | (Some(3), Err(Refusal::Target))
            | (Some(4), Err(Refusal::Arguments)) => true,
            _ => false,
        };
        prop_assert!(expected, "{:?} {:?} {:?}", mine, other, opened);
        Ok(())
    });
}

#[test]
fn another_mode_version_or_key_is_refused() {
    check(&(form(), form(), state()), |(mine, other, state)| {
        let context = StateContext::new().subject("alice");
        let sealed = mine.sealed(&state, &context);
        if mine != other {
            let refused = other.open(&sealed, &context);
            prop_assert!(matches!(refused, Err(Refusal::Form)), "{:?}", refused);
        }
        let (_, body) = sealed.split_once('.').unwrap();
        for prefix in [
            "", ".", "v1", "h2.", "v2.", "v2e.", "V1.", "v1.", "v1e.", "h1.",
        ] {
            let disguised = format!("{prefix}{body}");
            if disguised != sealed {
                prop_assert!(other.open(&disguised, &context).is_err(), "{}", disguised);
            }
        }
        let foreign = mine.codec(8, || SEALED_AT_MS);
        prop_assert!(block_on(foreign.decode(&sealed, &context)).is_err());
        Ok(())
    });
}

#[test]
fn an_expired_state_is_refused_and_so_is_one_from_the_future() {
    const TTL_MS: u64 = 300_000;
    /// The wall at a moment that each case chooses.
    mod wall {
        use std::cell::Cell;
        thread_local!(pub(super) static NOW_MS: Cell<u64> = const { Cell::new(0) });
        pub(super) fn now_ms() -> u64 {
            NOW_MS.get()
        }
    }
    // Within and beyond the lifetime, at its very end, and before its beginning.
    let away = prop_oneof![
        -200_000..900_000_i64,
        299_990..301_010_i64,
        -60_010..-59_990_i64
    ];
    check(&(form(), state(), away), |(form, state, away_ms)| {
        let context = StateContext::new().subject("alice");
        let sealed = form.sealed(&state, &context);
        wall::NOW_MS.set(SEALED_AT_MS.checked_add_signed(away_ms).unwrap());
        let opened = block_on(form.codec(7, wall::now_ms).decode(&sealed, &context));
        let limit_ms = match form {
            Form::Hardened => TTL_MS,
            Form::Signed | Form::Encrypted => TTL_MS + 1000,
        };
        let expected = match opened {
            Ok(_) => away_ms < limit_ms.cast_signed(),
            Err(Refusal::Expired) => away_ms >= limit_ms.cast_signed(),
            Err(Refusal::NotYet) => form == Form::Hardened && away_ms < -60_000,
            Err(_) => false,
        };
        prop_assert!(expected, "{:?} {} {:?}", form, away_ms, opened);
        let too_early = form == Form::Hardened && away_ms < -60_000;
        prop_assert!(!(too_early && opened.is_ok()));
        Ok(())
    });
}

#[test]
fn nothing_that_a_client_makes_up_is_opened_and_nothing_panics() {
    let text = prop_oneof![
        any::<String>(),
        "(v1|v1e|h1)\\.[A-Za-z0-9_-]{0,300}",
        "v1\\.[A-Za-z0-9_-]{0,200}\\.[A-Za-z0-9_-]{43}",
        "(v1|v1e|h1)(\\.[A-Za-z0-9_=+/ -]{0,60}){0,4}",
    ];
    check(&(form(), text), |(form, text)| {
        let refused = form.open(&text, &StateContext::new());
        prop_assert!(refused.is_err(), "{}", text);
        Ok(())
    });
}

#[test]
fn what_is_over_long_is_refused_at_both_ends() {
    check(&(form(), 1..100_usize), |(form, over)| {
        let context = StateContext::new();
        let prefix = form.sealed("", &context);
        let long = format!(
            "{prefix}{}",
            "A".repeat(SEALED_BYTES_MAX - prefix.len() + over)
        );
        let refused = form.open(&long, &context);
        prop_assert!(matches!(refused, Err(Refusal::TooLong)), "{:?}", refused);
        let state = "x".repeat(STATE_BYTES_MAX + over);
        let refused = block_on(form.codec(7, || SEALED_AT_MS).encode(&state, &context));
        prop_assert_eq!(refused.unwrap_err().kind(), ErrorKind::Invalid);
        Ok(())
    });
}

#[test]
fn the_longest_state_that_may_be_sealed_opens() {
    for form in FORMS {
        let state = "x".repeat(STATE_BYTES_MAX);
        let sealed = form.sealed(&state, &StateContext::new());
        assert_eq!(
            form.open(&sealed, &StateContext::new()).unwrap().state,
            state
        );
    }
}

#[test]
fn an_encrypted_state_does_not_show_on_the_wire() {
    let context = StateContext::new().subject("alice").target("refund");
    let shows = |form: Form| {
        let sealed = form.sealed("a very private state", &context);
        let parts = sealed.split('.').filter_map(primitives::from_base64);
        let parts: Vec<_> = parts
            .map(|part| String::from_utf8_lossy(&part).into_owned())
            .collect();
        parts
            .iter()
            .any(|part| part.contains("a very private state"))
    };
    assert!(shows(Form::Signed), "signed is readable");
    assert!(!shows(Form::Hardened) && !shows(Form::Encrypted));
}

#[test]
fn two_seals_of_one_state_are_two_states() {
    for form in [Form::Hardened, Form::Encrypted] {
        let context = StateContext::new();
        let (one, two) = (form.sealed("s", &context), form.sealed("s", &context));
        let id = |sealed: &str| form.open(sealed, &context).unwrap().id;
        assert_ne!(id(&one), id(&two));
        assert_eq!(id(&one), id(&one));
    }
}

#[test]
fn a_lifetime_out_of_bounds_is_refused() {
    let key = OperatorKey::new([7; 32]).unwrap();
    for ttl in [
        Duration::ZERO,
        Duration::from_millis(999),
        STATE_TTL_MAX + Duration::from_secs(1),
    ] {
        let hardened = HardenedCodec::new(Arc::new(FixedKeys::new(&key))).ttl(ttl);
        assert_eq!(hardened.err().unwrap().kind(), ErrorKind::Invalid);
        let compat = CompatCodec::new(&key).ttl(ttl);
        assert_eq!(compat.err().unwrap().kind(), ErrorKind::Invalid);
    }
}

#[test]
fn a_state_opens_through_a_rotation_of_fixed_keys() {
    let (old, new) = (
        OperatorKey::new([1; 32]).unwrap(),
        OperatorKey::new([2; 32]).unwrap(),
    );
    let phases = [
        FixedKeys::new(&old),
        FixedKeys::new(&old).and_open(&new),
        FixedKeys::new(&new).and_open(&old),
        FixedKeys::new(&new),
    ];
    let codecs = phases.map(|keys| HardenedCodec::new(Arc::new(keys)));
    let context = StateContext::new();
    for (mine, other) in [(0, 1), (1, 0), (1, 2), (2, 1), (2, 3), (3, 2)] {
        let sealed = block_on(codecs[mine].encode("s", &context)).unwrap();
        assert!(block_on(codecs[other].decode(&sealed, &context)).is_ok());
    }
    let sealed = block_on(codecs[0].encode("s", &context)).unwrap();
    let refused = block_on(codecs[3].decode(&sealed, &context));
    assert!(matches!(refused, Err(Refusal::UnknownKey)), "{refused:?}");
}
