//! Decides with the evaluation service's own rule whether the node plugin would mount.

use connectors_api::Permission;
use evaluation_api::access::{AccessQuestion, ConnectorName, Decision, PodRef, ServiceAccountName};
use evaluation_service::{access_decision, world};
use request_controller::seen::ManagedObject;

use super::{
    objects,
    tables::{Asked, Tables, remember},
    world::{Kind, Late, World},
};

impl Tables {
    /// Whether the pod with this name may use the connector now.
    pub(super) fn may_mount(&self, world: &World, slot: usize, late: Late) -> bool {
        let asked = Asked {
            slot,
            generation: world.pods[slot].generation,
            requests: world.requests,
            grants: world.grants,
        };
        if asked.grants.iter().flatten().all(|it| !it.binding) {
            return false;
        }
        remember(&self.access, &(asked, late), || self.ask(world, slot, late))
    }

    fn ask(&self, world: &World, slot: usize, late: Late) -> bool {
        let mut known = world::World::default();
        for (id, stored) in world.all_requests() {
            if let Some(request) = self.request(id, stored.status) {
                known.requests.apply(request);
            }
        }
        for (id, policy, there) in world.all_grants() {
            for kind in Kind::ALL.into_iter().filter(|kind| there.has(*kind)) {
                let form = if kind == Kind::Role { there.role } else { 1 };
                let managed = objects::managed(id, policy, kind, form);
                let applied = match managed.map(|it| it.object) {
                    Some(ManagedObject::Role(Ok(role))) => known.chain.rbac.apply(&role).is_ok(),
                    Some(ManagedObject::RoleBinding(Ok(binding))) => {
                        known.chain.rbac.apply(&binding).is_ok()
                    }
                    Some(
                        ManagedObject::Role(Err(_))
                        | ManagedObject::RoleBinding(Err(_))
                        | ManagedObject::Kept(..),
                    )
                    | None => false,
                };
                debug_assert!(applied, "the index refuses an object of a grant");
            }
        }
        let question = AccessQuestion::mount(
            ServiceAccountName {
                namespace: objects::HOME.to_owned(),
                name: objects::ACCOUNT.to_owned(),
            },
            ConnectorName {
                namespace: objects::NAMESPACE.to_owned(),
                name: objects::CONNECTOR.to_owned(),
            },
            Permission::Apis,
            PodRef {
                name: objects::pod_name(slot),
                uid: objects::pod_uid(slot, world.pods[slot].generation),
            },
        );
        let answer = access_decision::answer(&known, &question, objects::wall(late));
        match answer.decision {
            Decision::AllowedPod(_) | Decision::AllowedStanding(_) => true,
            Decision::Denied => false,
        }
    }
}
