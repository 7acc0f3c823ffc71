//! A release's life on a real API server: the objects that an upgrade keeps, and those that an uninstallation
//! leaves.
//!
//! The pods do not run here: their images do not exist.

use std::{
    env,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use e2e::{
    Cluster, CommandError, Deadline, Helm, Kubectl, Progress,
    harness::Scene,
    install::{NAMESPACE, RELEASE, chart},
    poll,
};
use serde_json::{Value, json};

/// Objects of every installation, independent of its release. The test looks for them before it installs
/// anything.
const OURS: &str = "namespace/connectors-system csidriver/connectors-csi";

/// The chart's own policies answer while it is installed: one test at a time wants them, or wants them away.
static INSTALLATION: Mutex<()> = Mutex::new(());

pub(crate) fn alone() -> MutexGuard<'static, ()> {
    INSTALLATION.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An installed chart; it goes with this, also when a test fails.
struct Release<'a> {
    scene: &'a Scene,
    helm: Helm,
}

impl<'a> Release<'a> {
    fn install(scene: &'a Scene) -> Self {
        let local = scene.cluster().map(Cluster::kubectl);
        assert_eq!(
            local.as_ref().map(Kubectl::kubeconfig),
            Some(scene.kubectl().kubeconfig()),
            "E2E_CLUSTER names another cluster than the one that is spoken to"
        );
        let standing = scene
            .kubectl()
            .run(&format!("get {OURS} --ignore-not-found --output=name"))
            .unwrap();
        assert_eq!(
            standing, "",
            "this test would remove an installation that it did not make"
        );
        let helm = Helm::get(&Progress::default()).unwrap();
        // From here on it is ours, and the end of this takes it away.
        let release = Self { scene, helm };
        // The custom resources may be there already: they are the API tests'.
        release.upgrade(&[
            "--create-namespace",
            "--take-ownership",
            "--force-conflicts",
        ]);
        release
    }

    fn upgrade(&self, args: &[&str]) {
        self.try_upgrade(args).unwrap();
    }

    fn try_upgrade(&self, args: &[&str]) -> Result<String, CommandError> {
        let helm = self
            .helm
            .on(self.scene.kubectl())
            .args(["upgrade", "--install", RELEASE]);
        let helm = helm.args([chart()]).args(["--namespace", NAMESPACE]);
        let helm = helm.args([
            "--set",
            "image.registry=localhost/no-such-place,image.pullPolicy=Never",
        ]);
        helm.args(args).output()
    }

    fn uninstall(&self) {
        let helm = self.helm.on(self.scene.kubectl());
        let words = [
            "uninstall",
            RELEASE,
            "--namespace",
            NAMESPACE,
            "--ignore-not-found",
        ];
        helm.args(words).output().unwrap();
        // The API server forgets policies a moment after they are gone.
        let forged = GRANT.replace("NAME", "no-policy");
        let words = format!(
            "--namespace {} create --dry-run=server -f -",
            self.scene.namespace()
        );
        poll(
            "the policies to be forgotten",
            Deadline::after(Duration::from_secs(30)),
            || {
                self.scene
                    .kubectl()
                    .run_with_input(&words, &forged)
                    .map_err(|error| error.to_string())
            },
        )
        .unwrap();
    }

    fn get(&self, what: &str) -> Value {
        let answer = self
            .scene
            .kubectl()
            .run(&format!("get {what} -o json"))
            .unwrap();
        serde_json::from_str(&answer).unwrap()
    }

    fn bundles(&self) -> [Value; 2] {
        let bundle = |kind: &str| {
            let object = self.get(&format!("{kind} {RELEASE}"));
            object["webhooks"][0]["clientConfig"]["caBundle"].clone()
        };
        [
            "mutatingwebhookconfiguration",
            "validatingwebhookconfiguration",
        ]
        .map(bundle)
    }
}

impl Drop for Release<'_> {
    fn drop(&mut self) {
        self.uninstall();
        let words = format!("delete namespace {NAMESPACE} --ignore-not-found --wait");
        self.scene.kubectl().run(&words).unwrap();
    }
}

const GRANT: &str = "
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata: {name: NAME, labels: {app.kubernetes.io/managed-by: connectors-approval}}
";

/// Base64 of a PEM certificate without a known key.
const BUNDLE: &str = include_str!("bundle.txt");

