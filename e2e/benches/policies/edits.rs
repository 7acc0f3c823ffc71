//! Policies that are edited, and the reviews that show it.

use std::time::{Duration, Instant};

use connectors_api::AccessPolicy;
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::{sleep, timeout};

use crate::PATIENCE;
use crate::support::load::Times;
use crate::world::{ACCOUNT, EDITOR, POLICIES, World, policy};

/// Between two edits that do not meet: six of the periods in which the API server asks etcd for its progress.
pub(crate) const PAUSE: Duration = Duration::from_millis(600);

pub(crate) struct Editing<'a> {
    pub(crate) world: &'a World,
    /// The administrator's.
    pub(crate) client: &'a Client,
}

impl Editing<'_> {
    /// One policy at a time names another account. The times until that one has the permission, and until it has not.
    pub(crate) async fn measure(&self, edits: usize, pause: Duration) -> [Times; 2] {
        let [mut given, mut taken] = [Times::default(), Times::default()];
        for edit in 0..edits {
            let number = edit * 37 % POLICIES;
            for (times, account, is_allowed) in
                [(&mut given, EDITOR, true), (&mut taken, ACCOUNT, false)]
            {
                sleep(pause).await;
                let began = self.edit(number, account).await;
                self.until(number, EDITOR, is_allowed).await;
                times.add(began.elapsed());
            }
        }
        [given, taken]
    }

    /// Writes the policy; gives when that was answered.
    pub(crate) async fn edit(&self, number: usize, account: &str) -> Instant {
        let policies = self.world.of_team::<AccessPolicy>(number);
        let spec = Patch::Merge(json!({"spec": self.world.spec(number, account)}));
        let params = PatchParams::default();
        let patched = policies.patch(&policy(number), &params, &spec).await;
        patched.unwrap();
        Instant::now()
    }

    /// Asks the API server again and again until it says so.
    pub(crate) async fn until(&self, number: usize, account: &str, is_allowed: bool) {
        let team = self.world.team(number);
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                user: Some(format!("system:serviceaccount:{team}:{account}")),
                resource_attributes: Some(ResourceAttributes {
                    group: Some("connectors.alauda.io".to_owned()),
                    resource: Some("connectors".to_owned()),
                    subresource: Some("apis".to_owned()),
                    namespace: Some(team),
                    name: World::connectors_of(number).next(),
                    verb: Some("*".to_owned()),
                    ..ResourceAttributes::default()
                }),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let reviews = Api::<SubjectAccessReview>::all(self.client.clone());
        let asked = async {
            loop {
                let answer = reviews.create(&PostParams::default(), &review).await;
                if answer.unwrap().status.unwrap().allowed == is_allowed {
                    return;
                }
            }
        };
        let answered = timeout(PATIENCE, asked).await;
        answered.unwrap_or_else(|_| panic!("policy {number} stays as it was"));
    }
}
