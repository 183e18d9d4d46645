//! Values that are not sealed where all are.

use super::*;

#[test]
fn once_all_values_are_sealed_a_plain_one_is_refused_by_name() {
    let vault = vault(&[1], 0);
    let plain = || GetReply {
        info: Some(RecordInfo {
            name: "cart-ONE".into(),
            ..RecordInfo::default()
        }),
        value: Bytes::from_static(b"put there by somebody"),
        ..GetReply::default()
    };
    let refused = |index, asked| vault.refuse_plain(&mut plain(), |_| asked, index);
    assert_eq!(refused(u64::MAX, Asked::Values), Ok(()), "the walk goes on");
    let complete = SealingRow {
        complete_index: 7,
        ..row(&ring(&[1]), 0)
    };
    vault.learn(Some(complete)).unwrap();
    let name = "cart-ONE".to_owned();
    assert_eq!(refused(7, Asked::Values), Err(OpenError::Plain { name }));
    assert_eq!(refused(6, Asked::Values), Ok(()), "taken before that");
    assert_eq!(refused(7, Asked::Names), Ok(()));
    let sealed = minted(&vault, b"value");
    let mut reply = sealed.clone();
    assert_eq!(vault.refuse_plain(&mut reply, |_| Asked::Values, 7), Ok(()));
}
