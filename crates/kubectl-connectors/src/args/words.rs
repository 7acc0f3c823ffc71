//! The words of a command line: targets, connectors, accounts, phases and times.

use std::time::Duration;

use clap::ValueEnum;
use connectors_api::access_request::Phase;
use connectors_api::names::{is_dns_label, is_dns_subdomain};
use connectors_api::{Permission, pod_wish};

use crate::terms::NamespacedName;

/// The target of an explanation. Its namespace is that of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ExplainTarget {
    /// A pod.
    Pod(String),
    /// An access request.
    Request(String),
    /// A connector.
    Connector(String),
}

/// A connector as it is written: without a namespace, that of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenConnector(String);

/// The program that completes a command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CompletedBy {
    /// bash
    Bash,
    /// elvish
    Elvish,
    /// fish
    Fish,
    /// PowerShell
    #[value(name = "powershell")]
    PowerShell,
    /// zsh
    Zsh,
    /// kubectl, in any of these shells
    Kubectl,
}

impl WrittenConnector {
    /// Its namespace and name, in this namespace if it names none.
    #[must_use]
    pub fn within(&self, namespace: &str) -> NamespacedName {
        let (namespace, name) = self.0.split_once('/').unwrap_or((namespace, &self.0));
        NamespacedName::new(namespace, name)
    }
}

pub(super) fn written_connector(text: &str) -> Result<WrittenConnector, String> {
    match pod_wish::connector("namespace", text) {
        Ok(_) => Ok(WrittenConnector(text.to_owned())),
        Err(_) => Err("write a connector as NAME or NAMESPACE/NAME".to_owned()),
    }
}

/// A policy as it is written: without a namespace, that of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenPolicy(String);

impl WrittenPolicy {
    /// Its namespace and name, in this namespace if it names none.
    #[must_use]
    pub fn within(&self, namespace: &str) -> NamespacedName {
        let (namespace, name) = self.0.split_once('/').unwrap_or((namespace, &self.0));
        NamespacedName::new(namespace, name)
    }
}

pub(super) fn written_policy(text: &str) -> Result<WrittenPolicy, String> {
    let (namespace, name) = text.split_once('/').unwrap_or(("namespace", text));
    if is_dns_label(namespace) && is_dns_subdomain(name) {
        Ok(WrittenPolicy(text.to_owned()))
    } else {
        Err("write a policy as NAME or NAMESPACE/NAME".to_owned())
    }
}

pub(super) fn phase(text: &str) -> Result<Phase, String> {
    let mut all = Phase::ALL.iter();
    let found = all.find(|it| it.as_str().eq_ignore_ascii_case(text));
    found.copied().ok_or_else(|| {
        let all: Vec<_> = Phase::ALL.iter().map(|it| it.as_str()).collect();
        format!("write one of {}", all.join(", "))
    })
}

/// A service account as it is written: without a namespace, that of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenAccount {
    /// Its namespace, if one is written.
    pub namespace: Option<String>,
    /// Its name.
    pub name: String,
}

impl WrittenAccount {
    /// Its namespace and name, in this namespace if it names none.
    #[must_use]
    pub fn within(&self, namespace: &str) -> NamespacedName {
        let namespace = self.namespace.as_deref().unwrap_or(namespace);
        NamespacedName::new(namespace, &self.name)
    }
}

pub(super) fn explain_target(text: &str) -> Result<ExplainTarget, String> {
    let (kind, name) = text.split_once('/').unwrap_or(("pod", text));
    let target: fn(String) -> ExplainTarget = match kind {
        "pod" | "pods" | "po" => ExplainTarget::Pod,
        "areq" | "accessrequest" | "accessrequests" => ExplainTarget::Request,
        "connector" | "connectors" | "conn" => ExplainTarget::Connector,
        _ => {
            return Err(format!(
                "`{kind}` cannot be explained: write pod/NAME, areq/NAME or connector/NAME"
            ));
        }
    };
    if is_dns_subdomain(name) {
        Ok(target(name.to_owned()))
    } else {
        Err(format!("`{name}` is no name of an object"))
    }
}

