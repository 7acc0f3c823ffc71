//! Every rule is needed: without it the API server accepts the object that the rule's case refuses.
//!
//! So the refusal of a case comes from its own rule alone, and no rule is a copy of another one or of
//! the schema. Mutants live side by side with the real CRDs, under groups of their own.

use futures::future::join_all;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, DeleteParams};
use serde_json::{Value, json};

use crate::cases::{Case, all, attempt};
use crate::schemas::{cel_messages, for_each_rule_list};
use crate::support::{Scene, install_crd, scene};

/// Mutants that are made at the same time: more only wait for the API server's processors.
const AT_ONCE: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn without_a_rule_its_case_is_let_through() {
    let scene = scene("mutants").await;
    let rules: Vec<_> = cel_messages().into_iter().enumerate().collect();
    let mut wrong = Vec::new();
    for some in rules.chunks(AT_ONCE) {
        let survivors = some
            .iter()
            .map(|(number, rule)| outlived(&scene, *number, rule));
        wrong.extend(join_all(survivors).await.into_iter().flatten());
    }
    wrong.extend(outside_the_policies(&scene).await);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Cases of `rule` that are refused although the rule is gone.
async fn outlived(scene: &Scene, number: usize, rule: &str) -> Vec<String> {
    let cases: Vec<_> = all()
        .into_iter()
        .filter(|case| case.is_cel() && case.message == rule)
        .collect();
    let mutant = Mutant::new(&cases[0].kind(), &format!("m{number:02}"), |rules| {
        rules.retain(|other| other["message"] != rule);
    });
    mutant.refusals(scene, &cases).await
}

/// Cases of admission policies that are refused where no policy of ours applies.
async fn outside_the_policies(scene: &Scene) -> Vec<String> {
    let cases: Vec<_> = all().into_iter().filter(Case::is_vap).collect();
    Mutant::new("AccessRequest", "outside", |_| {})
        .refusals(scene, &cases)
        .await
}

struct Mutant {
    group: String,
    crd: CustomResourceDefinition,
}

impl Mutant {
    fn new(kind: &str, name: &str, mut change: impl FnMut(&mut Vec<Value>)) -> Self {
        let crd = connectors_api::crd::all()
            .into_iter()
            .find(|crd| crd.spec.names.kind == kind)
            .unwrap();
        let group = format!("{name}.mutants.test");
        let mut crd = serde_json::to_value(crd).unwrap();
        for_each_rule_list(&mut crd, &mut change);
        crd["metadata"]["name"] = json!(format!(
            "{}.{group}",
            crd["spec"]["names"]["plural"].as_str().unwrap()
        ));
        crd["spec"]["group"] = json!(group);
        // Dozens of kinds under one short name would disturb other users of the cluster.
        crd["spec"]["names"]
            .as_object_mut()
            .unwrap()
            .retain(|field, _| !["shortNames", "categories"].contains(&field.as_str()));
        Self {
            group,
            crd: serde_json::from_value(crd).unwrap(),
        }
    }

    async fn refusals(&self, scene: &Scene, cases: &[Case]) -> Vec<String> {
        install_crd(&scene.client, &self.crd).await;
        let mut refusals = Vec::new();
        for case in cases {
            let existing = case.existing().map(|object| self.of(object));
            if let Err(refusal) = attempt(scene, existing.as_ref(), &self.of(case.refused())).await
            {
                refusals.push(format!(
                    "{} without its rule: {}",
                    case.file, refusal.message
                ));
            }
        }
        let crds: Api<CustomResourceDefinition> = Api::all(scene.client.clone());
        crds.delete(
            self.crd.metadata.name.as_deref().unwrap(),
            &DeleteParams::default(),
        )
        .await
        .unwrap();
        refusals
    }

    /// The same object as one of the mutant's.
    fn of(&self, mut object: Value) -> Value {
        object["apiVersion"] = json!(format!("{}/v1alpha1", self.group));
        object
    }
}
