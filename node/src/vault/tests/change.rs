//! Changes of the key that no node could serve under.

use helve_proto::command::v1::SetSealing;

use super::*;

/// A change to the key of this number, decided on the row of [`row`].
fn change_to(ring: &Keyring, key: usize) -> SetSealing {
    let after = row(ring, key);
    SetSealing {
        key_id: after.key_id,
        secret: after.secret,
        if_index: after.index,
    }
}

fn unsealing(if_index: u64) -> SetSealing {
    SetSealing {
        if_index,
        ..SetSealing::default()
    }
}

#[test]
fn change_that_a_node_could_not_serve_under_is_found_out_before() {
    let node = vault(&[1, 2], 0);
    let good = change_to(&ring(&[1, 2]), 1);
    assert_eq!(check_change(&node, &good), Ok(()));
    assert_eq!(check_change(&node, &unsealing(3)), Ok(()));
    let of_another_key = SetSealing {
        secret: change_to(&ring(&[3]), 0).secret,
        ..good.clone()
    };
    let short = SetSealing {
        key_id: good.key_id.slice(..4),
        ..good.clone()
    };
    for bad in [change_to(&ring(&[3]), 0), of_another_key, short] {
        let unfit = check_change(&node, &bad);
        assert!(matches!(unfit, Err(UnfitChange::Never(_))), "{bad:?}");
        let after = SealingRow {
            key_id: bad.key_id.clone(),
            secret: bad.secret,
            secret_key_id: bad.key_id,
            ..SealingRow::default()
        };
        assert!(node.learn(Some(after)).is_err(), "every node would end");
    }
}

#[test]
fn change_without_a_key_passes_where_values_are_sealed_by_now() {
    let node = vault(&[1], 0);
    assert_eq!(check_change(&node, &unsealing(4)), Err(UnfitChange::Behind));
    assert_eq!(check_change(&node, &unsealing(2)), Ok(()), "a conflict");
    let plain = SealingRow {
        key_id: Bytes::new(),
        ..row(&ring(&[1]), 0)
    };
    node.learn(Some(plain)).unwrap();
    assert!(check_change(&node, &unsealing(3)).is_err());
    for keys in [&[][..], &[1]] {
        let never_sealed = Vault::new(KeyFiles::none(), ring(keys));
        assert!(check_change(&never_sealed, &unsealing(0)).is_err());
    }
}
