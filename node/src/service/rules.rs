//! What each call of the client port asks of its caller, in one table. A call that is not in it is denied; a test holds it against the
//! descriptors of the services. Where it says token, a certificate does as well that was granted what a token would be.

use helve_proto::v1::TokenRole;

use super::caller::{Caller, Power};

/// The least that a caller must have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Least {
    /// Nothing.
    Open,
    /// A token, whatever its role.
    Token,
    /// A token of the tenant that reads records.
    Reader,
    /// A token of the tenant that changes records.
    Writer,
    /// A token that manages tokens: of the tenant, or an operator's. The handler asks which.
    Manager,
    /// A token that manages the cluster.
    Operator,
}

/// By the path of the call, in the order of paths.
const RULES: &[(&str, Least)] = &[
    ("/grpc.health.v1.Health/Check", Least::Open),
    ("/grpc.health.v1.Health/Watch", Least::Open),
    (
        "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
        Least::Token,
    ),
    (
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
        Least::Token,
    ),
    ("/helve.v1.AccessService/CreateToken", Least::Manager),
    ("/helve.v1.AccessService/ListTenants", Least::Manager),
    ("/helve.v1.AccessService/ListTokens", Least::Manager),
    ("/helve.v1.AccessService/RevokeToken", Least::Manager),
    ("/helve.v1.AccessService/SetTenant", Least::Operator),
    ("/helve.v1.CallService/Exchange", Least::Reader),
    ("/helve.v1.CallService/OpenSession", Least::Writer),
    ("/helve.v1.ClusterService/AddMember", Least::Operator),
    ("/helve.v1.ClusterService/Backup", Least::Operator),
    ("/helve.v1.ClusterService/DataKeyStatus", Least::Operator),
    ("/helve.v1.ClusterService/PromoteMember", Least::Operator),
    ("/helve.v1.ClusterService/RemoveMember", Least::Operator),
    ("/helve.v1.ClusterService/ReplaceMember", Least::Operator),
    ("/helve.v1.ClusterService/SetDataKey", Least::Operator),
    ("/helve.v1.ClusterService/SetUpgradeHold", Least::Operator),
    ("/helve.v1.ClusterService/StateDigest", Least::Operator),
    ("/helve.v1.ClusterService/Status", Least::Token),
    ("/helve.v1.ClusterService/TakeSnapshot", Least::Operator),
    ("/helve.v1.ClusterService/TransferLeader", Least::Operator),
    ("/helve.v1.HandleService/Claim", Least::Writer),
    ("/helve.v1.HandleService/Count", Least::Reader),
    ("/helve.v1.HandleService/Delete", Least::Writer),
    ("/helve.v1.HandleService/Get", Least::Reader),
    ("/helve.v1.HandleService/List", Least::Reader),
    ("/helve.v1.HandleService/Mint", Least::Writer),
    ("/helve.v1.HandleService/Put", Least::Writer),
    ("/helve.v1.HandleService/Renew", Least::Writer),
    ("/helve.v1.HandleService/Take", Least::Writer),
    ("/helve.v1.StateService/BatchRetrieve", Least::Reader),
    ("/helve.v1.StateService/BatchStore", Least::Writer),
    ("/helve.v1.StateService/Delete", Least::Writer),
    ("/helve.v1.StateService/Exists", Least::Reader),
    ("/helve.v1.StateService/List", Least::Reader),
    ("/helve.v1.StateService/Retrieve", Least::Reader),
    ("/helve.v1.StateService/Store", Least::Writer),
    ("/helve.v1.TransactService/Transact", Least::Writer),
    ("/helve.v1.WatchService/Watch", Least::Reader),
];

/// What the call with this path asks; `None` if no caller may make it.
pub(crate) fn of(path: &str) -> Option<Least> {
    find(path).map(|(_, least)| *least)
}

/// The name of the call with this path, which a caller may have made up.
pub(crate) fn name(path: &str) -> &'static str {
    find(path).map_or("unknown", |(path, _)| path)
}

fn find(path: &str) -> Option<&'static (&'static str, Least)> {
    let place = RULES.binary_search_by_key(&path, |(path, _)| path).ok()?;
    Some(&RULES[place])
}

impl Least {
    /// Whether the caller has it.
    pub(crate) fn is_met(self, caller: &Caller) -> bool {
        let role = caller.role();
        match (&caller.power, self) {
            (Power::All, _) | (_, Self::Open) | (Power::Token { .. }, Self::Token) => true,
            (Power::Nothing, _) => false,
            (_, Self::Reader) => matches!(
                role,
                TokenRole::Reader | TokenRole::Writer | TokenRole::Admin
            ),
            (_, Self::Writer) => matches!(role, TokenRole::Writer | TokenRole::Admin),
            (_, Self::Manager) => matches!(role, TokenRole::Admin | TokenRole::Operator),
            (_, Self::Operator) => role == TokenRole::Operator,
        }
    }

    /// Who may, for people.
    pub(crate) fn who(self) -> &'static str {
        match self {
            Self::Open => "anyone",
            Self::Token => "whoever holds a token",
            Self::Reader => "a reader, a writer or an admin of the tenant",
            Self::Writer => "a writer or an admin of the tenant",
            Self::Manager => "an admin of the tenant or an operator",
            Self::Operator => "an operator",
        }
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
        let ruled: BTreeSet<_> = RULES.iter().map(|(path, _)| (*path).to_owned()).collect();
        assert_eq!(ruled, calls);
        assert!(RULES.is_sorted_by_key(|(path, _)| path), "it is searched");
    }

    #[test]
    fn what_is_not_in_the_table_is_nobodys_to_call() {
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
            assert_eq!(all.map(|least| least.is_met(&caller)), expected, "{role:?}");
        }
        assert!(all.iter().all(|least| least.is_met(&Caller::anyone())));
        let open = all.map(|least| least.is_met(&Caller::nobody()));
        assert_eq!(open, [true, false, false, false, false, false]);
    }
}
