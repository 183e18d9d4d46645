//! What each call of the client port asks of its caller, by the table of operations. A call that is not in it is denied; a test holds it
//! against the descriptors of the services.

pub(crate) use helve_proto::operations::Least;
use helve_proto::{
    operations::{self, CallFacts},
    v1::TokenRole,
};

use super::caller::{Caller, Power};

/// Calls of other contracts than Helve's.
const OTHERS: [CallFacts; 4] = [
    CallFacts {
        path: "/grpc.health.v1.Health/Check",
        least: Least::Open,
    },
    CallFacts {
        path: "/grpc.health.v1.Health/Watch",
        least: Least::Open,
    },
    CallFacts {
        path: "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        least: Least::Token,
    },
    CallFacts {
        path: "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        least: Least::Token,
    },
];

/// What the call with this path asks; `None` if no caller may make it.
pub(crate) fn of(path: &str) -> Option<Least> {
    find(path).map(|call| call.least)
}

/// The name of the call with this path, which a caller may have made up.
pub(crate) fn name(path: &str) -> &'static str {
    find(path).map_or("unknown", |call| call.path)
}

fn find(path: &str) -> Option<CallFacts> {
    let other = || OTHERS.into_iter().find(|call| call.path == path);
    operations::by_path(path).copied().or_else(other)
}

/// Whether the caller has it.
pub(crate) fn is_met(least: Least, caller: &Caller) -> bool {
    let role = caller.role();
    match (&caller.power, least) {
        (Power::All, _) | (_, Least::Open) | (Power::Token { .. }, Least::Token) => true,
        (Power::Nothing, _) => false,
        (_, Least::Reader) => matches!(
            role,
            TokenRole::Reader | TokenRole::Writer | TokenRole::Admin
        ),
        (_, Least::Writer) => matches!(role, TokenRole::Writer | TokenRole::Admin),
        (_, Least::Manager) => matches!(role, TokenRole::Admin | TokenRole::Operator),
        (_, Least::Operator) => role == TokenRole::Operator,
    }
}

/// Who may, for people.
pub(crate) fn who(least: Least) -> &'static str {
    match least {
        Least::Open => "anyone",
        Least::Token => "a caller with a token",
        Least::Reader => "a reader, a writer or an admin of the tenant",
        Least::Writer => "a writer or an admin of the tenant",
        Least::Manager => "an admin of the tenant or an operator",
        Least::Operator => "an operator",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use helve_proto::{DESCRIPTORS, v1::TokenGrant};
    use prost::Message as _;

    use super::*;
    use crate::{
        config::TokenHash,
        service::{credential::Credential, direct_routes::PUBLIC_SERVICES},
    };

    #[test]
    fn every_call_of_the_public_services_has_a_rule_and_every_rule_a_call() {
        let mut calls = BTreeSet::new();
        for set in [
            DESCRIPTORS,
            tonic_health::pb::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1::FILE_DESCRIPTOR_SET,
            tonic_reflection::pb::v1alpha::FILE_DESCRIPTOR_SET,
        ] {
            let set = prost_types::FileDescriptorSet::decode(set).unwrap();
            for file in set.file {
                for service in &file.service {
                    let name = format!("{}.{}", file.package(), service.name());
                    if PUBLIC_SERVICES.contains(&name.as_str()) {
                        let methods = service.method.iter();
                        calls.extend(methods.map(|method| format!("/{name}/{}", method.name())));
                    }
                }
            }
        }
        let rows = operations::OPERATIONS.iter().filter_map(|row| row.call);
        let ruled = rows.chain(OTHERS).map(|call| call.path.to_owned());
        assert_eq!(ruled.collect::<BTreeSet<_>>(), calls);
        assert!(calls.iter().all(|path| of(path).is_some()));
    }

    #[test]
    fn call_that_is_not_in_the_table_has_no_rule() {
        for path in [
            "",
            "/",
            "/helve.v1.HandleService/Mine",
            "/helve.peer.v1.PeerService/Append",
        ] {
            assert_eq!(of(path), None, "{path}");
        }
    }

    #[test]
    fn a_role_may_do_what_its_row_says() {
        let table = [
            (TokenRole::Reader, [true, true, true, false, false, false]),
            (TokenRole::Writer, [true, true, true, true, false, false]),
            (TokenRole::Admin, [true, true, true, true, true, false]),
            (TokenRole::Operator, [true, true, false, false, true, true]),
            (
                TokenRole::Unspecified,
                [true, true, false, false, false, false],
            ),
        ];
        let all = [
            Least::Open,
            Least::Token,
            Least::Reader,
            Least::Writer,
            Least::Manager,
            Least::Operator,
        ];
        for (role, expected) in table {
            let grant = TokenGrant {
                role: role.into(),
                ..TokenGrant::default()
            };
            let caller = Caller::of_token(Credential::Token(TokenHash::of("hlv_")), grant);
            assert_eq!(
                all.map(|least| is_met(least, &caller)),
                expected,
                "{role:?}"
            );
        }
        assert!(all.iter().all(|least| is_met(*least, &Caller::anyone())));
        let open = all.map(|least| is_met(least, &Caller::without_credential()));
        assert_eq!(open, [true, false, false, false, false, false]);
    }
}
