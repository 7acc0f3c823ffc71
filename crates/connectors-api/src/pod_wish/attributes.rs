//! The `volumeAttributes` of a volume.

use std::collections::BTreeMap;

use thiserror::Error;

use super::ConnectorKey;
use crate::{
    Permission,
    names::{is_dns_label, is_dns_subdomain},
    quoted, shortened,
};

/// A volume of more would hold its pod for the slowest of too many approvals.
pub const MOST_CONNECTORS: usize = 16;
/// More bytes of attributes than any pod needs, and few enough for every message and mount.
pub const LONGEST_ATTRIBUTES: usize = 64 * 1024;
/// Two words of this likeness are probably the same word.
const LIKELY: f64 = 0.75;

const CONNECTORS: &str = "connectors";
const PERMISSION: &str = "permission";
/// The older way to name one connector.
const NAME: &str = "connector.name";
const NAMESPACE: &str = "connector.namespace";
/// The configurations of the connector's class.
pub const FILES: &str = "configuration.names";
/// The values for them.
pub const PARAMS: &str = "configuration.params";
/// The lifetime of the pod's token.
pub const EXPIRATION: &str = "token.expiration";
const ON_REJECTED: &str = "onRejected";

/// An attribute that the author of a pod may write.
#[derive(Clone, Copy, Debug)]
pub struct KnownAttribute {
    /// Its name.
    pub name: &'static str,
    /// The values that it may have.
    pub values: &'static str,
    /// Its value where it is not written; empty where it has none.
    pub default: &'static str,
    /// Its meaning.
    pub about: &'static str,
}

/// Every attribute. A volume with another one is refused.
pub const ATTRIBUTES: [KnownAttribute; 8] = [
    KnownAttribute {
        name: CONNECTORS,
        values: "up to 16 of `namespace/name` or `name`, separated by commas",
        default: "",
        about: "The connectors, by their names. A name without a namespace is one of the pod's own namespace. Required, unless `connector.name` is there.",
    },
    KnownAttribute {
        name: PERMISSION,
        values: "`apis` or `proxy`",
        default: "apis",
        about: "The capability that the pod asks for, of all connectors of the volume.",
    },
    KnownAttribute {
        name: FILES,
        values: "up to 64 of a configuration, `!file` or `!class/file`, separated by commas",
        default: "",
        about: "The configurations of the connectors' classes whose files the volume holds. `!` leaves a file out, of all classes or of one.",
    },
    KnownAttribute {
        name: PARAMS,
        values: "a JSON object of objects of strings",
        default: "{}",
        about: "The values of the parameters of these configurations, by configuration and parameter.",
    },
    KnownAttribute {
        name: EXPIRATION,
        values: "a duration from `10m` to `24h`",
        default: "",
        about: "The least lifetime of the pod's token in the volume. It sets no lifetime: the volume is refused if the tokens of the installation live shorter.",
    },
    KnownAttribute {
        name: ON_REJECTED,
        values: "`Fail` or `ErrorFile`",
        default: "Fail",
        about: "The end of a pod that is refused for good. `Fail`: the mount fails. `ErrorFile`: the pod starts, and its volume holds the reason alone.",
    },
    KnownAttribute {
        name: NAME,
        values: "the name of a connector",
        default: "",
        about: "The older form of `connectors`, for one connector. It excludes `connectors`.",
    },
    KnownAttribute {
        name: NAMESPACE,
        values: "a namespace",
        default: "the pod's own",
        about: "The namespace of the connector that `connector.name` names.",
    },
];

/// The prefix of the keys that the kubelet adds.
const KUBELET: &str = "csi.storage.k8s.io/";

/// The wishes of a pod's author for a volume, beside its files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VolumeAttributes {
    /// The connectors, at least one, none twice, in the order in which they were written.
    pub connectors: Vec<ConnectorKey>,
    /// The capability of all of them.
    pub permission: Permission,
    /// The other choices.
    pub options: VolumeOptions,
}

/// Choices of a pod's author that change neither the owner of a volume nor the access that it needs. A new attribute of
/// this kind is a field here: callers that need no choice pass over all of them at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct VolumeOptions {
    /// The way out for a pod that is refused for good.
    pub on_rejected: OnRejected,
}

/// The volume of a pod that is refused for good.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnRejected {
    /// The mount fails, and the pod does not start.
    #[default]
    Fail,
    /// The volume holds a file that says why, and the pod starts.
    ErrorFile,
}

