//! The objects from which policies select. Their lists are shared among the policies that wait for them.

use std::{collections::BTreeMap, sync::Arc};

use connectors_api::{
    AccessPolicySpec, LabelSelector,
    access_policy::{MOST_SELECTORS, SubjectForm},
    connector,
};
use futures::try_join;
use k8s_openapi::{
    api::core::v1::{Namespace, ServiceAccount},
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use kube::{Api, Client, Resource, api::ListParams};
use service_kit::{
    lists,
    retry::{CallError, RetryPolicy},
    shared_reads::{ReadMoment, SharedReads, SharedResult},
    watches::{Guarded, Labelled, Named},
};
use tokio::sync::Semaphore;

use crate::seen::Labels;

/// The lists of service accounts that are on their way at most, whatever labels they are about. Tenants choose the
/// labels, and each list may hold all accounts of the cluster.
pub(super) const ACCOUNT_LISTS: usize = 8;

type LabelsByName = BTreeMap<String, Labels>;
/// Service accounts by their namespace.
type AccountLabels = BTreeMap<String, LabelsByName>;

/// Where the selectors of a policy look. Without a readable policy nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SelectorScope {
    connectors: bool,
    namespaces: bool,
    accounts: Option<AccountScope>,
}

/// Which service accounts are listed: one list for any number of selectors, whose objects are found in it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct AccountScope {
    /// Of this namespace alone.
    namespace: Option<String>,
    /// With these labels.
    labels: String,
}

/// The objects from which a policy selects. Kinds without a selector are empty.
#[derive(Clone, Debug, Default)]
pub(super) struct Around {
    pub(super) connectors: Arc<LabelsByName>,
    pub(super) namespaces: Arc<LabelsByName>,
    pub(super) accounts: Arc<AccountLabels>,
}

/// Reads them.
#[derive(Clone)]
pub(super) struct AroundReads {
    source: ListSource,
    connectors: SharedReads<String, (), LabelsByName>,
    namespaces: SharedReads<(), (), LabelsByName>,
    accounts: SharedReads<AccountScope, (), AccountLabels>,
    /// For lists of accounts.
    account_places: Arc<Semaphore>,
}

/// Where lists come from, and how often they are tried.
#[derive(Clone)]
pub(super) struct ListSource {
    pub(super) client: Client,
    pub(super) policy: RetryPolicy,
}

/// Service accounts that a subject selects by their labels.
struct Selected<'a> {
    selector: &'a LabelSelector,
    /// In namespaces that are selected, too; else in the policy's own.
    is_elsewhere: bool,
}

impl<'a> Selected<'a> {
    fn of(form: &'a SubjectForm) -> Option<Self> {
        match form {
            SubjectForm::ServiceAccountsByLabel {
                selector,
                namespaces,
            } => Some(Self {
                selector,
                is_elsewhere: namespaces.is_some(),
            }),
            SubjectForm::ServiceAccountGroupsByNamespace { .. }
            | SubjectForm::ServiceAccount { .. }
            | SubjectForm::Group { .. }
            | SubjectForm::User { .. } => None,
        }
    }
}

impl SelectorScope {
    /// That of a policy in this namespace.
    pub(super) fn of(spec: &AccessPolicySpec, own: &str) -> Self {
        let given = spec.default_permission.iter();
        let given = given.filter(|it| it.binding_template.selectors() <= MOST_SELECTORS);
        let subjects = given.flat_map(|it| &it.binding_template.subjects);
        let forms: Vec<_> = subjects.flat_map(SubjectForm::try_from).collect();
        Self {
            connectors: true,
            namespaces: forms.iter().any(|it| it.namespaces().is_some()),
            accounts: AccountScope::of(&forms, own),
        }
    }
}

impl AccountScope {
    fn of(forms: &[SubjectForm], own: &str) -> Option<Self> {
        let by_label: Vec<_> = forms.iter().filter_map(Selected::of).collect();
        let (first, others) = by_label.split_first()?;
        let is_elsewhere = by_label.iter().any(|it| it.is_elsewhere);
        let labels = equalities(first.selector);
        let is_common = others.iter().all(|it| equalities(it.selector) == labels);
        Some(Self {
            namespace: (!is_elsewhere).then(|| own.to_owned()),
            labels: if is_common { labels } else { String::new() },
        })
    }
}

impl AroundReads {
    pub(super) fn of(source: ListSource) -> Self {
        Self {
            source,
            connectors: SharedReads::default(),
            namespaces: SharedReads::default(),
            accounts: SharedReads::default(),
            account_places: Arc::new(Semaphore::new(ACCOUNT_LISTS)),
        }
    }

