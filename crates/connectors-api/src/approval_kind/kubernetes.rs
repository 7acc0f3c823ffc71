//! Kubernetes itself, and the kinds of this product.
//!
//! Excluded are kinds that a controller reads for its own work: otherwise a policy of one namespace could use the
//! controller to learn about such objects of another namespace. Excluded are also the groups of objects that pods and
//! controllers write during normal operation, or that decide about access themselves: writing such an object is not
//! an approval.

use super::{KindRow, NEVER, OTHER};
use crate::names::GROUP;

pub(super) const ROWS: &[KindRow] = &[
    // The administrator opts in, because the request-controller then reads every ConfigMap of the cluster.
    KindRow {
        group: "",
        kind: Some("ConfigMap"),
        needs: OTHER,
    },
    never(""),
    never(GROUP),
    never("rbac.authorization.k8s.io"),
    never("authentication.k8s.io"),
    never("authorization.k8s.io"),
    never("admissionregistration.k8s.io"),
    never("apiregistration.k8s.io"),
];

const fn never(group: &'static str) -> KindRow {
    KindRow {
        group,
        kind: None,
        needs: NEVER,
    }
}
