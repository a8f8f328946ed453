//! Single sign-on: identities that a proxy or a JWT vouches for, and the roles that they get.

use std::{collections::BTreeMap, net::IpAddr, path::PathBuf, str::FromStr};

use ipnet::IpNet;
use serde::{Deserialize, Serialize};

/// What a caller may do, from least to most.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Sees everything, changes nothing.
    Read,
    /// Submits; sees and stops the work of its owner.
    Submit,
    /// May do everything.
    Admin,
}

impl Role {
    /// All roles, from least to most.
    pub const ALL: [Role; 3] = [Role::Read, Role::Submit, Role::Admin];

    /// The name of the role.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Read => "read",
            Role::Submit => "submit",
            Role::Admin => "admin",
        }
    }
}

impl FromStr for Role {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Role::ALL.into_iter().find(|role| role.as_str() == text);
        found.ok_or_else(|| "there are read, submit and admin".to_owned())
    }
}

/// Who is signed on by others. Empty: only our own tokens count.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sso {
    /// A proxy that authenticates.
    pub trusted_proxy: Option<TrustedProxy>,
    /// Issuers of JWTs. No `issuer` twice.
    pub jwt: Vec<JwtIssuer>,
}

impl Sso {
    /// Whether anything is configured.
    #[must_use]
    pub fn is_on(&self) -> bool {
        self.trusted_proxy.is_some() || !self.jwt.is_empty()
    }
}

/// A proxy that authenticates, and names the user in a header.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TrustedProxy {
    /// The addresses that the proxy connects from.
    pub from: Vec<IpNet>,
    /// The header with the user: the owner. Lower case.
    pub user_header: String,
    /// The header with the user's groups, separated by commas. Lower case.
    pub groups_header: Option<String>,
    /// The roles of the groups.
    pub roles: Roles,
}

impl TrustedProxy {
    /// Whether the proxy connects from this address.
    #[must_use]
    pub fn is_at(&self, peer: IpAddr) -> bool {
        // A socket for both families shows 10.0.0.1 as ::ffff:10.0.0.1.
        let peer = peer.to_canonical();
        self.from.iter().any(|network| network.contains(&peer))
    }
}

/// An issuer of JWTs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JwtIssuer {
    /// The claim `iss`, exactly.
    pub issuer: String,
    /// The claim `aud` must contain one of these.
    pub audience: Vec<String>,
    /// The keys of the issuer.
    pub jwks: Jwks,
    /// The claim with the owner: a name, or a JSON pointer that begins with `/`.
    pub owner_claim: String,
    /// The claim with the groups, a text or a list of texts.
    pub groups_claim: Option<String>,
    /// The roles of the groups.
    pub roles: Roles,
}

/// Where the public keys of an issuer are: a JSON Web Key Set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Jwks {
    /// A file.
    File(PathBuf),
    /// An `https://` URL, or an `http://` one of this machine.
    Url(String),
}

/// The roles of groups.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Roles {
    /// By the name of the group.
    pub of_groups: BTreeMap<String, Role>,
    /// The role of users of whom no group has one; `None`: they are refused.
    pub default: Option<Role>,
}

impl Roles {
    /// The highest role that one of these groups has, or the default.
    #[must_use]
    pub fn of<'g>(&self, groups: impl IntoIterator<Item = &'g str>) -> Option<Role> {
        let roles = groups.into_iter().filter_map(|group| self.of_groups.get(group).copied());
        roles.max().or(self.default)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_role_of_all_groups_counts() {
        let of_groups = [("quants", Role::Submit), ("platform", Role::Admin), ("all", Role::Read)];
        let of_groups = of_groups.map(|(group, role)| (group.to_owned(), role)).into();
        let roles = Roles { of_groups, default: None };
        assert_eq!(roles.of(["all", "platform", "quants"]), Some(Role::Admin));
        assert_eq!(roles.of(["Platform", "plat"]), None, "a group is its whole name");
        let roles = Roles { default: Some(Role::Submit), ..roles };
        assert_eq!((roles.of([]), roles.of(["all"])), (Some(Role::Submit), Some(Role::Read)));
    }

    #[test]
    fn a_proxy_is_known_by_its_address_of_either_family() {
        let from = ["10.1.0.0/16", "fd00::/8", "127.0.0.1/32"].map(|net| net.parse().unwrap()).into();
        let proxy =
            TrustedProxy { from, user_header: "x-user".into(), groups_header: None, roles: Roles::default() };
        for (peer, known) in [
            ("10.1.2.3", true),
            ("::ffff:10.1.2.3", true),
            ("10.2.0.1", false),
            ("fd12::1", true),
            ("fe80::1", false),
            ("127.0.0.1", true),
            ("127.0.0.2", false),
            ("::1", false),
        ] {
            assert_eq!(proxy.is_at(peer.parse().unwrap()), known, "{peer}");
        }
    }
}
