//! Names that nearly equal those of a policy (longer, shorter, other case) do not match.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Applies, Asker, Labels, NamespaceKeys, RequesterMatch, Requesters, WantedConnector};
use super::{applies, gives_standing};
use crate::config::DefaultRequesters;
use crate::testing::nearly;
use crate::{AccessPolicySpec, Permission};

/// The policy's own namespace.
const OWN: &str = "tools";

/// The asking account and the requested connector, with matching labels.
#[derive(Clone, Debug)]
struct Asks {
    connector: String,
    class: String,
    namespace: String,
    name: String,
    role: String,
    project: String,
}

fn exactly() -> Asks {
    Asks {
        connector: "prod".to_owned(),
        class: "harbor".to_owned(),
        namespace: "devops".to_owned(),
        name: "builder".to_owned(),
        role: "builds".to_owned(),
        project: "devops-project".to_owned(),
    }
}

fn labels(key: &str, value: &str) -> Labels {
    BTreeMap::from([(key.to_owned(), value.to_owned())])
}

impl Asks {
    /// Whether a policy with this only subject lets the account ask, whether it gives it a standing
    /// permission, and whether its compiled requesters accept the account.
    fn said(&self, subject: &Value) -> [bool; 3] {
        let (account, home) = (labels("role", &self.role), labels("project", &self.project));
        let asker = Asker {
            namespace: &self.namespace,
            name: &self.name,
            labels: Some(&account),
            namespace_labels: Some(&home),
        };
        let class = labels("class", &self.class);
        let wanted = WantedConnector {
            connector: &self.connector,
            labels: &class,
            permission: Permission::Apis,
        };
        let spec: AccessPolicySpec = serde_json::from_value(json!({
            "connector": {"names": ["prod"], "selector": {"matchLabels": {"class": "harbor"}}},
            "defaultPermission": {
                "roleTemplate": {"rules": []}, "bindingTemplate": {"subjects": [subject]},
            },
            "checkGrantedPermission": {"requesters": [subject], "spec": {
                "checks": [{"name": "c", "selector": {
                    "labels": {"a": "b"}, "objectRef": {"apiVersion": "v1", "kind": "ConfigMap"},
                }}],
                "permissions": {"roleTemplate": {"rules": []}},
            }},
        }))
        .unwrap();
        let asks = applies(&spec, OWN, wanted, asker, DefaultRequesters::Namespace);
        let keys = NamespaceKeys::parse(r#"["project"]"#).unwrap();
        let stands = gives_standing(&spec, OWN, wanted, asker, &keys);
        let granted = spec.check_granted_permission.as_ref().unwrap();
        let compiled = Requesters::of(granted, OWN).accept(OWN, asker, None);
        [
            asks == Applies::Yes,
            stands == Some(Applies::Yes),
            compiled == RequesterMatch::Yes,
        ]
    }
}

/// The part of the asker that a subject compares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Namespace,
    Name,
    Role,
    Project,
}

const PARTS: [Part; 4] = [Part::Namespace, Part::Name, Part::Role, Part::Project];

impl Part {
    fn of(self, asks: &mut Asks) -> &mut String {
        match self {
            Self::Namespace => &mut asks.namespace,
            Self::Name => &mut asks.name,
            Self::Role => &mut asks.role,
            Self::Project => &mut asks.project,
        }
    }
}

fn forms() -> Vec<(Value, Vec<Part>)> {
    use Part::{Name, Namespace, Project, Role};
    let project = json!({"matchLabels": {"project": "devops-project"}});
    let builds = json!({"matchLabels": {"role": "builds"}});
    vec![
        (
            json!({"kind": "ServiceAccount", "namespace": "devops", "name": "builder"}),
            vec![Namespace, Name],
        ),
        (
            json!({"kind": "ServiceAccount", "name": "system:serviceaccount:devops:builder"}),
            vec![Namespace, Name],
        ),
        (
            json!({"kind": "User", "name": "system:serviceaccount:devops:builder"}),
            vec![Namespace, Name],
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts:devops"}),
            vec![Namespace],
        ),
        (
            json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": project}),
            vec![Project],
        ),
        (
            json!({"kind": "ServiceAccount", "nameSelector": builds, "namespaceSelector": project}),
            vec![Role, Project],
        ),
    ]
}

#[test]
fn a_subject_is_nobody_whose_names_or_labels_are_nearly_the_same() {
    for (subject, looked_at) in forms() {
        assert_eq!(exactly().said(&subject), [true; 3], "{subject}");
        for part in PARTS {
            for other in nearly(part.of(&mut exactly())) {
                let mut asks = exactly();
                part.of(&mut asks).clone_from(&other);
                let expected = [!looked_at.contains(&part); 3];
                assert_eq!(
                    asks.said(&subject),
                    expected,
                    "{subject} {part:?} {other:?}"
                );
            }
        }
    }
}

#[test]
fn a_connector_of_nearly_the_same_name_or_label_is_another_one() {
    for (subject, _) in forms() {
        let names = nearly("prod").into_iter().map(|it| Asks {
            connector: it,
            ..exactly()
        });
        let classes = nearly("harbor").into_iter().map(|it| Asks {
            class: it,
            ..exactly()
        });
        for asks in names.chain(classes) {
            // The requesters do not depend on the connector.
            let said = asks.said(&subject);
            assert_eq!(said, [false, false, true], "{asks:?}");
        }
    }
}

#[test]
fn the_policys_own_namespace_is_no_other_one() {
    let mut asks = exactly();
    let subject = json!({"kind": "ServiceAccount", "name": "builder"});
    for (namespace, expected) in nearly(OWN)
        .into_iter()
        .map(|it| (it, false))
        .chain([(OWN.to_owned(), true)])
    {
        asks.namespace.clone_from(&namespace);
        assert_eq!(asks.said(&subject), [expected; 3], "{namespace:?}");
    }
}
