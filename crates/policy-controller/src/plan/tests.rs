//! Random worlds and edits, against a function that is slow and obviously right.

mod known;

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{wanted::RbacSubject, *};
use crate::testing::{Access, Around, OWN, access, owner, write};

/// Small enough that most lists have several parts.
const SOME_BYTES: usize = 160;

/// A policy and the objects from which it selects.
#[derive(Clone, Debug)]
struct World {
    /// None: it is gone.
    policy: Option<Value>,
    around: Around,
}

/// Whether labels satisfy a selector, as its text says.
fn satisfies(labels: &BTreeMap<String, String>, selector: &Value) -> bool {
    let empty = Vec::new();
    let wanted: BTreeMap<String, String> =
        serde_json::from_value(selector["matchLabels"].clone()).unwrap_or_default();
    let expressions = selector["matchExpressions"].as_array().unwrap_or(&empty);
    if wanted.is_empty() && expressions.is_empty() {
        return false;
    }
    for (key, value) in &wanted {
        if labels.get(key) != Some(value) {
            return false;
        }
    }
    for expression in expressions {
        let value = labels.get(expression["key"].as_str().unwrap());
        let values = expression["values"].as_array().unwrap_or(&empty);
        let is_listed = value.is_some_and(|it| values.contains(&json!(it)));
        let holds = match expression["operator"].as_str().unwrap() {
            "In" => is_listed,
            "NotIn" => !is_listed,
            "Exists" => value.is_some(),
            "DoesNotExist" => value.is_none(),
            other => panic!("{other}"),
        };
        if !holds {
            return false;
        }
    }
    true
}

/// Whether the text of a selector names a value, as subjects have to.
fn names_values(selector: &Value) -> bool {
    let empty = Vec::new();
    let mut expressions = selector["matchExpressions"]
        .as_array()
        .unwrap_or(&empty)
        .iter();
    selector.get("matchLabels").is_some() || expressions.any(|it| it["operator"] == "In")
}

/// Whether a subject form means this subject, regardless of the Role.
fn is_meant(who: &RbacSubject, subject: &Value, around: &Around) -> bool {
    let text = |field: &str| subject[field].as_str();
    let is_open = |field: &str| subject.get(field).is_some_and(|it| !names_values(it));
    let is_account_by_name = subject["kind"] == "ServiceAccount" && subject.get("name").is_some();
    if !is_account_by_name && (is_open("nameSelector") || is_open("namespaceSelector")) {
        return false;
    }
    let in_selected = |namespace: &str| {
        let labels = around.namespaces.get(namespace);
        labels.is_some_and(|labels| satisfies(labels, &subject["namespaceSelector"]))
    };
    match (text("kind").unwrap(), who.kind.as_str()) {
        ("ServiceAccount", "ServiceAccount") => {
            if let Some(name) = text("name") {
                let full = format!("system:serviceaccount:{}:{}", who.namespace, who.name);
                let namespace = text("namespace").unwrap_or(OWN);
                return name == full || (name == who.name && namespace == who.namespace);
            }
            let labels = around
                .accounts
                .get(&who.namespace)
                .and_then(|it| it.get(&who.name));
            let is_there = match subject.get("namespaceSelector") {
                Some(_) => in_selected(&who.namespace),
                None => who.namespace == OWN,
            };
            is_there && labels.is_some_and(|labels| satisfies(labels, &subject["nameSelector"]))
        }
        ("Group", "Group") if subject.get("namespaceSelector").is_none() => {
            text("name") == Some(&who.name)
        }
        ("Group", "Group") => {
            let namespace = who.name.strip_prefix("system:serviceaccounts:");
            namespace.is_some_and(in_selected)
        }
        ("User", "User") => text("name") == Some(&who.name),
        _ => false,
    }
}

/// All subjects that a policy of these worlds could mean.
fn everybody() -> Vec<RbacSubject> {
    let holder = |kind: &str, namespace: &str, name: &str| RbacSubject {
        kind: kind.to_owned(),
        namespace: namespace.to_owned(),
        name: name.to_owned(),
    };
    let mut all = vec![
        holder("User", "", "alice"),
        holder("User", "", "bob"),
        holder("Group", "", "developers"),
        holder("Group", "", "system:serviceaccounts"),
    ];
    for namespace in NAMESPACES {
        let group = format!("system:serviceaccounts:{namespace}");
        all.push(holder("Group", "", &group));
        for name in ACCOUNTS {
            all.push(holder("ServiceAccount", namespace, name));
        }
    }
    all
}