    /// The objects in the scope of a policy of that namespace, side by side, by lists that began after the moment.
    pub(super) async fn read(
        &self,
        scope: &SelectorScope,
        own: &str,
        after: ReadMoment,
    ) -> Result<Around, Arc<CallError>> {
        let (connectors, namespaces, accounts) = try_join!(
            self.connectors(scope.connectors.then_some(own), after),
            self.namespaces(scope.namespaces, after),
            self.accounts(scope.accounts.as_ref(), after)
        )?;
        Ok(Around {
            connectors,
            namespaces,
            accounts,
        })
    }

    async fn connectors(&self, own: Option<&str>, after: ReadMoment) -> SharedResult<LabelsByName> {
        let Some(own) = own else {
            return Ok(Arc::default());
        };
        let (ListSource { client, policy }, namespace) = (self.source.clone(), own.to_owned());
        let list = move |_| async move {
            type Listed = Guarded<connector::Selectable, Labelled>;
            let api = Api::<Listed>::namespaced(client, &namespace);
            let call = format!("list connectors in {namespace}");
            let listed = lists::whole(&policy, call, &api, ListParams::default()).await?;
            Ok(names(&listed))
        };
        self.connectors.read(own.to_owned(), (), after, list).await
    }

    async fn namespaces(&self, is_wanted: bool, after: ReadMoment) -> SharedResult<LabelsByName> {
        if !is_wanted {
            return Ok(Arc::default());
        }
        let ListSource { client, policy } = self.source.clone();
        let list = move |_| async move {
            let api = Api::<Guarded<Namespace, Named>>::all(client);
            let params = ListParams::default();
            let listed = lists::whole(&policy, "list namespaces", &api, params).await?;
            Ok(names(&listed))
        };
        self.namespaces.read((), (), after, list).await
    }

    async fn accounts(
        &self,
        scope: Option<&AccountScope>,
        after: ReadMoment,
    ) -> SharedResult<AccountLabels> {
        let Some(scope) = scope else {
            return Ok(Arc::default());
        };
        let ListSource { client, policy } = self.source.clone();
        let AccountScope { namespace, labels } = scope.clone();
        let places = Arc::clone(&self.account_places);
        let list = move |_| async move {
            // The places are never closed.
            let _place = places.acquire_owned().await;
            let api: Api<Guarded<ServiceAccount, Named>> = match namespace {
                Some(namespace) => Api::namespaced(client, &namespace),
                None => Api::all(client),
            };
            let params = ListParams::default().labels(&labels);
            let listed = lists::whole(&policy, "list serviceaccounts", &api, params).await?;
            let mut accounts = AccountLabels::new();
            for account in there(&listed) {
                let namespace = account.namespace.clone().unwrap_or_default();
                let of_namespace = accounts.entry(namespace).or_default();
                of_namespace.extend([labels_by_name(account)]);
            }
            Ok(accounts)
        };
        self.accounts.read(scope.clone(), (), after, list).await
    }

    /// How many lists policies wait for.
    #[cfg(test)]
    pub(super) fn waiting(&self) -> usize {
        self.connectors.subjects() + self.namespaces.subjects() + self.accounts.subjects()
    }
}

/// The metadata of the objects that exist and are not being deleted.
fn there<K: Resource, P>(objects: &[Guarded<K, P>]) -> impl Iterator<Item = &ObjectMeta> {
    // No selector finds an object with unreadable labels, not even a negative one.
    let objects = objects.iter().filter_map(|it| it.object.as_ref().ok());
    let objects = objects.map(Resource::meta);
    objects.filter(|it| it.deletion_timestamp.is_none())
}

/// The labels by name of these objects, if they are in one namespace or in none.
fn names<K: Resource, P>(objects: &[Guarded<K, P>]) -> LabelsByName {
    there(objects).map(labels_by_name).collect()
}

fn labels_by_name(object: &ObjectMeta) -> (String, Labels) {
    let name = object.name.clone().unwrap_or_default();
    (name, object.labels.clone().unwrap_or_default())
}

/// The part of a selector that the API server can evaluate.
fn equalities(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter();
    let labels: Vec<_> = labels
        .map(|(key, value)| format!("{key}={value}"))
        .collect();
    labels.join(",")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Without them every look reads all service accounts.
    #[test]
    fn the_api_server_is_asked_for_the_labels_that_a_selector_names() {
        let selector: LabelSelector = serde_json::from_value(json!({
            "matchLabels": {"app": "ci", "team": "a"},
            "matchExpressions": [{"key": "x", "operator": "Exists"}],
        }))
        .unwrap();
        assert_eq!(equalities(&selector), "app=ci,team=a");
    }
}