#[test]
fn a_release_is_upgraded_and_removed_without_taking_what_is_not_its_own() {
    let _alone = alone();
    // Before the first command to the cluster: an existing one must stay unchanged.
    assert!(
        env::var_os("E2E_CLUSTER").is_some(),
        "this test installs and removes the chart, which it does on a local cluster only: E2E_CLUSTER is not set"
    );
    let scene = Scene::new("release");
    let release = Release::install(&scene);

    // The rules of an aggregated role are the controller manager's.
    let reader = "clusterrole connectors-check-reader";
    let rules = poll(
        "the aggregated role",
        Deadline::after(Duration::from_secs(30)),
        || {
            let rules = release.get(reader)["rules"].clone();
            if rules.as_array().is_some_and(|rules| rules.len() == 2) {
                Ok(rules)
            } else {
                Err(rules.to_string())
            }
        },
    );
    let rules = rules.unwrap();

    // The webhook's own field survives both ways in which Helm writes.
    for kind in [
        "mutatingwebhookconfiguration",
        "validatingwebhookconfiguration",
    ] {
        let bundle = BUNDLE.trim();
        let patch = format!(
            r#"[{{"op":"add","path":"/webhooks/0/clientConfig/caBundle","value":"{bundle}"}}]"#
        );
        scene
            .kubectl()
            .run(&format!(
                "patch {kind} {RELEASE} --type=json --patch {patch}"
            ))
            .unwrap();
    }
    let before = release.bundles();
    assert_eq!(before[0], BUNDLE.trim());
    release.upgrade(&["--set=approval.enabled=true"]);
    assert_eq!(release.bundles(), before);
    release.upgrade(&["--set=log.filter=debug", "--server-side=false"]);
    assert_eq!(release.bundles(), before);
    assert_eq!(release.get(reader)["rules"], rules);

    // A removed field of a custom resource comes back: upgrades upgrade them.
    let crd = "crd accesspolicies.connectors.alauda.io";
    let short_names = r#"[{"op":"remove","path":"/spec/names/shortNames"}]"#;
    scene
        .kubectl()
        .run(&format!("patch {crd} --type=json --patch {short_names}"))
        .unwrap();
    release.upgrade(&["--force-conflicts", "--server-side=true"]);
    assert_eq!(release.get(crd)["spec"]["names"]["shortNames"][0], "apol");

    // There is no node, so no webhook answers for a policy; a connector does without.
    let connector = json!({
        "apiVersion": "connectors.alauda.io/v1alpha1", "kind": "Connector",
        "metadata": {"name": "kept"}, "spec": {"connectorClassName": "e2e"},
    });
    scene.apply(&connector).unwrap();
    release.uninstall();
    let kept = release.get(&format!("connector kept --namespace {}", scene.namespace()));
    assert_eq!(kept["metadata"]["name"], "kept");
    let left = scene.kubectl().run("get clusterroles,clusterrolebindings,csidrivers,validatingadmissionpolicies,mutatingwebhookconfigurations,validatingwebhookconfigurations -o name --selector app.kubernetes.io/instance=connectors-approval").unwrap();
    assert_eq!(left, "");

    // And everything comes back, the kept custom resources included.
    release.upgrade(&[]);
    assert_eq!(
        release.get("csidriver connectors-csi")["spec"]["podInfoOnMount"],
        true
    );
}

/// Without that right, pods would wait with the gate for ever.
#[test]
fn the_right_to_remove_gates_stays_until_gates_are_released() {
    let _alone = alone();
    assert!(
        env::var_os("E2E_CLUSTER").is_some(),
        "this test installs and removes the chart, which it does on a local cluster only: E2E_CLUSTER is not set"
    );
    let scene = Scene::new("release-gate");
    let release = Release::install(&scene);
    let may_patch = || {
        let rules = release.get("clusterrole connectors-request-controller")["rules"].to_string();
        rules.contains(r#"{"apiGroups":[""],"resources":["pods"],"verbs":["patch"]}"#)
    };
    assert!(!may_patch());
    release.upgrade(&["--set=approval.schedulingGate=Set"]);
    assert!(may_patch());
    let refused = release.try_upgrade(&["--set=approval.schedulingGate=Absent"]);
    let refused = e2e::report(&refused.unwrap_err());
    assert!(refused.contains("set Release first"), "{refused}");
    assert!(may_patch());
    release.upgrade(&["--set=approval.schedulingGate=Release"]);
    assert!(may_patch());
    release.upgrade(&[]);
    assert!(!may_patch());
}
