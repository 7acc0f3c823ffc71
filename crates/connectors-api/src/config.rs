//! The settings of an installation that can change at run time, in one ConfigMap.
//!
//! Services follow it by a watch. When it is deleted, the last known values stay.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::namespace_keys::{NamespaceKeys, NamespaceKeysError};
use crate::shared_fields::{SharedFields, SharedFieldsError};
use crate::words::words;

/// Name of the ConfigMap, in the namespace of the installation.
pub const CONFIG_MAP: &str = "connectors-config";
/// Enables the gating of mounts and the granting of approvals: `true` or `false`.
pub const ENABLE: &str = "enable-connectors-approval";
/// The requesters of policies that name none.
pub const DEFAULT_REQUESTERS: &str = "default-requesters";
/// The treatment of volumes that were mounted while the feature was disabled.
pub const ON_ENABLE: &str = "on-enable";
/// The fields of check objects that policies of other namespaces may see.
pub const SHARED_CHECK_FIELDS: &str = "shared-check-fields";
/// The use of the scheduling gate.
pub const SCHEDULING_GATE: &str = "scheduling-gate";
/// The labels of namespaces by which policies may select subjects.
pub const NAMESPACE_SELECTOR_KEYS: &str = "namespace-selector-keys";

/// A key of the ConfigMap.
#[derive(Clone, Copy, Debug)]
pub struct ConfigKey {
    /// Its name.
    pub name: &'static str,
    /// The values that it may have. Another value changes nothing.
    pub values: &'static str,
    /// The value that holds without the key.
    pub without: &'static str,
    /// The chart value that it comes from.
    pub chart_value: &'static str,
    /// Its meaning.
    pub about: &'static str,
}

/// Every key. Others are ignored.
pub const KEYS: [ConfigKey; 6] = [
    ConfigKey {
        name: ENABLE,
        values: "`true` or `false`",
        without: "the last known value",
        chart_value: "approval.enabled",
        about: "Whether mounts wait for a permission and approvals grant one. Revocation does not depend on it.",
    },
    ConfigKey {
        name: ON_ENABLE,
        values: "`Keep`, `Request` or `Empty`",
        without: "`Keep`",
        chart_value: "approval.onEnable",
        about: "The treatment of volumes of running pods that were mounted while approvals were off.",
    },
    ConfigKey {
        name: SCHEDULING_GATE,
        values: "`Absent`, `Set` or `Release`",
        without: "`Release`",
        chart_value: "approval.schedulingGate",
        about: "Whether pods that mount connectors wait for their approvals before they have a node.",
    },
    ConfigKey {
        name: DEFAULT_REQUESTERS,
        values: "`Namespace` or `Any`",
        without: "`Namespace`",
        chart_value: "approval.defaultRequesters",
        about: "The requesters of policies that name none.",
    },
    ConfigKey {
        name: NAMESPACE_SELECTOR_KEYS,
        values: "a JSON list of keys of labels",
        without: "namespaces are selected by their names only",
        chart_value: "policies.namespaceSelectorKeys",
        about: "The labels of namespaces by which policies may select subjects.",
    },
    ConfigKey {
        name: SHARED_CHECK_FIELDS,
        values: "a JSON list of `{apiVersion, kind, fields}`",
        without: "no further fields",
        chart_value: "checks.sharedFields",
        about: "The fields of check objects in other namespaces that policies may see beside name, selected labels and status.",
    },
];

words! {
    /// The accounts that may request a permission under checks if the policy names no requesters.
    DefaultRequesters {
        /// The service accounts of the policy's namespace.
        Namespace,
        /// All service accounts. Approvals are looked up in the pod's namespace, so a user with the right to
        /// create them there can approve their own access.
        Any,
    }
}

words! {
    /// The action of the node plugin, while the feature is enabled, for a volume of a running pod that was
    /// mounted while it was disabled and for which the pod has no permission.
    OnEnable {
        /// The volume keeps its content until the pod ends.
        Keep,
        /// The node plugin creates the pod's AccessRequests. The volume keeps its content while they are
        /// pending.
        Request,
        /// The volume is emptied.
        Empty,
    }
}

words! {
    /// The use of the scheduling gate on pods that mount connectors. With `Set` and `Release` each gate goes when it is
    /// not needed.
    SchedulingGate {
        /// No pod gets the gate, and the right to remove gates is missing: a gate that another author wrote is ignored.
        Absent,
        /// New pods get the gate, and keep it while one of their requests is pending.
        Set,
        /// No pod gets the gate, and every gate is removed.
        Release,
    }
}