/// The permissions that all subjects should hold.
fn reference(world: &World) -> Access {
    let mut access = Access::new();
    let Some(policy) = &world.policy else {
        return access;
    };
    let given = &policy["defaultPermission"];
    let subjects = given["bindingTemplate"]["subjects"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let rules = given["roleTemplate"]["rules"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if policy.get("unknown").is_some()
        || rules
            .iter()
            .any(|it| it["apiGroups"] != json!(["connectors.alauda.io"]))
    {
        return access;
    }
    for (connector, labels) in &world.around.connectors {
        let names = policy["connector"].get("names").and_then(Value::as_array);
        let selector = policy["connector"].get("selector");
        if names.is_some_and(|names| !names.contains(&json!(connector)))
            || selector.is_some_and(|it| !satisfies(labels, it))
        {
            continue;
        }
        for who in everybody() {
            if !subjects.iter().any(|it| is_meant(&who, it, &world.around)) {
                continue;
            }
            for rule in &rules {
                for resource in rule["resources"].as_array().unwrap() {
                    for verb in rule["verbs"].as_array().unwrap() {
                        let text = |it: &Value| it.as_str().unwrap().to_owned();
                        access.insert((who.clone(), text(verb), text(resource), connector.clone()));
                    }
                }
            }
        }
    }
    access
}

const NAMESPACES: [&str; 4] = [OWN, "n1", "n2", "n3"];
const ACCOUNTS: [&str; 3] = ["default", "builder", "deployer"];
const CONNECTORS: [&str; 5] = ["harbor", "git", "npm", "maven", "cluster"];

fn some_labels() -> BoxedStrategy<Labels> {
    let value = proptest::option::of(prop_oneof![Just("a"), Just("b")]);
    (value.clone(), value)
        .prop_map(|(x, y)| {
            let pairs = [("x", x), ("y", y)];
            let pairs = pairs
                .into_iter()
                .filter_map(|(key, it)| Some((key.to_owned(), it?.to_owned())));
            pairs.collect()
        })
        .boxed()
}

type Labels = BTreeMap<String, String>;

fn some_selector() -> BoxedStrategy<Value> {
    let key = || prop_oneof![Just("x"), Just("y")];
    let value = || prop_oneof![Just("a"), Just("b")];
    prop_oneof![
        4 => (key(), value()).prop_map(|(key, value)| json!({"matchLabels": {key: value}})),
        2 => (key(), prop_oneof![Just("In"), Just("NotIn")], value())
            .prop_map(|(key, operator, value)| json!({"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]})),
        2 => (key(), prop_oneof![Just("Exists"), Just("DoesNotExist")])
            .prop_map(|(key, operator)| json!({"matchExpressions": [{"key": key, "operator": operator}]})),
        1 => (value(), value()).prop_map(|(x, y)| json!({"matchLabels": {"x": x}, "matchExpressions": [{"key": "y", "operator": "In", "values": [y]}]})),
        1 => Just(json!({})),
    ].boxed()
}

fn some_subject() -> BoxedStrategy<Value> {
    let account = || proptest::sample::select(ACCOUNTS.to_vec());
    let namespace = || proptest::sample::select(NAMESPACES.to_vec());
    prop_oneof![
        proptest::sample::select(vec!["alice", "bob"]).prop_map(|it| json!({"kind": "User", "name": it})),
        Just(json!({"kind": "Group", "name": "developers"})),
        Just(json!({"kind": "Group", "name": "system:serviceaccounts"})),
        namespace().prop_map(|it| json!({"kind": "Group", "name": format!("system:serviceaccounts:{it}")})),
        some_selector().prop_map(|it| json!({"kind": "Group", "name": "system:serviceaccounts", "namespaceSelector": it})),
        account().prop_map(|it| json!({"kind": "ServiceAccount", "name": it})),
        (namespace(), account()).prop_map(|(namespace, it)| json!({"kind": "ServiceAccount", "name": it, "namespace": namespace})),
        (namespace(), account()).prop_map(|(namespace, it)| json!({"kind": "ServiceAccount", "name": format!("system:serviceaccount:{namespace}:{it}"), "nameSelector": {}, "namespaceSelector": {}})),
        some_selector().prop_map(|it| json!({"kind": "ServiceAccount", "nameSelector": it})),
        (some_selector(), some_selector()).prop_map(|(it, within)| json!({"kind": "ServiceAccount", "nameSelector": it, "namespaceSelector": within})),
    ].boxed()
}

fn some_policy() -> BoxedStrategy<Option<Value>> {
    let names = proptest::sample::subsequence(CONNECTORS.to_vec(), 1..4);
    let connector = prop_oneof![
        3 => Just(json!({})),
        2 => names.clone().prop_map(|names| json!({"names": names})),
        2 => some_selector().prop_map(|it| json!({"selector": it})),
        1 => (names, some_selector()).prop_map(|(names, it)| json!({"names": names, "selector": it})),
    ];
    let rule = |resource: &str, verbs: Value| json!({"apiGroups": ["connectors.alauda.io"], "resources": [resource], "verbs": verbs});
    let rules = prop_oneof![
        3 => Just(json!([rule("connectors/apis", json!(["read"]))])),
        2 => Just(json!([rule("connectors/apis", json!(["read", "write"]))])),
        2 => Just(json!([rule("connectors/apis", json!(["*"])), rule("connectors/apis/v1/pod/n1/runner", json!(["*"]))])),
        1 => Just(json!([{"apiGroups": [""], "resources": ["connectors/apis"], "verbs": ["*"]}])),
    ];
    let subjects = proptest::collection::vec(some_subject(), 1..4);
    let policy =
        (connector, rules, subjects, 0..12).prop_map(|(connector, rules, subjects, odd)| {
            let mut policy = json!({"connector": connector});
            if odd != 1 {
                policy["defaultPermission"] = json!({
                    "roleTemplate": {"rules": rules}, "bindingTemplate": {"subjects": subjects},
                });
            }
            if odd == 2 {
                policy["unknown"] = json!(true);
            }
            policy
        });
    proptest::option::weighted(0.95, policy).boxed()
}

/// One thing that changes.
#[derive(Clone, Debug)]
enum Edit {
    Policy(Option<Value>),
    Connector(&'static str, Option<Labels>),
    Namespace(&'static str, Option<Labels>),
    Account(&'static str, &'static str, Option<Labels>),
    /// Another client changes a managed object.
    Damage(Damage, usize),
}

/// The change of a Role or RoleBinding by another client.
#[derive(Clone, Copy, Debug)]
enum Damage {
    NoNames,
    MoreVerbs,
    NoRole,
    NoBinding,
    MoreSubjects,
    OtherRole,
}

const DAMAGES: [Damage; 6] = [
    Damage::NoNames,
    Damage::MoreVerbs,
    Damage::NoRole,
    Damage::NoBinding,
    Damage::MoreSubjects,
    Damage::OtherRole,
];

/// Does it to one of those that are there.
fn damage(there: &mut Managed, damage: Damage, which: usize) {
    let names: Vec<_> = there.bindings.keys().cloned().collect();
    let Some(name) = which.checked_rem(names.len()).map(|at| &names[at]) else {
        return;
    };
    let mut role = there.roles.get_mut(name).and_then(|it| it.object.as_mut());
    let rules = role.as_mut().and_then(|it| it.rules.as_mut());
    let rules = rules.into_iter().flatten();
    let binding = there.bindings.get_mut(name);
    let binding = binding.and_then(|it| it.object.as_mut()).unwrap();
    match damage {
        Damage::NoNames => rules.for_each(|it| it.resource_names = None),
        Damage::MoreVerbs => rules.for_each(|it| it.verbs.push("admin".to_owned())),
        Damage::MoreSubjects => {
            let mallory = RbacSubject {
                kind: "User".to_owned(),
                namespace: String::new(),
                name: "mallory".to_owned(),
            };
            let subjects = binding.subjects.get_or_insert_default();
            subjects.push(mallory.subject());
        }
        Damage::OtherRole => binding.role_ref.name = "admin".to_owned(),
        Damage::NoRole => drop(there.roles.remove(name)),
        Damage::NoBinding => drop(there.bindings.remove(name)),
    }
}

fn some_edit() -> BoxedStrategy<Edit> {
    let labels = || proptest::option::weighted(0.8, some_labels());
    let namespace = || proptest::sample::select(NAMESPACES.to_vec());
    prop_oneof![
        3 => some_policy().prop_map(Edit::Policy),
        2 => (proptest::sample::select(CONNECTORS.to_vec()), labels()).prop_map(|(name, it)| Edit::Connector(name, it)),
        2 => (namespace(), labels()).prop_map(|(name, it)| Edit::Namespace(name, it)),
        3 => (namespace(), proptest::sample::select(ACCOUNTS.to_vec()), labels())
            .prop_map(|(namespace, name, it)| Edit::Account(namespace, name, it)),
        2 => (proptest::sample::select(DAMAGES.to_vec()), 0_usize..8).prop_map(|(it, which)| Edit::Damage(it, which)),
    ].boxed()
}

impl World {
    fn edit(&mut self, edit: Edit) {
        fn put(map: &mut BTreeMap<String, Labels>, name: &str, labels: Option<Labels>) {
            match labels {
                Some(labels) => drop(map.insert(name.to_owned(), labels)),
                None => drop(map.remove(name)),
            }
        }
        match edit {
            Edit::Policy(policy) => self.policy = policy,
            Edit::Connector(name, labels) => put(&mut self.around.connectors, name, labels),
            Edit::Namespace(name, labels) => put(&mut self.around.namespaces, name, labels),
            Edit::Account(namespace, name, labels) => {
                let accounts = self
                    .around
                    .accounts
                    .entry(namespace.to_owned())
                    .or_default();
                put(accounts, name, labels);
            }
            Edit::Damage(..) => {}
        }
    }

    fn plan(&self, there: &Managed) -> Plan {
        let owner = owner();
        let spec = self.policy.as_ref().map(|it| {
            connectors_api::parse::spec::<AccessPolicySpec>(it).map_err(|error| error.to_string())
        });
        let policy = match &spec {
            None => PolicySeen::Gone,
            Some(spec) => PolicySeen::There {
                spec: spec.as_ref().map_err(String::as_str),
                generation: Some(1),
                status: None,
            },
        };
        let around = self.around.seen();
        let seen = Observed {
            owner: &owner,
            policy,
            around,
            there,
            checks: Checks::None,
        };
        plan(&seen, SOME_BYTES)
    }
}

/// The permissions on each connector, regardless of the subjects.
fn rules_of(access: &Access) -> BTreeSet<(&String, &String, &String)> {
    access
        .iter()
        .map(|(_, verb, resource, connector)| (verb, resource, connector))
        .collect()
}

fn run(edits: Vec<(Edit, Option<usize>)>) -> Result<(), TestCaseError> {
    let mut world = World {
        policy: None,
        around: Around::default(),
    };
    let mut there = Managed::default();
    for (edit, crash) in edits {
        if let Edit::Damage(how, which) = &edit {
            damage(&mut there, *how, *which);
        }
        world.edit(edit);
        let (old, new) = (access(&there), reference(&world));
        let steps = world.plan(&there).steps;
        let has_same_rules = rules_of(&old).is_subset(&rules_of(&new));
        // A process that ends in the middle leaves the rest to the next one, which sees another world.
        let made = crash.unwrap_or(usize::MAX).min(steps.len());
        for step in &steps[..made] {
            write(&mut there, step).map_err(TestCaseError::fail)?;
            let now = access(&there);
            for one in &now {
                prop_assert!(
                    old.contains(one) || new.contains(one),
                    "{one:?} after {step:?}"
                );
            }
            if has_same_rules {
                for one in old.intersection(&new) {
                    prop_assert!(now.contains(one), "{one:?} lost by {step:?}");
                }
            }
        }
        if made == steps.len() {
            prop_assert_eq!(access(&there), new);
            prop_assert_eq!(world.plan(&there).steps, vec![]);
            prop_assert!(there.bindings.keys().eq(there.roles.keys()));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn nobody_ever_holds_what_neither_the_old_nor_the_new_world_gives(
        edits in proptest::collection::vec((some_edit(), proptest::option::weighted(0.2, 0_usize..4)), 1..24),
    ) {
        run(edits)?;
    }
}
