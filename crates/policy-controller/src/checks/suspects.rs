//! The accounts whose pods may request access under a policy's checks, and the other accounts of their
//! namespaces: pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use connectors_api::{
    LabelSelector,
    access_policy::{CheckGrantedPermission, SubjectForm},
    config::DefaultRequesters,
};

use crate::seen::Surroundings;

/// The limit of service accounts that are checked for a policy.
const MOST_ACCOUNTS: usize = 50;
/// The limit of namespaces that are checked for a policy.
const MOST_PLACES: usize = 20;

const ALL_ACCOUNTS: &str = "system:serviceaccounts";
const EVERYBODY: &str = "system:authenticated";
const ACCOUNT: &str = "system:serviceaccount:";

/// The namespaces of pods that may request access. Checks are looked up there, so an approval would have to
/// be forged there.
///
/// An account that may create such a pod may create another pod as any service account of the namespace. So
/// all of these accounts count, those that may request access first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Suspects {
    /// Pods of every namespace may request access.
    pub everywhere: bool,
    /// The service accounts to check, by namespace.
    pub places: BTreeMap<String, Vec<String>>,
    /// The number of checked accounts, and of all.
    pub extent: Extent,
}

/// The extent of an inspection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Extent {
    /// The number of checked service accounts.
    pub looked: usize,
    /// The number of all service accounts.
    pub all: usize,
    /// The number of namespaces without a checked account.
    pub places_left_out: usize,
}

impl Extent {
    /// True if nothing is left out.
    #[must_use]
    pub const fn is_whole(self) -> bool {
        self.looked == self.all && self.places_left_out == 0
    }
}

impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            looked,
            all,
            places_left_out,
        } = self;
        write!(f, "looked at {looked} of {all} accounts")?;
        match places_left_out {
            0 => Ok(()),
            left => write!(f, ", and at none of {left} more namespaces"),
        }
    }
}

/// The service accounts of the namespaces of pods that may request access.
#[derive(Default)]
struct Accounts {
    everywhere: bool,
    /// By namespace: those that may request access.
    places: BTreeMap<String, BTreeSet<String>>,
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
        let mut accounts = Accounts::default();
        match &granted.requesters {
            None => match defaults {
                DefaultRequesters::Namespace => accounts.all_of(namespace, around),
                DefaultRequesters::Any => accounts.everywhere = true,
            },
            Some(subjects) => {
                for subject in subjects
                    .iter()
                    .filter_map(|it| SubjectForm::try_from(it).ok())
                {
                    accounts.add(subject, namespace, around);
                }
            }
        }
        accounts.cut(around)
    }
}

impl Accounts {
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

    /// The accounts that can be checked: of each namespace those that may request access before its others.
    fn cut(self, around: Surroundings<'_>) -> Suspects {
        let Self { everywhere, places } = self;
        let mut extent = Extent {
            places_left_out: places.len().saturating_sub(MOST_PLACES),
            ..Extent::default()
        };
        let mut kept: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut others: Vec<(&String, &String)> = Vec::new();
        for (namespace, asking) in places.iter().take(MOST_PLACES) {
            let of_place = kept.entry(namespace.clone()).or_default();
            extent.all += asking.len();
            let left = MOST_ACCOUNTS - extent.looked;
            of_place.extend(asking.iter().take(left).cloned());
            extent.looked += of_place.len();
            let there = around.accounts.get(namespace).into_iter().flatten();
            let besides = there.map(|(name, _)| name);
            let besides = besides.filter(|name| !asking.contains(*name));
            others.extend(besides.map(|name| (namespace, name)));
        }
        extent.all += others.len();
        let left = MOST_ACCOUNTS - extent.looked;
        for (namespace, name) in others.into_iter().take(left) {
            kept.entry(namespace.clone())
                .or_default()
                .push(name.clone());
            extent.looked += 1;
        }
        Suspects {
            everywhere,
            places: kept,
            extent,
        }
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
