//! Whose pods may ask under a policy's checks, and from where: pure.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::{
    LabelSelector,
    access_policy::{CheckGrantedPermission, SubjectForm},
    config::DefaultRequesters,
};

use crate::seen::Surroundings;

/// As many service accounts of a policy are asked about one by one.
const MOST_ACCOUNTS: usize = 50;
/// As many namespaces.
const MOST_PLACES: usize = 20;

const ALL_ACCOUNTS: &str = "system:serviceaccounts";
const EVERYBODY: &str = "system:authenticated";
const ACCOUNT: &str = "system:serviceaccount:";

/// Where checks are looked up, which is where somebody would have to write them: in the namespaces of pods.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects {
    /// Pods of every namespace may ask.
    pub everywhere: bool,
    /// Service accounts by their namespaces.
    pub places: BTreeMap<String, BTreeSet<String>>,
    /// There are more than can be asked about.
    pub is_cut: bool,
}

impl Suspects {
    /// Of a policy in a namespace.
    #[must_use]
    pub fn of(
        granted: &CheckGrantedPermission,
        namespace: &str,
        defaults: DefaultRequesters,
        around: Surroundings<'_>,
    ) -> Self {
        let mut suspects = Self::default();
        match &granted.requesters {
            None => match defaults {
                DefaultRequesters::Namespace => suspects.all_of(namespace, around),
                DefaultRequesters::Any => suspects.everywhere = true,
            },
            Some(subjects) => {
                for subject in subjects
                    .iter()
                    .filter_map(|it| SubjectForm::try_from(it).ok())
                {
                    suspects.add(subject, namespace, around);
                }
            }
        }
        suspects.cut()
    }

    fn add(&mut self, subject: SubjectForm, own: &str, around: Surroundings<'_>) {
        match subject {
            SubjectForm::ServiceAccount { namespace, name } => {
                let namespace = namespace.unwrap_or_else(|| own.to_owned());
                self.places.entry(namespace).or_default().insert(name);
            }
            SubjectForm::ServiceAccountsByLabel {
                selector,
                namespaces,
            } => {
                let selected: Vec<&str> = match &namespaces {
                    None => vec![own],
                    Some(namespaces) => selected(namespaces, around).collect(),
                };
                for namespace in selected {
                    let accounts = around.accounts.get(namespace).into_iter().flatten();
                    let found = accounts.filter(|(_, labels)| selector.matches(labels));
                    let found: BTreeSet<String> = found.map(|(name, _)| name.clone()).collect();
                    if !found.is_empty() {
                        let place = self.places.entry(namespace.to_owned());
                        place.or_default().extend(found);
                    }
                }
            }
            SubjectForm::ServiceAccountGroupsByNamespace { namespaces } => {
                for namespace in selected(&namespaces, around) {
                    self.all_of(namespace, around);
                }
            }
            SubjectForm::Group { name } => {
                if name == ALL_ACCOUNTS || name == EVERYBODY {
                    self.everywhere = true;
                } else if let Some(namespace) = name.strip_prefix("system:serviceaccounts:") {
                    self.all_of(namespace, around);
                }
            }
            SubjectForm::User { name } => {
                let account = name.strip_prefix(ACCOUNT).and_then(|it| it.split_once(':'));
                if let Some((namespace, name)) = account {
                    let place = self.places.entry(namespace.to_owned());
                    place.or_default().insert(name.to_owned());
                }
            }
        }
    }

    fn all_of(&mut self, namespace: &str, around: Surroundings<'_>) {
        let accounts = around.accounts.get(namespace).into_iter().flatten();
        let place = self.places.entry(namespace.to_owned()).or_default();
        place.extend(accounts.map(|(name, _)| name.clone()));
    }

    fn cut(mut self) -> Self {
        let mut left = MOST_ACCOUNTS;
        let mut is_cut = self.places.len() > MOST_PLACES;
        let places = std::mem::take(&mut self.places);
        for (namespace, accounts) in places.into_iter().take(MOST_PLACES) {
            is_cut |= accounts.len() > left;
            let kept: BTreeSet<String> = accounts.into_iter().take(left).collect();
            left -= kept.len();
            self.places.insert(namespace, kept);
        }
        self.is_cut = is_cut;
        self
    }
}

fn selected<'a>(
    selector: &LabelSelector,
    around: Surroundings<'a>,
) -> impl Iterator<Item = &'a str> {
    let namespaces = around.namespaces.iter();
    namespaces
        .filter(move |(_, labels)| selector.matches(labels))
        .map(|(name, _)| name.as_str())
}

#[cfg(test)]
mod tests;