/// The warning for a policy without requesters while the default admits all service accounts.
pub const REQUESTERS_OPEN: &str = "default-requesters: Any of the installation lets pods of every namespace ask, with \
                                   approvals from their own namespaces; name who may ask in \
                                   spec.checkGrantedPermission.requesters";

/// The settings of the installation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// True when mounts are gated and approvals granted. Revocation does not depend on it.
    pub enabled: bool,
    /// The requesters of policies that name none.
    pub default_requesters: DefaultRequesters,
    /// The treatment of volumes that were mounted while the feature was disabled.
    pub on_enable: OnEnable,
    /// The use of the scheduling gate.
    pub scheduling_gate: SchedulingGate,
}

impl Config {
    /// The settings as long as none are known: nothing new is granted, and revocations proceed.
    pub const CLOSED: Self = Self {
        enabled: false,
        default_requesters: DefaultRequesters::Namespace,
        on_enable: OnEnable::Keep,
        scheduling_gate: SchedulingGate::Release,
    };

    /// True when pods wait with the scheduling gate. While no mount is gated, no pod has anything to wait for.
    #[must_use]
    pub const fn gates_pods(self) -> bool {
        self.enabled && matches!(self.scheduling_gate, SchedulingGate::Set)
    }
}

/// The last known settings. The switch keeps its last known value, so that neither an accident nor the
/// deletion of the ConfigMap changes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    enabled: Option<bool>,
    default_requesters: Option<DefaultRequesters>,
    on_enable: Option<OnEnable>,
    scheduling_gate: Option<SchedulingGate>,
    shared: Arc<SharedFields>,
    namespace_keys: Arc<NamespaceKeys>,
}

