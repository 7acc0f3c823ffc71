//! The labels of namespaces by which a policy may select subjects.
//!
//! The accounts that a selector finds are listed in a RoleBinding that the policy's author can read. By
//! selecting, an author could learn any label of any namespace. The installation therefore names the keys
//! that are not secret.

use std::collections::BTreeSet;

use thiserror::Error;

use crate::LabelSelector;
use crate::names::is_label_key;

/// The label that every namespace has, with its name as the value.
pub const NAME_KEY: &str = "kubernetes.io/metadata.name";

/// Keys of labels of namespaces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamespaceKeys(BTreeSet<String>);

/// Without a setting of the installation, namespaces are selected by name only.
impl Default for NamespaceKeys {
    fn default() -> Self {
        Self([NAME_KEY.to_owned()].into())
    }
}

/// The reason why keys cannot be parsed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NamespaceKeysError {
    /// Not a list of strings.
    #[error("must be a JSON list of label keys")]
    Form,
    /// Not a label key.
    #[error("`{0}` is not a label key")]
    Key(String),
}

/// A selector of namespaces uses a key that the installation does not allow.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "namespaceSelector: the installation does not let policies select by the label {0} of namespaces; select by {NAME_KEY}, \
     or ask an administrator to add the key to policies.namespaceSelectorKeys of the chart"
)]
pub struct ForeignKey(pub String);

impl NamespaceKeys {
    /// Parses the setting of the installation: a JSON list.
    pub fn parse(text: &str) -> Result<Self, NamespaceKeysError> {
        let keys: BTreeSet<String> =
            serde_json::from_str(text).map_err(|_| NamespaceKeysError::Form)?;
        match keys.iter().find(|key| !is_label_key(key)) {
            Some(odd) => Err(NamespaceKeysError::Key(odd.clone())),
            None => Ok(Self(keys)),
        }
    }

    /// Checks that a selector of namespaces uses these keys only; returns the first other one.
    pub fn admit(&self, selector: &LabelSelector) -> Result<(), ForeignKey> {
        match selector.keys().find(|key| !self.0.contains(*key)) {
            Some(key) => Err(ForeignKey(key.to_owned())),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn admits(keys: &NamespaceKeys, selector: serde_json::Value) -> Result<(), ForeignKey> {
        keys.admit(&serde_json::from_value(selector).unwrap())
    }

    #[test]
    fn namespaces_are_selected_by_the_keys_of_the_installation_alone() {
        let project = || json!({"matchLabels": {"project": "a"}});
        let name = || json!({"matchLabels": {NAME_KEY: "a"}});
        let no_project = json!({
            "matchLabels": {NAME_KEY: "a"},
            "matchExpressions": [{"key": "project", "operator": "DoesNotExist"}],
        });
        let refused = || Err(ForeignKey("project".to_owned()));
        let default = NamespaceKeys::default();
        assert_eq!(admits(&default, name()), Ok(()));
        assert_eq!(admits(&default, project()), refused());
        assert_eq!(admits(&default, no_project), refused());
        let both = NamespaceKeys::parse(r#"["project","kubernetes.io/metadata.name"]"#).unwrap();
        assert_eq!(admits(&both, name()), Ok(()));
        assert_eq!(admits(&both, project()), Ok(()));
        let none = NamespaceKeys::parse("[]").unwrap();
        assert!(admits(&none, name()).is_err());
        assert!(admits(&none, project()).is_err());
    }

    #[test]
    fn a_refusal_names_the_key_and_what_an_administrator_can_add() {
        let refusal = ForeignKey("project".to_owned()).to_string();
        for word in ["project", NAME_KEY, "policies.namespaceSelectorKeys"] {
            assert!(refusal.contains(word), "{refusal}");
        }
    }

    #[test]
    fn what_is_no_list_of_keys_is_an_error() {
        for text in ["", "project", "{}", "[1]", "null"] {
            assert_eq!(
                NamespaceKeys::parse(text),
                Err(NamespaceKeysError::Form),
                "{text}"
            );
        }
        for key in ["", "a b", "/a"] {
            let text = json!([key]).to_string();
            let error = NamespaceKeysError::Key(key.to_owned());
            assert_eq!(NamespaceKeys::parse(&text), Err(error));
        }
    }
}
