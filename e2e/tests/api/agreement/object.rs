//! An RBAC object of any kind: in the API server and in the index alike.

use authz::{IndexError, RbacIndex, RbacObject};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::rbac::v1::{
    ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding, RoleRef, Subject,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::{DeleteParams, ListParams, PostParams};
use kube::{Api, Client, Resource};

/// The label on every object of a run, so that the run can delete all of them.
pub(crate) const RUN: &str = "agreement-run";

#[derive(Clone, Debug)]
pub(crate) enum Object {
    Role(Role),
    ClusterRole(ClusterRole),
    RoleBinding(RoleBinding),
    ClusterRoleBinding(ClusterRoleBinding),
}

/// The API of the kind of an object, where the object is.
trait Home: Resource<DynamicType = ()> + Sized {
    fn api(client: &Client, metadata: &ObjectMeta) -> Api<Self>;
}

macro_rules! homes {
    ($($kind:ident)+, $of:ident) => {$(
        impl Home for $kind {
            fn api(client: &Client, metadata: &ObjectMeta) -> Api<Self> {
                $of(client, metadata)
            }
        }
    )+};
}

homes!(Role RoleBinding, namespaced);
homes!(ClusterRole ClusterRoleBinding, global);

fn namespaced<K>(client: &Client, metadata: &ObjectMeta) -> Api<K>
where
    K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
{
    Api::namespaced(client.clone(), metadata.namespace.as_deref().unwrap())
}

fn global<K: Resource<DynamicType = ()>>(client: &Client, _: &ObjectMeta) -> Api<K> {
    Api::all(client.clone())
}

macro_rules! each {
    ($object:expr, $it:ident => $do:expr) => {
        match $object {
            Object::Role($it) => $do,
            Object::ClusterRole($it) => $do,
            Object::RoleBinding($it) => $do,
            Object::ClusterRoleBinding($it) => $do,
        }
    };
}

macro_rules! each_same {
    ($object:expr, $it:ident => $do:expr) => {
        match $object {
            Object::Role($it) => Object::Role($do),
            Object::ClusterRole($it) => Object::ClusterRole($do),
            Object::RoleBinding($it) => Object::RoleBinding($do),
            Object::ClusterRoleBinding($it) => Object::ClusterRoleBinding($do),
        }
    };
}

impl Object {
    /// Creates it. From then on the object as stored by the API server counts.
    pub(crate) async fn create(self, client: &Client) -> Self {
        let by_post = PostParams::default();
        each_same!(self, it => {
            let api = Home::api(client, &it.metadata);
            api.create(&by_post, &it).await.unwrap()
        })
    }

    pub(crate) async fn replace(self, client: &Client) -> Self {
        let by_put = PostParams::default();
        each_same!(self, it => {
            let name = it.metadata.name.clone().unwrap();
            let api = Home::api(client, &it.metadata);
            api.replace(&name, &by_put, &it).await.unwrap()
        })
    }

    pub(crate) async fn delete(&self, client: &Client) {
        let at_once = DeleteParams::default();
        each!(self, it => {
            let name = it.metadata.name.as_deref().unwrap();
            let gone = api_of(it, client).delete(name, &at_once).await;
            gone.map(drop).unwrap();
        });
    }

    pub(crate) fn put(&self, index: &mut RbacIndex) -> Result<(), IndexError> {
        each!(self, it => index.apply(it))
    }

    pub(crate) fn take(&self, index: &mut RbacIndex) {
        each!(self, it => index.delete(it));
    }

    /// The rules of a role, to be changed.
    pub(crate) fn rules(&mut self) -> Option<&mut Vec<PolicyRule>> {
        match self {
            Self::Role(role) => role.rules.as_mut(),
            Self::ClusterRole(role) => role.rules.as_mut(),
            Self::RoleBinding(_) | Self::ClusterRoleBinding(_) => None,
        }
    }

    /// The subjects of a binding, to be changed.
    pub(crate) fn subjects(&mut self) -> Option<&mut Vec<Subject>> {
        match self {
            Self::RoleBinding(binding) => binding.subjects.as_mut(),
            Self::ClusterRoleBinding(binding) => binding.subjects.as_mut(),
            Self::Role(_) | Self::ClusterRole(_) => None,
        }
    }

    /// The role of a binding.
    pub(crate) fn role(&self) -> Option<&RoleRef> {
        match self {
            Self::RoleBinding(binding) => Some(&binding.role_ref),
            Self::ClusterRoleBinding(binding) => Some(&binding.role_ref),
            Self::Role(_) | Self::ClusterRole(_) => None,
        }
    }

    pub(crate) fn metadata(&self) -> &ObjectMeta {
        each!(self, it => &it.metadata)
    }

    pub(crate) fn kind(&self) -> &'static str {
        match self {
            Self::Role(_) => "Role",
            Self::ClusterRole(_) => "ClusterRole",
            Self::RoleBinding(_) => "RoleBinding",
            Self::ClusterRoleBinding(_) => "ClusterRoleBinding",
        }
    }
}

fn api_of<K: Home>(object: &K, client: &Client) -> Api<K> {
    K::api(client, object.meta())
}

/// An index of everything that the API server holds now.
pub(crate) async fn index_of_all(client: &Client) -> RbacIndex {
    let mut index = RbacIndex::default();
    let errors = [
        fill::<Role>(client, &mut index).await,
        fill::<ClusterRole>(client, &mut index).await,
        fill::<RoleBinding>(client, &mut index).await,
        fill::<ClusterRoleBinding>(client, &mut index).await,
    ]
    .concat();
    assert_eq!(errors, []);
    index
}

async fn fill<K>(client: &Client, index: &mut RbacIndex) -> Vec<IndexError>
where
    K: RbacObject + Resource<DynamicType = ()> + Clone + std::fmt::Debug,
    K: serde::de::DeserializeOwned,
{
    let all = Api::<K>::all(client.clone());
    let list = all.list(&ListParams::default()).await.unwrap();
    index.reset(&list.items)
}

/// Deletes the cluster-scoped objects of a run; its namespaces are deleted with their content.
pub(crate) async fn remove_all(client: &Client, run: &str) {
    let of_run = ListParams::default().labels(&format!("{RUN}={run}"));
    let at_once = DeleteParams::default();
    let roles = Api::<ClusterRole>::all(client.clone());
    let bindings = Api::<ClusterRoleBinding>::all(client.clone());
    bindings.delete_collection(&at_once, &of_run).await.unwrap();
    roles.delete_collection(&at_once, &of_run).await.unwrap();
}
