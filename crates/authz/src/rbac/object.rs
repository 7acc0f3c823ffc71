//! The four kinds of objects that the index is made from.

use k8s_openapi::Metadata;
use k8s_openapi::api::rbac::v1 as rbac;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use rbac::{ClusterRole, ClusterRoleBinding, PolicyRule, Role, RoleBinding};

/// A kind that the index holds: `Role`, `ClusterRole`, `RoleBinding` and `ClusterRoleBinding`.
pub trait RbacObject: Metadata<Ty = ObjectMeta> + sealed::Sealed {}

impl RbacObject for Role {}
impl RbacObject for ClusterRole {}
impl RbacObject for RoleBinding {}
impl RbacObject for ClusterRoleBinding {}

/// The content of an object apart from its metadata.
#[derive(Debug)]
pub enum RbacContent<'a> {
    /// The rules of a role. Those of an aggregated cluster role are complete here, because the controller of
    /// Kubernetes writes them into the object; the API server reads nothing else either.
    Rules(&'a [PolicyRule]),
    /// The role and the subjects of a binding.
    Binding(&'a rbac::RoleRef, &'a [rbac::Subject]),
}

/// Which of the two halves of RBAC a kind belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Half {
    /// Defines what may be done.
    Roles,
    /// Defines which subjects may do it.
    Bindings,
}

mod sealed {
    use super::{Half, RbacContent};

    pub trait Sealed {
        const NAMESPACED: bool;
        const HALF: Half;
        fn content(&self) -> RbacContent<'_>;
    }
}

impl sealed::Sealed for Role {
    const NAMESPACED: bool = true;
    const HALF: Half = Half::Roles;
    fn content(&self) -> RbacContent<'_> {
        RbacContent::Rules(self.rules.as_deref().unwrap_or_default())
    }
}

impl sealed::Sealed for ClusterRole {
    const NAMESPACED: bool = false;
    const HALF: Half = Half::Roles;
    fn content(&self) -> RbacContent<'_> {
        RbacContent::Rules(self.rules.as_deref().unwrap_or_default())
    }
}

impl sealed::Sealed for RoleBinding {
    const NAMESPACED: bool = true;
    const HALF: Half = Half::Bindings;
    fn content(&self) -> RbacContent<'_> {
        let subjects = self.subjects.as_deref().unwrap_or_default();
        RbacContent::Binding(&self.role_ref, subjects)
    }
}

impl sealed::Sealed for ClusterRoleBinding {
    const NAMESPACED: bool = false;
    const HALF: Half = Half::Bindings;
    fn content(&self) -> RbacContent<'_> {
        let subjects = self.subjects.as_deref().unwrap_or_default();
        RbacContent::Binding(&self.role_ref, subjects)
    }
}