/// A part of the ConfigMap that is invalid and therefore changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigProblem {
    /// The switch is missing.
    #[error("{CONFIG_MAP}: {ENABLE} is missing; the last known value holds")]
    NoSwitch,
    /// The switch has an invalid value.
    #[error("{CONFIG_MAP}: {ENABLE} must be \"true\" or \"false\"; the last known value holds")]
    Switch,
    /// The default is invalid.
    #[error(
        "{CONFIG_MAP}: {DEFAULT_REQUESTERS} must be Namespace or Any; the last known value holds"
    )]
    DefaultRequesters,
    /// The action is invalid.
    #[error("{CONFIG_MAP}: {ON_ENABLE} must be Keep, Request or Empty; the last known value holds")]
    OnEnable,
    /// The use of the gate is invalid.
    #[error(
        "{CONFIG_MAP}: {SCHEDULING_GATE} must be Absent, Set or Release; the last known value holds"
    )]
    SchedulingGate,
    /// The list of fields is invalid.
    #[error("{CONFIG_MAP}: {SHARED_CHECK_FIELDS}: {0}; the last known value holds")]
    SharedFields(#[from] SharedFieldsError),
    /// The list of keys is invalid.
    #[error("{CONFIG_MAP}: {NAMESPACE_SELECTOR_KEYS}: {0}; the last known value holds")]
    NamespaceKeys(#[from] NamespaceKeysError),
}

impl Knowledge {
    /// Applies the current content of the ConfigMap. A deleted ConfigMap is not applied at all.
    pub fn learn(&mut self, data: &BTreeMap<String, String>) -> Vec<ConfigProblem> {
        let mut problems = Vec::new();
        match data.get(ENABLE).map(String::as_str) {
            Some("true") => self.enabled = Some(true),
            Some("false") => self.enabled = Some(false),
            Some(_) => problems.push(ConfigProblem::Switch),
            None => problems.push(ConfigProblem::NoSwitch),
        }
        match data.get(DEFAULT_REQUESTERS).map(String::as_str) {
            Some("Any") => self.default_requesters = Some(DefaultRequesters::Any),
            // Without the key the narrower default applies, so that removing it never widens access.
            Some("Namespace") | None => {
                self.default_requesters = Some(DefaultRequesters::Namespace);
            }
            Some(_) => problems.push(ConfigProblem::DefaultRequesters),
        }
        match data.get(ON_ENABLE).map(String::as_str) {
            // A ConfigMap of an older chart lacks the key: running pods keep their volumes.
            Some("Keep") | None => self.on_enable = Some(OnEnable::Keep),
            Some("Request") => self.on_enable = Some(OnEnable::Request),
            Some("Empty") => self.on_enable = Some(OnEnable::Empty),
            Some(_) => problems.push(ConfigProblem::OnEnable),
        }
        match data.get(SCHEDULING_GATE).map(String::as_str) {
            Some("Absent") => self.scheduling_gate = Some(SchedulingGate::Absent),
            Some("Set") => self.scheduling_gate = Some(SchedulingGate::Set),
            // Without the key pods are scheduled at once, and wait at their mounts.
            Some("Release") | None => self.scheduling_gate = Some(SchedulingGate::Release),
            Some(_) => problems.push(ConfigProblem::SchedulingGate),
        }
        // Without the key no further fields are shared, so that removing it never discloses anything.
        match data
            .get(SHARED_CHECK_FIELDS)
            .map(|it| SharedFields::parse(it))
        {
            Some(Ok(shared)) => self.shared = Arc::new(shared),
            None => self.shared = Arc::default(),
            Some(Err(problem)) => problems.push(problem.into()),
        }
        // Without the key namespaces are selected by their names only, so that removing it never discloses a
        // label.
        match data
            .get(NAMESPACE_SELECTOR_KEYS)
            .map(|it| NamespaceKeys::parse(it))
        {
            Some(Ok(keys)) => self.namespace_keys = Arc::new(keys),
            None => self.namespace_keys = Arc::default(),
            Some(Err(unreadable)) => problems.push(unreadable.into()),
        }
        problems
    }

    /// The labels of namespaces by which policies may select subjects.
    #[must_use]
    pub fn namespace_keys(&self) -> &Arc<NamespaceKeys> {
        &self.namespace_keys
    }

    /// The fields of check objects that policies of other namespaces may see.
    #[must_use]
    pub fn shared(&self) -> &Arc<SharedFields> {
        &self.shared
    }

    /// The settings; none until the switch has been read once.
    #[must_use]
    pub fn config(&self) -> Option<Config> {
        Some(Config {
            enabled: self.enabled?,
            default_requesters: self.default_requesters(),
            on_enable: self.on_enable.unwrap_or(OnEnable::Keep),
            scheduling_gate: self.scheduling_gate.unwrap_or(SchedulingGate::Release),
        })
    }

    /// True once the requesters of policies that name none are known.
    #[must_use]
    pub const fn knows_default_requesters(&self) -> bool {
        self.default_requesters.is_some()
    }

    /// The requesters of policies that name none: the narrower default until the setting is known.
    #[must_use]
    pub fn default_requesters(&self) -> DefaultRequesters {
        self.default_requesters
            .unwrap_or(DefaultRequesters::Namespace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn data(entries: &[(&str, &str)]) -> BTreeMap<String, String> {
        let owned = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
        entries.iter().map(owned).collect()
    }

    #[test]
    fn the_switch_is_known_once_it_was_one_of_two_words() {
        let mut known = Knowledge::default();
        assert_eq!(known.config(), None);
        for (word, problem) in [
            ("", ConfigProblem::Switch),
            ("True", ConfigProblem::Switch),
            ("yes", ConfigProblem::Switch),
            ("true ", ConfigProblem::Switch),
        ] {
            assert_eq!(known.learn(&data(&[(ENABLE, word)])), [problem]);
            assert_eq!(known.config(), None, "{word:?}");
        }
        assert_eq!(known.learn(&data(&[])), [ConfigProblem::NoSwitch]);
        assert_eq!(known.config(), None);
        assert_eq!(known.learn(&data(&[(ENABLE, "true")])), []);
        assert!(known.config().unwrap().enabled);
        assert_eq!(known.learn(&data(&[(ENABLE, "false")])), []);
        assert!(!known.config().unwrap().enabled);
    }

    #[test]
    fn what_is_not_understood_changes_nothing() {
        let mut known = Knowledge::default();
        known.learn(&data(&[(ENABLE, "true"), (DEFAULT_REQUESTERS, "Any")]));
        let before = known.config();
        known.learn(&data(&[(ENABLE, "off"), (DEFAULT_REQUESTERS, "any")]));
        assert_eq!(known.config(), before);
        assert_eq!(before.unwrap().default_requesters, DefaultRequesters::Any);
    }

    #[test]
    fn without_a_word_only_the_policys_namespace_may_ask() {
        let mut known = Knowledge::default();
        known.learn(&data(&[(ENABLE, "true"), (DEFAULT_REQUESTERS, "nobody")]));
        let requesters = |known: &Knowledge| known.config().unwrap().default_requesters;
        assert_eq!(requesters(&known), DefaultRequesters::Namespace);
        known.learn(&data(&[(ENABLE, "true"), (DEFAULT_REQUESTERS, "Any")]));
        known.learn(&data(&[(ENABLE, "true")]));
        assert_eq!(requesters(&known), DefaultRequesters::Namespace);
    }

    #[test]
    fn nothing_is_shared_unless_the_configuration_says_so() {
        let mut known = Knowledge::default();
        let list = r#"[{"apiVersion":"v1","kind":"ConfigMap","fields":["data.verdict"]}]"#;
        let on = (ENABLE, "true");
        assert_eq!(**known.shared(), SharedFields::default());
        assert_eq!(known.learn(&data(&[on, (SHARED_CHECK_FIELDS, list)])), []);
        let shared = Arc::clone(known.shared());
        assert_ne!(*shared, SharedFields::default());
        let problems = known.learn(&data(&[on, (SHARED_CHECK_FIELDS, "spec.type")]));
        assert_eq!(
            problems,
            [ConfigProblem::SharedFields(SharedFieldsError::Form)]
        );
        assert_eq!(*known.shared(), shared);
        assert_eq!(known.learn(&data(&[on])), []);
        assert_eq!(**known.shared(), SharedFields::default());
    }

    #[test]
    fn namespaces_are_selected_by_name_unless_the_configuration_names_more_keys() {
        let mut known = Knowledge::default();
        let on = (ENABLE, "true");
        assert_eq!(**known.namespace_keys(), NamespaceKeys::default());
        let problems = known.learn(&data(&[on, (NAMESPACE_SELECTOR_KEYS, r#"["project"]"#)]));
        assert_eq!(problems, []);
        let project = Arc::clone(known.namespace_keys());
        assert_eq!(*project, NamespaceKeys::parse(r#"["project"]"#).unwrap());
        let problems = known.learn(&data(&[on, (NAMESPACE_SELECTOR_KEYS, "project")]));
        assert_eq!(problems, [NamespaceKeysError::Form.into()]);
        assert_eq!(*known.namespace_keys(), project);
        assert_eq!(known.learn(&data(&[on])), []);
        assert_eq!(**known.namespace_keys(), NamespaceKeys::default());
    }

    #[test]
    fn running_pods_keep_their_volumes_unless_the_configuration_says_otherwise() {
        let mut known = Knowledge::default();
        let mut on_enable = |word: Option<&str>| {
            let mut entries = vec![(ENABLE, "true")];
            entries.extend(word.map(|word| (ON_ENABLE, word)));
            let problems = known.learn(&data(&entries));
            (known.config().unwrap().on_enable, problems)
        };
        let unknown = vec![ConfigProblem::OnEnable];
        assert_eq!(on_enable(Some("empty")), (OnEnable::Keep, unknown.clone()));
        assert_eq!(on_enable(None), (OnEnable::Keep, vec![]));
        for way in [OnEnable::Empty, OnEnable::Request, OnEnable::Keep] {
            assert_eq!(on_enable(Some(way.as_str())), (way, vec![]));
            for word in ["", "keep", "Empty ", "true"] {
                assert_eq!(on_enable(Some(word)), (way, unknown.clone()), "{word:?}");
            }
        }
        on_enable(Some("Empty"));
        assert_eq!(on_enable(None), (OnEnable::Keep, vec![]));
    }

    #[test]
    fn pods_wait_with_the_gate_only_where_the_configuration_says_so() {
        let mut known = Knowledge::default();
        let mut gated = |enabled: &str, word: Option<&str>| {
            let mut entries = vec![(ENABLE, enabled)];
            entries.extend(word.map(|word| (SCHEDULING_GATE, word)));
            let problems = known.learn(&data(&entries));
            (known.config().unwrap().gates_pods(), problems)
        };
        let unknown = vec![ConfigProblem::SchedulingGate];
        assert_eq!(gated("true", None), (false, vec![]));
        assert_eq!(gated("true", Some("set")), (false, unknown.clone()));
        assert_eq!(gated("true", Some("Set")), (true, vec![]));
        assert_eq!(gated("true", Some("true")), (true, unknown));
        assert_eq!(gated("false", Some("Set")), (false, vec![]));
        assert_eq!(gated("true", Some("Set")), (true, vec![]));
        assert_eq!(gated("true", Some("Absent")), (false, vec![]));
        assert_eq!(gated("true", Some("Set")), (true, vec![]));
        assert_eq!(gated("true", Some("Release")), (false, vec![]));
        gated("true", Some("Set"));
        assert_eq!(gated("true", None), (false, vec![]));
        assert!(!Config::CLOSED.gates_pods());
    }
}
