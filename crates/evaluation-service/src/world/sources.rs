//! The kinds that are followed: how each is read, and what it does to the world.

use std::fmt::Debug;

use authz::{IndexError, RbacObject};
use connectors_api::{AccessPolicy, AccessRequest, Connector, parse};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::Resource;
use kube::core::PartialObjectMeta;
use serde::de::DeserializeOwned;
use service_kit::watches::{Parse, Unreadable};
use tracing::warn;

use super::{Change, KnownRequest, World};

/// Reads requests as strictly as everybody else does: what a service does not understand as a whole
/// gives nobody access.
#[derive(Clone, Copy, Debug)]
pub enum ParsedRequest {}

impl Parse<AccessRequest> for ParsedRequest {
    fn parse(json: &str) -> Result<AccessRequest, String> {
        let value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        parse::object(&value).map_err(|error| error.to_string())
    }
}

/// Reads policies as strictly as everybody else does.
#[derive(Clone, Copy, Debug)]
pub(super) enum ParsedPolicy {}

impl Parse<AccessPolicy> for ParsedPolicy {
    fn parse(json: &str) -> Result<AccessPolicy, String> {
        let value = serde_json::from_str(json).map_err(|error| error.to_string())?;
        parse::object(&value).map_err(|error| error.to_string())
    }
}

/// A kind that is followed.
pub(super) trait Source:
    Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static
{
    const NAME: &'static str;
    const PLACE: usize;
    /// Whether nothing but metadata is asked for.
    const METADATA_ONLY: bool = false;

    /// What is held of an object until its list is complete.
    type Kept: Send;

    /// Takes away what is never looked at, which is most of many objects. None is left of one that no
    /// answer depends on.
    fn keep(self) -> Option<Self::Kept>;

    fn apply(world: &mut World, object: Self) -> Vec<Change>;
    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<Change>;
    fn reset(world: &mut World, objects: Vec<Self::Kept>) -> Vec<Change>;

    /// An object that is there and cannot be read counts for nothing.
    fn unreadable(world: &mut World, Unreadable { metadata, .. }: Unreadable) -> Vec<Change> {
        Self::delete(world, metadata)
    }
}

fn pruned<K: Resource>(mut object: K) -> K {
    let metadata = object.meta_mut();
    metadata.managed_fields = None;
    metadata.annotations = None;
    object
}

fn of_namespace(metadata: &ObjectMeta) -> Vec<Change> {
    let namespace = metadata.namespace.clone();
    vec![namespace.map_or(Change::Everything, Change::Namespace)]
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
            type Kept = Self;

            fn keep(self) -> Option<Self> {
                Some(pruned(self))
            }

            fn apply(world: &mut World, object: Self) -> Vec<Change> {
                apply_rbac(world, object)
            }

            fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<Change> {
                let changes = of_namespace(&metadata);
                world.rbac.delete(&Self { metadata, ..Self::default() });
                changes
            }

            fn reset(world: &mut World, objects: Vec<Self>) -> Vec<Change> {
                complain(world.rbac.reset(objects));
                vec![Change::Everything]
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

fn apply_rbac<K: RbacObject>(world: &mut World, object: K) -> Vec<Change> {
    let changes = of_namespace(object.metadata());
    complain(world.rbac.apply(object).err());
    changes
}

impl Source for AccessRequest {
    const NAME: &'static str = "accessrequests";
    const PLACE: usize = 4;
    type Kept = KnownRequest;

    fn keep(self) -> Option<KnownRequest> {
        KnownRequest::read(self)
    }

    fn apply(world: &mut World, object: Self) -> Vec<Change> {
        let tuples = world.requests.apply(object);
        tuples.into_iter().map(Change::Tuple).collect()
    }

    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<Change> {
        let ObjectMeta {
            namespace, name, ..
        } = metadata;
        let tuple = namespace
            .zip(name)
            .and_then(|(namespace, name)| world.requests.delete(&namespace, &name));
        tuple.map(Change::Tuple).into_iter().collect()
    }

    fn reset(world: &mut World, objects: Vec<KnownRequest>) -> Vec<Change> {
        world.requests.reset(objects);
        vec![Change::Everything]
    }
}

// No decision depends on what follows, so nobody is told when it changes.

impl Source for AccessPolicy {
    const NAME: &'static str = "accesspolicies";
    const PLACE: usize = 5;
    type Kept = Self;

    fn keep(self) -> Option<Self> {
        Some(pruned(self))
    }

    fn apply(world: &mut World, object: Self) -> Vec<Change> {
        world.around.put_policy(object);
        Vec::new()
    }

    fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<Change> {
        world.around.remove_policy(metadata);
        Vec::new()
    }

    fn reset(world: &mut World, objects: Vec<Self>) -> Vec<Change> {
        world.around.reset_policies(objects);
        Vec::new()
    }

    fn unreadable(world: &mut World, object: Unreadable) -> Vec<Change> {
        let Unreadable { metadata, problem } = object;
        world.around.put_unreadable_policy(metadata, problem);
        Vec::new()
    }
}

macro_rules! labelled_sources {
    ($($kind:ident $name:literal $place:literal $put:ident $remove:ident $reset:ident)+) => {$(
        impl Source for PartialObjectMeta<$kind> {
            const NAME: &'static str = $name;
            const PLACE: usize = $place;
            const METADATA_ONLY: bool = true;
            type Kept = Self;

            fn keep(self) -> Option<Self> {
                Some(pruned(self))
            }

            fn apply(world: &mut World, object: Self) -> Vec<Change> {
                world.around.$put(object.metadata);
                Vec::new()
            }

            fn delete(world: &mut World, metadata: ObjectMeta) -> Vec<Change> {
                world.around.$remove(metadata);
                Vec::new()
            }

            fn reset(world: &mut World, objects: Vec<Self>) -> Vec<Change> {
                let all = objects.into_iter().map(|object| object.metadata);
                world.around.$reset(all);
                Vec::new()
            }
        }
    )+};
}

labelled_sources! {
    Connector "connectors" 6 put_connector remove_connector reset_connectors
    Namespace "namespaces" 7 put_namespace remove_namespace reset_namespaces
}