/// A service account, as NAME, NAMESPACE/NAME or system:serviceaccount:NAMESPACE:NAME.
pub(super) fn account(text: &str) -> Result<WrittenAccount, String> {
    let short = text.strip_prefix("system:serviceaccount:");
    let (namespace, name) = match short {
        Some(rest) => rest
            .split_once(':')
            .map_or((None, rest), |(a, b)| (Some(a), b)),
        None => text
            .split_once('/')
            .map_or((None, text), |(a, b)| (Some(a), b)),
    };
    let is_valid = namespace.is_none_or(is_dns_label) && is_dns_subdomain(name);
    if is_valid && (short.is_none() || namespace.is_some()) {
        Ok(WrittenAccount {
            namespace: namespace.map(str::to_owned),
            name: name.to_owned(),
        })
    } else {
        Err("write a service account as NAME or NAMESPACE/NAME".to_owned())
    }
}

pub(super) fn permission(text: &str) -> Result<Permission, String> {
    Permission::from_segment(text).ok_or_else(|| "write apis or proxy".to_owned())
}

pub(super) fn namespace(text: &str) -> Result<String, String> {
    if is_dns_label(text) {
        Ok(text.to_owned())
    } else {
        Err("not the name of a namespace".to_owned())
    }
}

pub(super) fn seconds(text: &str) -> Result<Duration, String> {
    let number = text.strip_suffix('s').unwrap_or(text);
    match number.parse() {
        Ok(seconds @ 1..=3600) => Ok(Duration::from_secs(seconds)),
        Ok(_) | Err(_) => Err("write seconds between 1 and 3600, such as 30 or 30s".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_kind_and_a_name() {
        let target = |text: &str| explain_target(text);
        for pod in ["x", "pod/x", "po/x", "pods/x"] {
            assert_eq!(target(pod), Ok(ExplainTarget::Pod("x".to_owned())));
        }
        assert_eq!(target("areq/x"), Ok(ExplainTarget::Request("x".to_owned())));
        assert_eq!(
            target("conn/x"),
            Ok(ExplainTarget::Connector("x".to_owned()))
        );
        for (wrong, told) in [
            ("secret/x", "write pod/NAME"),
            ("pod/", "is no name"),
            ("pod/a b", "is no name"),
            ("", "is no name"),
        ] {
            assert!(target(wrong).unwrap_err().contains(told), "{wrong}");
        }
    }

    #[test]
    fn an_account_is_written_in_three_ways() {
        for (text, namespace) in [
            ("builder", None),
            ("team-a/builder", Some("team-a")),
            ("system:serviceaccount:team-a:builder", Some("team-a")),
        ] {
            let found = account(text).unwrap();
            assert_eq!(found.name, "builder");
            assert_eq!(found.namespace.as_deref(), namespace);
            let within = found.within("home");
            assert_eq!(within.namespace, namespace.unwrap_or("home"));
        }
        for wrong in ["", "a/b/c", "A/b", "system:serviceaccount:b"] {
            assert!(account(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_connector_is_written_with_or_without_its_namespace() {
        let within = |text: &str| written_connector(text).unwrap().within("home").to_string();
        assert_eq!(within("harbor"), "home/harbor");
        assert_eq!(within("tools/harbor"), "tools/harbor");
        for wrong in ["", "/", "a/b/c", "A"] {
            assert!(written_connector(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_phase_is_written_in_any_case() {
        assert_eq!(phase("pending"), Ok(Phase::Pending));
        assert!(phase("open").unwrap_err().contains("Pending, Granted"));
    }

    #[test]
    fn a_timeout_is_given_in_seconds() {
        assert_eq!(seconds("5"), Ok(Duration::from_secs(5)));
        assert_eq!(seconds("5s"), Ok(Duration::from_secs(5)));
        for wrong in ["", "0", "-1", "5m", "4000"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