impl OnRejected {
    /// Each with its word.
    const WORDS: [(&str, Self); 2] = [("Fail", Self::Fail), ("ErrorFile", Self::ErrorFile)];

    fn from_word(word: &str) -> Option<Self> {
        let mut words = Self::WORDS.into_iter();
        words.find(|(it, _)| *it == word).map(|(_, way)| way)
    }
}

/// The mistake in the attributes. Each message names the attribute, what is written there, and what would be accepted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum WishError {
    /// An attribute that does nothing here. Its value is not at fault, and may be anything: a password that was meant for
    /// other software.
    #[error("volume attribute `{name}` is unknown: {hint}")]
    Unknown {
        /// As it was written.
        name: String,
        /// The attribute that was probably meant.
        hint: String,
    },
    /// No connector.
    #[error(
        "volume attribute `connectors` is missing: list connectors as `namespace/name` or `name`"
    )]
    NoConnectors,
    /// No name in the list.
    #[error(
        "volume attribute `connectors` cannot list `{0}`: use `namespace/name`, or `name` for one of the pod's namespace"
    )]
    Connector(String),
    /// Once is enough.
    #[error("volume attribute `connectors` lists `{0}` twice: list it once")]
    Twice(String),
    /// Too many.
    #[error(
        "volume attribute `connectors` cannot be `{list}`: it lists {count}, use at most {MOST_CONNECTORS} in one volume"
    )]
    TooMany {
        /// The list.
        list: String,
        /// Its length.
        count: usize,
    },
    /// No permission.
    #[error("volume attribute `permission` cannot be `{0}`: use apis or proxy")]
    Permission(String),
    /// Neither of both.
    #[error("volume attribute `onRejected` cannot be `{0}`: use Fail or ErrorFile")]
    OnRejected(String),
    /// No name.
    #[error(
        "volume attribute `connector.name` cannot be `{0}`: use the name of a connector, without its namespace"
    )]
    Name(String),
    /// No namespace.
    #[error(
        "volume attribute `connector.namespace` cannot be `{0}`: use the name of a namespace, or leave it out for the pod's own"
    )]
    Namespace(String),
    /// Both ways at once.
    #[error(
        "volume attributes `connectors: {list}` and `{older}: {value}` exclude each other: use `connectors` alone, which is the newer one"
    )]
    BothWays {
        /// The list.
        list: String,
        /// The older attribute.
        older: &'static str,
        /// Its value.
        value: String,
    },
    /// A namespace of no name.
    #[error(
        "volume attribute `connector.namespace` cannot be `{0}` alone: write `connector.name` beside it, or use `connectors`"
    )]
    NamespaceAlone(String),
}

/// A text that names no connector, with what would.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is not a connector: use `namespace/name`, or `name` for one of the pod's namespace")]
pub struct NoConnector(String);

impl VolumeAttributes {
    /// Parses the attributes of a pod in this namespace.
    pub fn parse<'a>(
        namespace: &str,
        attributes: impl IntoIterator<Item = (&'a String, &'a String)>,
    ) -> Result<Self, WishError> {
        // Sorted, so that the same pod always gets the same message.
        let written: BTreeMap<&str, &str> = attributes
            .into_iter()
            .map(|(name, value)| (name.as_str(), value.as_str()))
            .collect();
        let mut names = written.keys();
        let is_known = |name: &str| ATTRIBUTES.iter().any(|it| it.name == name);
        let unknown = names.find(|name| !is_known(name) && !name.starts_with(KUBELET));
        if let Some(name) = unknown {
            return Err(WishError::Unknown {
                name: quoted(name),
                hint: hint(name),
            });
        }
        let permission = match written.get(PERMISSION) {
            None => Permission::default(),
            Some(word) => Permission::from_segment(word)
                .ok_or_else(|| WishError::Permission(shortened(word)))?,
        };
        let on_rejected = match written.get(ON_REJECTED) {
            None => OnRejected::default(),
            Some(word) => {
                OnRejected::from_word(word).ok_or_else(|| WishError::OnRejected(shortened(word)))?
            }
        };
        Ok(Self {
            connectors: named(namespace, &written)?,
            permission,
            options: VolumeOptions { on_rejected },
        })
    }
}

