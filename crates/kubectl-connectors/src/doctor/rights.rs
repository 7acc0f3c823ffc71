//! Rights around the product: subjects that need no approval.

use std::collections::{BTreeMap, BTreeSet};

use authz::{AllowedBy, Attributes, RbacIndex, ResourceRequest, Subject, Target};
use connectors_api::{Permission, names};
use kube::ResourceExt;
use service_kit::reviews::{account_of, accounts_of};

use super::{DoctorFinding, DoctorRead, DoctorSeverity, DoctorWord, narrow};
use crate::rbac;
use crate::terms::shell;

/// The limit of examined subjects.
const MOST: usize = 64;
/// The verb of every mount.
const ANY_VERB: &str = "*";
/// The consequence of a right of an account.
const OF_AN_ACCOUNT: &str =
    "a pod that runs as it needs no approval, and whoever may create pods beside it can run one";
/// The user of callers without a name.
const ANONYMOUS: &str = "system:anonymous";
/// An access to an unnamed connector of a namespace, or of each if it is empty. A rule that names connectors does not
/// allow it.
const fn every_connector(permission: Permission, namespace: &str) -> Target<'_> {
    Target::Resource(ResourceRequest {
        group: names::GROUP,
        resource: names::CONNECTORS,
        subresource: permission.as_str(),
        namespace,
        name: "",
        field_selector: None,
        label_selector: None,
    })
}

pub(super) fn examine(read: &DoctorRead) -> Vec<DoctorFinding> {
    let mut found = Vec::new();
    if let Some(index) = &read.rbac {
        found.extend(within(read, index, ""));
    }
    if let Some(index) = &read.rbac_of_scope {
        let connectors = read.connectors.iter().flatten().flatten();
        let namespaces: BTreeSet<_> = connectors.filter_map(ResourceExt::namespace).collect();
        for namespace in &namespaces {
            found.extend(within(read, index, namespace));
        }
    }
    found
}

/// The subjects that may use every connector of a namespace by its bindings, or of the cluster if it is empty.
fn within(read: &DoctorRead, index: &RbacIndex, namespace: &str) -> Vec<DoctorFinding> {
    let place = RightsPlace(namespace);
    let mut found = Vec::new();
    let mut holders: BTreeMap<(Subject, String), Vec<Permission>> = BTreeMap::new();
    for permission in Permission::ALL.iter().copied() {
        let target = every_connector(permission, namespace);
        let who = index.who_can(ANY_VERB, target, MOST, |_| true);
        if who.is_cut {
            let finding = DoctorFinding::new(
                DoctorSeverity::Warning,
                DoctorWord::RightsTooWide,
                place.bindings(),
                format!(
                    "more than {MOST} subjects may use {permission} of every connector{}; the others are not listed",
                    place.of()
                ),
                "take the subjects out of the bindings, or narrow their roles",
            );
            found.push(finding.with_command(place.list()));
        }
        for subject in who.subjects {
            if rbac::is_of_the_cluster(&subject) || is_ours(&subject, &read.system_namespace) {
                continue;
            }
            for binding in bindings(index, &subject, target) {
                let key = (subject.clone(), binding);
                holders.entry(key).or_default().push(permission);
            }
        }
    }
    // All that is to be mended in a binding is mended by one object.
    let mut outsiders: BTreeMap<&str, BTreeSet<&Subject>> = BTreeMap::new();
    for (subject, binding) in holders.keys() {
        if weight(place, subject).0 < DoctorSeverity::Hint {
            outsiders.entry(binding).or_default().insert(subject);
        }
    }
    for ((subject, binding), permissions) in &holders {
        let finding = finding(place, subject, binding, permissions);
        let out = outsiders.get(binding.as_str());
        let out = out.filter(|it| it.contains(subject));
        let object = out.and_then(|it| narrow::without(&read.rbac_objects, namespace, binding, it));
        found.push(match object {
            Some(object) => finding.with_object(object),
            None => finding,
        });
    }
    found
}

