//! The part of a key that names a tenant.

/// The bytes of a group's id, which come before it.
const GROUP_BYTES: usize = 4;

pub(super) fn push_tenant(key: &mut Vec<u8>, tenant: &str) {
    let length = u8::try_from(tenant.len()).expect("apply and every query refuse longer ones");
    key.push(length);
    key.extend_from_slice(tenant.as_bytes());
}

/// The tenant that a key names, and a key behind all of that tenant's; `None` if it names none.
pub(crate) fn tenant_of(key: &[u8]) -> Option<(&[u8], Vec<u8>)> {
    let (&length, rest) = key.get(GROUP_BYTES..)?.split_first()?;
    let tenant = rest.get(..usize::from(length))?;
    // No table has this number.
    let behind = [&key[..GROUP_BYTES + 1 + tenant.len()], &[u8::MAX]].concat();
    Some((tenant, behind))
}