/// The connectors, named in the newer or in the older way.
fn named(namespace: &str, written: &BTreeMap<&str, &str>) -> Result<Vec<ConnectorKey>, WishError> {
    let older = [NAME, NAMESPACE]
        .into_iter()
        .find_map(|name| Some((name, *written.get(name)?)));
    match (written.get(CONNECTORS), older) {
        (Some(list), Some((older, value))) => Err(WishError::BothWays {
            list: shortened(list),
            older,
            value: shortened(value),
        }),
        (Some(list), None) => listed(namespace, list),
        (None, None) => Err(WishError::NoConnectors),
        (None, Some((_, first))) => {
            let Some(name) = written.get(NAME) else {
                return Err(WishError::NamespaceAlone(shortened(first)));
            };
            let namespace = written.get(NAMESPACE).copied().unwrap_or(namespace);
            Ok(vec![older_form(namespace, name)?])
        }
    }
}

fn older_form(namespace: &str, name: &str) -> Result<ConnectorKey, WishError> {
    if !is_dns_subdomain(name.trim()) {
        return Err(WishError::Name(shortened(name)));
    }
    connector(namespace, name.trim()).map_err(|_| WishError::Namespace(shortened(namespace)))
}

fn listed(namespace: &str, list: &str) -> Result<Vec<ConnectorKey>, WishError> {
    let mut connectors: Vec<ConnectorKey> = Vec::new();
    let items = list.split(',').map(str::trim);
    for item in items.clone() {
        let connector = connector(namespace, item);
        let connector = connector.map_err(|_| WishError::Connector(shortened(item)))?;
        if connectors.contains(&connector) {
            return Err(WishError::Twice(connector.to_string()));
        }
        if connectors.len() == MOST_CONNECTORS {
            return Err(WishError::TooMany {
                list: shortened(list),
                count: items.count(),
            });
        }
        connectors.push(connector);
    }
    Ok(connectors)
}

/// A connector as it is written: `namespace/name`, or `name` for one of this namespace.
pub fn connector(namespace: &str, item: &str) -> Result<ConnectorKey, NoConnector> {
    let (namespace, name) = item.split_once('/').unwrap_or((namespace, item));
    if !is_dns_label(namespace) || !is_dns_subdomain(name) {
        return Err(NoConnector(shortened(item)));
    }
    Ok(ConnectorKey {
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    })
}

