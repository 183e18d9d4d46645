//! No bytes make a decoder do worse than refuse.

use helve_client::ErrorKind;
use proptest::{prelude::*, sample::Index};
use serde_json::{Value, json};

use super::{
    super::{
        CacheScope, DISCOVER_TTL_MAX, ServerMetadata, TokenInfo, discover,
        records::{decode, key, place},
        seal::Binding,
    },
    seal,
};
use crate::properties::check;

/// Tenant, owner, place, field: short, so that they meet.
fn names() -> impl Strategy<Value = [String; 4]> {
    prop::array::uniform4("[a/\\x00é]{0,3}")
}

fn binding(names: &[String; 4]) -> Binding<'_> {
    let [tenant, owner, place, field] = names;
    Binding {
        tenant,
        owner,
        place,
        field,
    }
}

fn secret() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..64)
}

#[test]
fn what_was_sealed_opens_under_its_own_binding_alone() {
    let seal = seal();
    check(&(secret(), names(), names()), |(plain, mine, other)| {
        let sealed = seal.seal(&plain, &binding(&mine)).unwrap();
        let opened = seal.open(&sealed, &binding(&mine)).unwrap();
        prop_assert_eq!(&*opened, &plain);
        let moved = seal.open(&sealed, &binding(&other));
        prop_assert_eq!(moved.is_ok(), mine == other);
        Ok(())
    });
}

#[test]
fn a_sealed_value_with_any_character_changed_lost_or_added_is_refused() {
    let seal = seal();
    let changes = (secret(), any::<Index>(), any::<char>(), 0..3_u8);
    check(&changes, |(plain, at, with, how)| {
        let place = ["t", "o", "p", "f"].map(str::to_owned);
        let sealed = seal.seal(&plain, &binding(&place)).unwrap();
        let at = at.index(sealed.len());
        let mut changed = sealed.clone();
        match how {
            0 => changed.replace_range(at..=at, with.encode_utf8(&mut [0; 4])),
            1 => changed.truncate(at),
            _ => changed.insert(at, with),
        }
        let opened = seal.open(&changed, &binding(&place));
        prop_assert_eq!(opened.is_ok(), changed == sealed);
        Ok(())
    });
}

#[test]
fn any_text_opens_as_nothing() {
    let seal = seal();
    let place = ["t", "o", "p", "f"].map(str::to_owned);
    check(&"(cs1\\.)?[A-Za-z0-9_-]{0,120}|\\PC{0,60}", |text| {
        let refused = seal.open(&text, &binding(&place)).map(drop);
        prop_assert_eq!(refused.unwrap_err().kind(), ErrorKind::Sealed);
        Ok(())
    });
}

#[test]
fn authentic_bytes_of_any_form_are_read_or_refused() {
    check(&prop::collection::vec(any::<u8>(), 0..64), |bytes| {
        let _ = TokenInfo::decode(&bytes, None);
        let _ = decode::<ServerMetadata>(&bytes);
        let _ = decode::<String>(&bytes);
        Ok(())
    });
    check(&"\\PC{0,40}", |text| {
        let token = TokenInfo::new(text.clone());
        let read = TokenInfo::decode(&token.encode().unwrap(), None).unwrap();
        prop_assert_eq!(read.access_token(), text);
        Ok(())
    });
}

#[test]
fn any_json_gives_hints_within_bounds_or_is_refused() {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        "public|private|[a-z]{0,4}".prop_map(Value::from),
    ];
    check(&(leaf.clone(), leaf), |(ttl, scope)| {
        let _ = discover::hints(&ttl);
        let result = json!({"ttlMs": ttl.clone(), "cacheScope": scope.clone()});
        match discover::hints(&result) {
            Ok((found, kept)) => {
                prop_assert!(kept <= DISCOVER_TTL_MAX);
                prop_assert_eq!(found == CacheScope::Public, scope == "public");
            }
            Err(error) => {
                prop_assert_eq!(error.kind(), ErrorKind::Codec);
                prop_assert!(ttl.as_u64().is_none() || !scope.is_string());
            }
        }
        Ok(())
    });
}

#[test]
fn different_names_make_different_places() {
    let names = prop::array::uniform2("[a/%2F\\x00]{1,4}");
    check(&(names.clone(), names), |(one, other)| {
        let path = |[client, server]: &[String; 2]| {
            let path = place("p", &[("client", client), ("server", server)]).unwrap();
            assert!(!path.contains('\0'));
            key(&path, "field")
        };
        prop_assert_eq!(path(&one) == path(&other), one == other);
        Ok(())
    });
}