/// The namespace whose connectors are used, or the cluster if it is empty.
#[derive(Clone, Copy)]
struct RightsPlace<'a>(&'a str);

impl RightsPlace<'_> {
    fn of(self) -> String {
        match self.0 {
            "" => String::new(),
            namespace => format!(" of namespace {namespace}"),
        }
    }

    fn bindings(self) -> String {
        match self.0 {
            "" => "ClusterRoleBindings".to_owned(),
            namespace => format!("RoleBindings of namespace {namespace}"),
        }
    }

    fn binding(self, name: &str) -> String {
        match self.0 {
            "" => format!("ClusterRoleBinding {name}"),
            namespace => format!("RoleBinding {namespace}/{name}"),
        }
    }

    /// The people who should have such a right.
    fn owners(self) -> &'static str {
        match self.0 {
            "" => "administrators of the cluster",
            _ => "owners of the connectors",
        }
    }

    fn list(self) -> String {
        match self.0 {
            "" => "kubectl get clusterrolebindings -o wide".to_owned(),
            namespace => format!("kubectl -n {} get rolebindings -o wide", shell(namespace)),
        }
    }

    fn edit(self, name: &str) -> String {
        let name = shell(name);
        match self.0 {
            "" => format!("kubectl edit clusterrolebinding {name}"),
            namespace => format!("kubectl -n {} edit rolebinding {name}", shell(namespace)),
        }
    }
}

/// The controllers hold every right that they grant.
fn is_ours(subject: &Subject, system_namespace: &str) -> bool {
    let namespace = match subject {
        Subject::ServiceAccount { namespace, .. } => Some(&**namespace),
        Subject::Group(name) => accounts_of(name),
        Subject::User(name) => account_of(name).map(|(namespace, _)| namespace),
    };
    namespace == Some(system_namespace)
}

/// The names of the bindings that allow it.
fn bindings(index: &RbacIndex, subject: &Subject, target: Target<'_>) -> Vec<String> {
    let user = subject.alone();
    let grants = index.allowing(&Attributes {
        user: &user,
        verb: ANY_VERB,
        target,
    });
    let name = |AllowedBy { binding, .. }: AllowedBy<'_>| binding.name().to_owned();
    let mut names: Vec<_> = grants.take(MOST).map(name).collect();
    names.sort();
    names.dedup();
    names
}

/// How bad it is that a subject may use every connector, and why.
fn weight(place: RightsPlace<'_>, subject: &Subject) -> (DoctorSeverity, String) {
    let (severity, consequence) = match subject {
        Subject::Group(name) if rbac::is_everybody(name) => {
            (DoctorSeverity::Error, "no pod needs an approval")
        }
        Subject::Group(name) if accounts_of(name).is_some() => (
            DoctorSeverity::Warning,
            "no pod of that namespace needs an approval",
        ),
        Subject::User(name) if **name == *ANONYMOUS => {
            (DoctorSeverity::Error, "every caller without a name may")
        }
        Subject::User(name) if account_of(name).is_some() => {
            (DoctorSeverity::Warning, OF_AN_ACCOUNT)
        }
        Subject::ServiceAccount { .. } => (DoctorSeverity::Warning, OF_AN_ACCOUNT),
        Subject::Group(_) | Subject::User(_) => {
            let owners = format!("this is as it should be for {} alone", place.owners());
            return (DoctorSeverity::Hint, owners);
        }
    };
    (severity, consequence.to_owned())
}

fn finding(
    place: RightsPlace<'_>,
    subject: &Subject,
    binding: &str,
    permissions: &[Permission],
) -> DoctorFinding {
    let (severity, consequence) = weight(place, subject);
    let permissions: Vec<_> = permissions.iter().map(|it| it.as_str()).collect();
    let finding = DoctorFinding::new(
        severity,
        DoctorWord::RightsTooWide,
        place.binding(binding),
        format!(
            "{} may use {} of every connector{}: {consequence}",
            rbac::subject(subject),
            permissions.join(" and "),
            place.of()
        ),
        "take the subject out of the binding, or narrow its role",
    );
    finding.with_command(place.edit(binding))
}
