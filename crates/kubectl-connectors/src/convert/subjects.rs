//! The service accounts of a standing permission.

use connectors_api::access_policy::{SubjectKind, SubjectSpec};
use connectors_api::names::{is_dns_label, is_dns_subdomain};
use connectors_api::selector::{Operator, Requirement};
use connectors_api::{LabelSelector, quoted};

use super::place::{ConvertLog, ConvertSource, Origins};
use super::shipped::{ShippedAccounts, ShippedSelector};
use super::words::{NoteWord, RefusalWord};

/// The group of all service accounts. With a namespace behind a colon it is the group of those of the namespace.
const ALL_ACCOUNTS: &str = "system:serviceaccounts";
/// The label of a namespace with its name, which Kubernetes sets.
const NAME_OF_NAMESPACE: &str = "kubernetes.io/metadata.name";

/// The subjects of `spec.defaultPermission.bindingTemplate`. Those that cannot be said are refused and left out.
pub(super) fn subjects(
    source: ConvertSource<'_>,
    accounts: &[ShippedAccounts],
    origins: &mut Origins,
    log: &mut ConvertLog,
) -> Vec<SubjectSpec> {
    let base = "spec.defaultPermission.bindingTemplate";
    origins.add(
        format!("{base}.subjects"),
        source.at(&format!("{base}.serviceAccounts")),
    );
    let mut subjects = Vec::new();
    for (place, accounts) in accounts.iter().enumerate() {
        let at = format!("{base}.serviceAccounts[{place}]");
        for subject in entry(source, &at, accounts, log) {
            let converted = format!("{base}.subjects[{}]", subjects.len());
            origins.add(converted, source.at(&at));
            subjects.push(subject);
        }
    }
    subjects
}

/// The accounts by name, unless there is none: `[]` and `[""]` both say all of the namespaces.
fn names(accounts: &ShippedAccounts) -> &[String] {
    match accounts.names.as_deref() {
        Some([only]) if only.is_empty() => &[],
        Some(names) => names,
        None => &[],
    }
}

fn entry(
    source: ConvertSource<'_>,
    at: &str,
    accounts: &ShippedAccounts,
    log: &mut ConvertLog,
) -> Vec<SubjectSpec> {
    let nothing = ShippedSelector::default();
    let selector = accounts.namespace_selector.as_ref().unwrap_or(&nothing);
    let ShippedSelector {
        names: namespaces,
        match_labels,
        match_expressions,
    } = selector;
    let namespaces = namespaces.as_deref().unwrap_or_default();
    let labels = LabelSelector {
        match_labels: match_labels.clone().unwrap_or_default(),
        match_expressions: match_expressions.clone().unwrap_or_default(),
    };
    let names = names(accounts);
    let at_selector = format!("{at}.namespaceSelector");
    if !are_names(source, at, names, namespaces, log) {
        return Vec::new();
    }
    if namespaces.is_empty() && labels.is_empty() {
        let (word, message) = if names.is_empty() {
            let message = "selects every service account of the cluster by saying nothing";
            (RefusalWord::EmptySelectsEverything, message)
        } else {
            let message = "selects accounts of these names in every namespace of the cluster";
            (RefusalWord::AccountsByNamespaceLabel, message)
        };
        let fix = "name the namespaces in namespaceSelector.names";
        log.refuse(source.at(&at_selector), word, message, fix);
        return Vec::new();
    }
    match (names.is_empty(), labels.is_empty()) {
        (true, true) => namespaces.iter().map(|it| group(it)).collect(),
        (true, false) => vec![by_label(source, &at_selector, labels, namespaces, log)],
        (false, true) => {
            let pairs = namespaces.iter().flat_map(|namespace| {
                let names = names.iter();
                names.map(move |name| account(namespace, name))
            });
            pairs.collect()
        }
        (false, false) => {
            let message =
                "selects accounts by name in namespaces by label, and a subject here has either";
            let fix = "name the namespaces in namespaceSelector.names; or label the accounts, and write a nameSelector by hand";
            let word = RefusalWord::AccountsByNamespaceLabel;
            log.refuse(source.at(&at_selector), word, message, fix);
            Vec::new()
        }
    }
}

/// Other names would be read as something else: `system:serviceaccount:a:b` as an account of namespace `a`.
fn are_names(
    source: ConvertSource<'_>,
    at: &str,
    names: &[String],
    namespaces: &[String],
    log: &mut ConvertLog,
) -> bool {
    let mut are = true;
    let mut refuse = |path: String, what: &str, name: &str| {
        let message = format!("`{}` is no name that a {what} can have", quoted(name));
        log.refuse(
            source.at(&path),
            RefusalWord::NameInvalid,
            message,
            "remove it, or correct it",
        );
        are = false;
    };
    for (place, name) in names.iter().enumerate() {
        if !is_dns_subdomain(name) {
            refuse(format!("{at}.names[{place}]"), "service account", name);
        }
    }
    for (place, name) in namespaces.iter().enumerate() {
        if !is_dns_label(name) {
            let path = format!("{at}.namespaceSelector.names[{place}]");
            refuse(path, "namespace", name);
        }
    }
    are
}

/// All accounts of namespaces by label. With names beside the labels, a namespace must satisfy both.
fn by_label(
    source: ConvertSource<'_>,
    at: &str,
    mut labels: LabelSelector,
    namespaces: &[String],
    log: &mut ConvertLog,
) -> SubjectSpec {
    let others: Vec<&str> = labels
        .keys()
        .filter(|it| *it != NAME_OF_NAMESPACE)
        .collect();
    if !others.is_empty() {
        let keys: Vec<String> = others.into_iter().map(quoted).collect();
        let message = format!(
            "namespaces are selected by {}: list it in policies.namespaceSelectorKeys of the chart",
            keys.join(", ")
        );
        log.note(source.at(at), NoteWord::NamespaceKeysNeeded, message);
    }
    if !namespaces.is_empty() {
        let message = "names and labels of namespaces: both must match";
        log.note(source.at(at), NoteWord::NamesAndLabels, message);
        labels.match_expressions.push(Requirement {
            key: NAME_OF_NAMESPACE.to_owned(),
            operator: Operator::In,
            values: namespaces.to_vec(),
        });
    }
    SubjectSpec {
        namespace_selector: Some(labels),
        ..subject(SubjectKind::Group, ALL_ACCOUNTS.to_owned())
    }
}

fn group(namespace: &str) -> SubjectSpec {
    subject(SubjectKind::Group, format!("{ALL_ACCOUNTS}:{namespace}"))
}

fn account(namespace: &str, name: &str) -> SubjectSpec {
    SubjectSpec {
        namespace: Some(namespace.to_owned()),
        ..subject(SubjectKind::ServiceAccount, name.to_owned())
    }
}

const fn subject(kind: SubjectKind, name: String) -> SubjectSpec {
    SubjectSpec {
        kind,
        name: Some(name),
        namespace: None,
        name_selector: None,
        namespace_selector: None,
    }
}
