//! How many calls may be held: on the node, for each namespace of pods, and for each pod.

use connectors_api::{PodIdentity, access_request::MOST_OF_A_POD};
use service_kit::{
    fair::{TenantTurn, TenantTurns},
    quota::{Exceeded, Permit, Quota},
};
use thiserror::Error;

/// Held volumes of one pod. A pod that has more waits for its own.
const MOST_VOLUMES_OF_A_POD: usize = 16;

/// How many calls may be held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldLimits {
    /// On this node.
    pub(crate) node: usize,
    /// For the pods of one namespace.
    pub(crate) namespace: usize,
}

/// The calls that are held on this node.
#[derive(Clone, Debug)]
pub(crate) struct HoldQuota {
    limits: HoldLimits,
    /// By the UID of the pod.
    pods: TenantTurns<String>,
    /// Of the node, by the namespace of the pod.
    node: Quota<String>,
}

/// A call that is held, until this is dropped.
#[derive(Debug)]
pub(crate) struct HeldCall {
    _pod: TenantTurn<String>,
    _node: Permit<String>,
}

/// Why a call cannot be held. Each names its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum HoldQuotaFull {
    /// On the node.
    #[error(
        "too many mounts of this node wait for access (csiNode.maxHeld: {0}); this one is tried again later"
    )]
    Node(usize),
    /// For the namespace of the pod.
    #[error(
        "too many mounts of this namespace wait for access on this node (csiNode.maxHeldPerNamespace: {0}); this one is tried again later"
    )]
    Namespace(usize),
    /// For the pod.
    #[error(
        "too many volumes of this pod wait for access (at most {MOST_VOLUMES_OF_A_POD}); this one is tried again later"
    )]
    Pod,
    /// The pod has already caused its maximum of requests.
    #[error(
        "this pod needs an AccessRequest for more than {MOST_OF_A_POD} connectors, and a pod has at most {MOST_OF_A_POD}; split the pod, or give it standing permissions"
    )]
    Requests,
}

impl HoldQuota {
    /// A quota with these limits.
    pub(crate) fn new(limits: HoldLimits) -> Self {
        Self {
            limits,
            pods: TenantTurns::of(MOST_VOLUMES_OF_A_POD),
            node: Quota::new(limits.node, limits.namespace),
        }
    }

    /// Takes a place for a volume of a pod, if there is one.
    pub(crate) fn take(&self, pod: &PodIdentity) -> Result<HeldCall, HoldQuotaFull> {
        let HoldLimits { node, namespace } = self.limits;
        let of_pod = self
            .pods
            .try_take(pod.uid.clone(), 1)
            .ok_or(HoldQuotaFull::Pod)?;
        let of_node = self.node.try_take(pod.namespace.clone(), 1);
        let of_node = of_node.map_err(|exceeded| match exceeded {
            Exceeded::Share => HoldQuotaFull::Namespace(namespace),
            Exceeded::Total => HoldQuotaFull::Node(node),
        })?;
        Ok(HeldCall {
            _pod: of_pod,
            _node: of_node,
        })
    }

    /// How many pods and namespaces have held calls.
    #[cfg(test)]
    pub(crate) fn census(&self) -> usize {
        self.pods.tenants() + self.node.tenants()
    }

    /// How many places of the node are free.
    #[cfg(test)]
    pub(crate) fn free(&self) -> usize {
        self.limits.node - self.node.held()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn quota(node: usize, namespace: usize) -> HoldQuota {
        HoldQuota::new(HoldLimits { node, namespace })
    }

    fn pod(namespace: &str, uid: &str) -> PodIdentity {
        PodIdentity {
            namespace: namespace.to_owned(),
            name: "pod".to_owned(),
            uid: uid.to_owned(),
            service_account: "default".to_owned(),
        }
    }

    #[test]
    fn one_pod_takes_its_share_and_leaves_the_rest_to_others() {
        let quota = quota(MOST_VOLUMES_OF_A_POD + 1, MOST_VOLUMES_OF_A_POD + 1);
        let (greedy, other) = (pod("shop", "greedy"), pod("shop", "other"));
        let mut held: Vec<_> = (0..MOST_VOLUMES_OF_A_POD)
            .map(|_| quota.take(&greedy).unwrap())
            .collect();
        assert_eq!(quota.take(&greedy).err(), Some(HoldQuotaFull::Pod));
        let of_other = quota.take(&other).unwrap();
        assert!(quota.take(&other).is_err());
        held.pop();
        held.push(quota.take(&greedy).unwrap());
        drop((held, of_other));
        assert_eq!(
            (quota.census(), quota.free()),
            (0, MOST_VOLUMES_OF_A_POD + 1)
        );
    }

    #[test]
    fn pods_of_one_namespace_leave_room_to_other_namespaces() {
        let quota = quota(4, 2);
        let held = [1, 2].map(|uid| quota.take(&pod("shop", &uid.to_string())).unwrap());
        let refused = quota.take(&pod("shop", "3")).err();
        assert_eq!(refused, Some(HoldQuotaFull::Namespace(2)));
        let others = [4, 5].map(|uid| quota.take(&pod("bank", &uid.to_string())).unwrap());
        let refused = quota.take(&pod("mill", "6")).err();
        assert_eq!(refused, Some(HoldQuotaFull::Node(4)));
        drop(held);
        let again = quota.take(&pod("shop", "3")).unwrap();
        drop((others, again));
        assert_eq!(quota.census(), 0);
    }

    #[test]
    fn a_refusal_takes_nothing_and_names_its_bound() {
        let quota = quota(1, 1);
        let held = quota.take(&pod("shop", "a")).unwrap();
        for _ in 0..3 {
            assert_eq!(
                quota.take(&pod("bank", "b")).err(),
                Some(HoldQuotaFull::Node(1))
            );
            assert_eq!(
                quota.take(&pod("shop", "b")).err(),
                Some(HoldQuotaFull::Namespace(1))
            );
        }
        assert_eq!((quota.pods.tenants(), quota.node.tenants()), (1, 1));
        drop(held);
        quota.take(&pod("bank", "b")).unwrap();
        assert!(
            HoldQuotaFull::Node(1)
                .to_string()
                .contains("csiNode.maxHeld: 1")
        );
        let namespace = HoldQuotaFull::Namespace(1).to_string();
        assert!(namespace.contains("csiNode.maxHeldPerNamespace: 1"));
    }
}
