//! The watched kinds: how each is read, and its effect on the world.

use std::fmt::Debug;

use authz::{IndexError, Listing, RbacObject};
use connectors_api::labels::MANAGED_BY;
use connectors_api::{AccessPolicy, AccessRequest, connector, names};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;
use service_kit::watches::Unreadable;
use tracing::warn;

use super::affected::change_rbac;
use super::policies::ExplainedPolicies;
use super::{KnownRequest, Shared, Tuple, World, WorldChange};

/// Objects of a page whose objects are several times as long as roles and bindings.
const LONG_PAGE: u32 = 100;

/// Objects of any other page.
const SHORT_PAGE: u32 = 500;

/// A watched kind.
pub(super) trait Source:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
    const NAME: &'static str;
    const PLACE: usize;
    /// Whether only metadata is requested.
    const METADATA_ONLY: bool = false;
    /// The number of objects in one page. They are in memory twice, as text and parsed.
    const PAGE: u32 = SHORT_PAGE;

    /// The part of a list that is kept until the list is complete.
    type Listing: Send;

    /// A list begins.
    fn begin(world: &World) -> Self::Listing;
    /// Takes an object of a list, or the needed part of it, which is small for many kinds.
    fn list(self, shared: &Shared, listing: &mut Self::Listing);
    /// The list is complete.
    fn reset(world: &mut World, listing: Self::Listing) -> Vec<WorldChange>;

    fn apply(world: &mut World, object: Self) -> Vec<WorldChange>;
    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<WorldChange>;
    /// An existing object that cannot be read counts for nothing.
    fn unreadable(world: &mut World, Unreadable { metadata, .. }: Unreadable) -> Vec<WorldChange> {
        Self::delete(world, metadata)
    }
}

fn pruned<K: Resource>(mut object: K) -> K {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    metadata.annotations = None;
    object
}

fn of_namespace(metadata: &ObjectMeta) -> Vec<WorldChange> {
    let namespace = metadata.namespace.clone();
    vec![namespace.map_or(WorldChange::Everything, WorldChange::Namespace)]
}

fn of_tuples(world: &World, tuples: &[Tuple]) -> Vec<WorldChange> {
    let keys = tuples.iter();
    let keys = keys.map(|tuple| world.question_keys.of_tuple(tuple.about()));
    news(!tuples.is_empty(), vec![WorldChange::Keys(keys.collect())])
}

fn news(is_news: bool, changes: Vec<WorldChange>) -> Vec<WorldChange> {
    if is_news { changes } else { Vec::new() }
}

fn complain(errors: impl IntoIterator<Item = IndexError>) {
    for error in errors {
        warn!(%error, "an object without a place is left out");
    }
}

macro_rules! rbac_sources {
    ($($kind:ident $name:literal $place:literal)+) => {$(
        impl Source for $kind {
            const NAME: &'static str = $name;
            const PLACE: usize = $place;
            type Listing = Listing<Self>;

            fn begin(world: &World) -> Listing<Self> {
                Listing::begin(&world.chain.rbac)
            }

            // A yes relies on one role and one binding, which may differ in age at any time. So each counts as it
            // comes, and a long list is neither kept nor applied at once.
            fn list(self, shared: &Shared, listing: &mut Listing<Self>) {
                if is_ours_and_going(&self.metadata) {
                    return;
                }
                shared.change(|world| {
                    change_rbac(world, &self, |world| {
                        complain(listing.show(&mut world.chain.rbac, &self).err());
                    })
                });
            }

            fn reset(world: &mut World, listing: Listing<Self>) -> Vec<WorldChange> {
                listing.end(&mut world.chain.rbac);
                vec![WorldChange::Everything]
            }

            fn apply(world: &mut World, object: Self) -> Vec<WorldChange> {
                apply_rbac(world, &object)
            }

            fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<WorldChange> {
                let object = Self { metadata, ..Self::default() };
                change_rbac(world, &object, |world| world.chain.rbac.delete(&object))
            }
        }
    )+};
}

rbac_sources! {
    Role "roles" 0
    RoleBinding "rolebindings" 1
    ClusterRole "clusterroles" 2
    ClusterRoleBinding "clusterrolebindings" 3
}

fn apply_rbac<K: RbacObject>(world: &mut World, object: &K) -> Vec<WorldChange> {
    change_rbac(world, object, |world| {
        let rbac = &mut world.chain.rbac;
        if is_ours_and_going(object.metadata()) {
            rbac.delete(object);
        } else {
            complain(rbac.apply(object).err());
        }
    })
}