fn hint(name: &str) -> String {
    let known = ATTRIBUTES.map(|it| it.name);
    let likeness = |known: &&str| strsim::jaro_winkler(known, name);
    let likely = known
        .into_iter()
        .max_by(|a, b| likeness(a).total_cmp(&likeness(b)))
        .filter(|known| likeness(known) >= LIKELY);
    match likely {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known here: {}", known.join(", ")),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parse(fields: &[(&str, &str)]) -> Result<VolumeAttributes, WishError> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        let fields: BTreeMap<String, String> = fields.iter().map(owned).collect();
        VolumeAttributes::parse("shop", &fields)
    }

    fn names(fields: &[(&str, &str)]) -> Result<Vec<String>, String> {
        let parsed = parse(fields).map_err(|error| error.to_string())?;
        Ok(parsed.connectors.iter().map(ToString::to_string).collect())
    }

    fn connectors(list: &str) -> Result<Vec<String>, String> {
        names(&[("connectors", list)])
    }

    #[test]
    fn connectors_are_full_names_or_names_in_the_pods_namespace() {
        assert_eq!(connectors("harbor").unwrap(), ["shop/harbor"]);
        assert_eq!(
            connectors("tools/harbor,git.example, shop2/a ").unwrap(),
            ["tools/harbor", "shop/git.example", "shop2/a"]
        );
        for bad in [
            "", " ", ",", "a,", "a,,b", "a/b/c", "/a", "a/", "A", "a b", "../a", "a/*",
        ] {
            assert!(connectors(bad).is_err(), "{bad}");
        }
        assert_eq!(
            connectors("harbor,shop/harbor").unwrap_err(),
            "volume attribute `connectors` lists `shop/harbor` twice: list it once"
        );
        let list = |count: usize| {
            let names: Vec<_> = (0..count).map(|n| format!("c{n}")).collect();
            names.join(",")
        };
        let most = connectors(&list(MOST_CONNECTORS)).unwrap();
        assert_eq!(most.len(), MOST_CONNECTORS);
        let more = connectors(&list(MOST_CONNECTORS + 1)).unwrap_err();
        assert!(more.contains("it lists 17, use at most 16"), "{more}");
    }

    #[test]
    fn an_attribute_that_would_do_nothing_is_refused_with_the_likely_word() {
        let message = |key: &str| {
            let error = parse(&[("connectors", "harbor"), (key, "x")]).unwrap_err();
            error.to_string()
        };
        assert_eq!(
            message("connector"),
            "volume attribute `connector` is unknown: did you mean `connectors`?"
        );
        assert_eq!(
            message("permissions"),
            "volume attribute `permissions` is unknown: did you mean `permission`?"
        );
        assert_eq!(
            message("speed"),
            "volume attribute `speed` is unknown: known here: connectors, permission, configuration.names, \
             configuration.params, token.expiration, onRejected, connector.name, connector.namespace"
        );
        assert!(message(&"a\n".repeat(500)).len() < 300);
        let of_the_kubelet = ("csi.storage.k8s.io/something.new", "x");
        assert!(parse(&[("connectors", "harbor"), of_the_kubelet]).is_ok());
    }

    #[test]
    fn one_connector_may_be_named_in_the_older_way() {
        let (name, namespace) = ("connector.name", "connector.namespace");
        let named = names(&[(name, "harbor"), (namespace, "tools")]);
        assert_eq!(named.unwrap(), ["tools/harbor"]);
        assert_eq!(names(&[(name, "harbor")]).unwrap(), ["shop/harbor"]);
        for (fields, told) in [
            (
                &[(namespace, "tools")][..],
                "`tools` alone: write `connector.name`",
            ),
            (&[(name, "a/b")], "`connector.name` cannot be `a/b`"),
            (&[(name, "")], "`connector.name` cannot be ``"),
            (
                &[(name, "a"), (namespace, "")],
                "`connector.namespace` cannot be ``",
            ),
            (
                &[(name, "a"), (namespace, "b/c")],
                "`connector.namespace` cannot be `b/c`",
            ),
            (
                &[(name, "a"), ("connectors", "b")],
                "`connectors: b` and `connector.name: a` exclude each other",
            ),
            (
                &[(namespace, "a"), ("connectors", "b")],
                "`connectors: b` and `connector.namespace: a` exclude each other",
            ),
            (&[], "`connectors` is missing"),
        ] {
            let error = names(fields).unwrap_err();
            assert!(error.contains(told), "{fields:?}: {error}");
        }
    }

    #[test]
    fn permissions_are_apis_or_proxy() {
        let permission = |word: &str| parse(&[("connectors", "harbor"), ("permission", word)]);
        assert_eq!(
            parse(&[("connectors", "harbor")]).unwrap().permission,
            Permission::Apis
        );
        assert_eq!(permission("proxy").unwrap().permission, Permission::Proxy);
        for bad in ["", "*", "APIS", "write"] {
            let error = permission(bad).unwrap_err();
            assert_eq!(error, WishError::Permission(bad.to_owned()));
        }
    }

    #[test]
    fn a_refused_pod_fails_or_gets_a_file() {
        let way = |word: &str| {
            let parsed = parse(&[("connectors", "harbor"), ("onRejected", word)]);
            parsed.map(|it| it.options.on_rejected)
        };
        let default = parse(&[("connectors", "harbor")]).unwrap();
        assert_eq!(default.options.on_rejected, OnRejected::Fail);
        assert_eq!(way("Fail"), Ok(OnRejected::Fail));
        assert_eq!(way("ErrorFile"), Ok(OnRejected::ErrorFile));
        for bad in ["", "fail", "errorFile", "ErrorFile ", "FailPod"] {
            let error = WishError::OnRejected(bad.to_owned());
            assert_eq!(way(bad), Err(error.clone()));
            assert!(error.to_string().ends_with("use Fail or ErrorFile"));
        }
        let likely = parse(&[("connectors", "harbor"), ("onreject", "Fail")]).unwrap_err();
        let likely = likely.to_string();
        assert!(likely.ends_with("did you mean `onRejected`?"), "{likely}");
    }

    proptest! {
        #[test]
        fn no_attributes_make_it_panic_and_every_message_is_short(key in "\\PC{0,300}", value in "\\PC{0,300}") {
            for fields in [[(key.as_str(), value.as_str())], [("connectors", value.as_str())]] {
                if let Err(error) = parse(&fields) {
                    prop_assert!(error.to_string().len() < 1024);
                }
            }
        }
    }
}
