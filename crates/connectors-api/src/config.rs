//! What an installation can be told while it runs, in one ConfigMap.

use std::collections::BTreeMap;
use std::sync::Arc;

use thiserror::Error;

use crate::namespace_keys::{NamespaceKeys, NamespaceKeysError};
use crate::shared_fields::{SharedFields, SharedFieldsError};
use crate::words::words;

/// Name of the ConfigMap, in the namespace of the installation.
pub const CONFIG_MAP: &str = "connectors-config";
/// Whether mounts are gated and approvals granted: `true` or `false`.
pub const ENABLE: &str = "enable-connectors-approval";
/// Who may ask where a policy does not say.
pub const DEFAULT_REQUESTERS: &str = "default-requesters";
/// What becomes of volumes that were mounted while the switch was off.
pub const ON_ENABLE: &str = "on-enable";
/// Which fields of check objects policies of other namespaces may see.
pub const SHARED_CHECK_FIELDS: &str = "shared-check-fields";
/// By which labels of namespaces policies may select subjects.
pub const NAMESPACE_SELECTOR_KEYS: &str = "namespace-selector-keys";

words! {
    /// Who may ask for a permission under checks where the policy names no requesters.
    DefaultRequesters {
        /// The service accounts of the policy's namespace.
        Namespace,
        /// Everybody. Approvals are looked up in the pod's namespace, so whoever may make them there
        /// may let himself in.
        Any,
    }
}

words! {
    /// What the node plugin does, while the switch is on, with the volume of a running pod that was
    /// mounted while the switch was off and that the pod has no permission for.
    OnEnable {
        /// The volume keeps its content until the pod ends.
        Keep,
        /// The node plugin makes the pod's AccessRequests. The volume keeps its content while they wait.
        Request,
        /// The volume loses its content.
        Empty,
    }
}

/// What is said of a policy that names nobody where everybody may ask then.
pub const REQUESTERS_OPEN: &str = "default-requesters: Any of the installation lets pods of every namespace ask, with \
                                   approvals from their own namespaces; name who may ask in \
                                   spec.checkGrantedPermission.requesters";

/// What the installation was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whether mounts are gated and approvals granted. Revocation does not depend on it.
    pub enabled: bool,
    /// Who may ask where a policy does not say.
    pub default_requesters: DefaultRequesters,
    /// What becomes of volumes that were mounted while the switch was off.
    pub on_enable: OnEnable,
}

impl Config {
    /// What holds as long as nothing is known: nothing new is granted, and what has to end ends.
    pub const CLOSED: Self = Self {
        enabled: false,
        default_requesters: DefaultRequesters::Namespace,
        on_enable: OnEnable::Keep,
    };
}

/// What is known of the configuration. The switch keeps its last known value: neither an accident nor
/// somebody who deletes a ConfigMap turns it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Knowledge {
    enabled: Option<bool>,
    default_requesters: Option<DefaultRequesters>,
    on_enable: Option<OnEnable>,
    shared: Arc<SharedFields>,
    namespace_keys: Arc<NamespaceKeys>,
}

/// Something in the ConfigMap that was not understood and changes nothing.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ConfigProblem {
    /// The switch is missing.
    #[error("{CONFIG_MAP}: {ENABLE} is missing; the last known value holds")]
    NoSwitch,
    /// The switch holds another word.
    #[error("{CONFIG_MAP}: {ENABLE} must be \"true\" or \"false\"; the last known value holds")]
    Switch,
    /// No such default.
    #[error(
        "{CONFIG_MAP}: {DEFAULT_REQUESTERS} must be Namespace or Any; the last known value holds"
    )]
    DefaultRequesters,
    /// No such way.
    #[error("{CONFIG_MAP}: {ON_ENABLE} must be Keep, Request or Empty; the last known value holds")]
    OnEnable,
    /// No list of fields.
    #[error("{CONFIG_MAP}: {SHARED_CHECK_FIELDS}: {0}; the last known value holds")]
    SharedFields(#[from] SharedFieldsError),
    /// No list of keys.
    #[error("{CONFIG_MAP}: {NAMESPACE_SELECTOR_KEYS}: {0}; the last known value holds")]
    NamespaceKeys(#[from] NamespaceKeysError),
}

impl Knowledge {
    /// Takes in what the ConfigMap holds now. One that is gone is not taken in at all.
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
            // Without the key the narrower reading holds, so that removing it never widens anything.
            Some("Namespace") | None => {
                self.default_requesters = Some(DefaultRequesters::Namespace);
            }
            Some(_) => problems.push(ConfigProblem::DefaultRequesters),
        }
        match data.get(ON_ENABLE).map(String::as_str) {
            // A ConfigMap of an older chart lacks the key: nothing is taken away from running pods.
            Some("Keep") | None => self.on_enable = Some(OnEnable::Keep),
            Some("Request") => self.on_enable = Some(OnEnable::Request),
            Some("Empty") => self.on_enable = Some(OnEnable::Empty),
            Some(_) => problems.push(ConfigProblem::OnEnable),
        }
        // Without the key nothing more is shared, so that removing it never shows anything.
        match data
            .get(SHARED_CHECK_FIELDS)
            .map(|it| SharedFields::parse(it))
        {
            Some(Ok(shared)) => self.shared = Arc::new(shared),
            None => self.shared = Arc::default(),
            Some(Err(problem)) => problems.push(problem.into()),
        }
        // Without the key namespaces are selected by their names, so that removing it never tells a label.
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

    /// By which labels of namespaces policies may select subjects.
    #[must_use]
    pub fn namespace_keys(&self) -> &Arc<NamespaceKeys> {
        &self.namespace_keys
    }

    /// Which fields of check objects policies of other namespaces may see.
    #[must_use]
    pub fn shared(&self) -> &Arc<SharedFields> {
        &self.shared
    }

    /// The configuration, once the switch has been known.
    #[must_use]
    pub fn config(&self) -> Option<Config> {
        Some(Config {
            enabled: self.enabled?,
            default_requesters: self.default_requesters(),
            on_enable: self.on_enable.unwrap_or(OnEnable::Keep),
        })
    }

    /// Who may ask where a policy does not say: the narrower reading until something else is known.
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
}