/// Our objects count as deleted once they have a deletion timestamp, however long a finalizer keeps them. This
/// includes roles, because the index does not show their deletion.
fn is_ours_and_going(metadata: &ObjectMeta) -> bool {
    let labels = metadata.labels.as_ref();
    let manager = labels.and_then(|labels| labels.get(MANAGED_BY));
    metadata.deletion_timestamp.is_some() && manager.is_some_and(|it| it == names::MANAGED_BY)
}

impl Source for AccessRequest {
    const NAME: &'static str = "accessrequests";
    const PLACE: usize = 4;
    const PAGE: u32 = LONG_PAGE;
    type Listing = Vec<KnownRequest>;

    fn begin(_world: &World) -> Vec<KnownRequest> {
        Vec::new()
    }

    fn list(self, _shared: &Shared, listing: &mut Vec<KnownRequest>) {
        listing.extend(KnownRequest::read(self));
    }

    fn reset(world: &mut World, listing: Vec<KnownRequest>) -> Vec<WorldChange> {
        world.requests.reset(listing);
        vec![WorldChange::Everything]
    }

    fn apply(world: &mut World, object: Self) -> Vec<WorldChange> {
        let tuples = world.requests.apply(object);
        of_tuples(world, &tuples)
    }

    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<WorldChange> {
        let ObjectMeta {
            namespace, name, ..
        } = metadata;
        let tuple = namespace
            .zip(name)
            .and_then(|(namespace, name)| world.requests.delete(&namespace, &name));
        of_tuples(world, tuple.as_slice())
    }
}

// No decision depends on the code below. Only the possible effect of a request does, and it is checked again in time.
// So the owner of a namespace cannot wake all streams by its labels.

impl Source for AccessPolicy {
    const NAME: &'static str = "accesspolicies";
    const PLACE: usize = 5;
    const PAGE: u32 = LONG_PAGE;
    type Listing = ExplainedPolicies;

    fn begin(_world: &World) -> ExplainedPolicies {
        ExplainedPolicies::default()
    }

    fn list(self, _shared: &Shared, listing: &mut ExplainedPolicies) {
        listing.put(self);
    }

    fn reset(world: &mut World, listing: ExplainedPolicies) -> Vec<WorldChange> {
        world.catalog.reset_policies(listing);
        vec![WorldChange::Everything]
    }

    fn apply(world: &mut World, object: Self) -> Vec<WorldChange> {
        let changes = of_namespace(&object.metadata);
        news(world.catalog.put_policy(object), changes)
    }

    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<WorldChange> {
        let changes = of_namespace(&metadata);
        world.catalog.remove_policy(metadata);
        changes
    }

    fn unreadable(world: &mut World, object: Unreadable) -> Vec<WorldChange> {
        let Unreadable { metadata, problem } = object;
        let changes = of_namespace(&metadata);
        news(
            world.catalog.put_unreadable_policy(metadata, problem),
            changes,
        )
    }
}

impl Source for connector::Selectable {
    const NAME: &'static str = "connectors";
    const PLACE: usize = 6;
    const PAGE: u32 = LONG_PAGE;
    type Listing = Vec<ObjectMeta>;

    fn begin(_world: &World) -> Vec<ObjectMeta> {
        Vec::new()
    }

    fn list(self, _shared: &Shared, listing: &mut Vec<ObjectMeta>) {
        listing.push(pruned(self).meta().clone());
    }

    fn reset(world: &mut World, listing: Vec<ObjectMeta>) -> Vec<WorldChange> {
        world.catalog.reset_connectors(listing);
        vec![WorldChange::Everything]
    }

    fn apply(world: &mut World, object: Self) -> Vec<WorldChange> {
        let changes = of_namespace(object.meta());
        news(world.catalog.put_connector(object.meta().clone()), changes)
    }

    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<WorldChange> {
        let changes = of_namespace(&metadata);
        world.catalog.remove_connector(metadata);
        changes
    }
}

impl Source for PartialObjectMeta<Namespace> {
    const NAME: &'static str = "namespaces";
    const PLACE: usize = 7;
    const METADATA_ONLY: bool = true;
    type Listing = Vec<ObjectMeta>;

    fn begin(_world: &World) -> Vec<ObjectMeta> {
        Vec::new()
    }

    fn list(self, _shared: &Shared, listing: &mut Vec<ObjectMeta>) {
        listing.push(pruned(self).metadata);
    }

    fn reset(world: &mut World, listing: Vec<ObjectMeta>) -> Vec<WorldChange> {
        world.catalog.reset_namespaces(listing);
        Vec::new()
    }

    fn apply(world: &mut World, object: Self) -> Vec<WorldChange> {
        world.catalog.put_namespace(object.metadata);
        Vec::new()
    }

    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<WorldChange> {
        world.catalog.remove_namespace(metadata);
        Vec::new()
    }
}
