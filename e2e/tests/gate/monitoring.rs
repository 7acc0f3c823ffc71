//! Prometheus sees the installation: every query of dashboard, alerts and documents is answered, and alerts fire when
//! something is wrong.

use std::{collections::BTreeSet, fs};

use e2e::{
    Deadline,
    api::kinds::{ADMISSION_BINDING, ADMISSION_POLICY, POD, ROLE_BINDING},
    checker,
    harness::PATIENCE,
    poll, repository,
};
use serde_json::{Value, json};

use crate::support::{Approval, Gate, Installation, Prometheus, name, wait_until};

/// The alert that waits for longest, by its expression.
const STUCK: &str = "ConnectorsRevocationStuck";

/// The alerts as they are shipped, without their patience: the test has none.
fn impatient_alerts() -> Value {
    let path = repository().join("deploy/alerts/connectors-approval.yaml");
    let mut alerts: Value = serde_yaml::from_str(&fs::read_to_string(path).unwrap()).unwrap();
    for rule in rules(&mut alerts) {
        rule.as_object_mut().unwrap().remove("for");
        if rule["alert"] == STUCK {
            let patient = rule["expr"].as_str().unwrap();
            assert!(patient.ends_with("> 60"), "{patient}");
            rule["expr"] = patient.replace("> 60", "> 2").into();
        }
    }
    alerts
}

fn word(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn rules(alerts: &mut Value) -> Vec<&mut Value> {
    let groups = alerts["groups"].as_array_mut().unwrap().iter_mut();
    let rules = groups.flat_map(|it| it["rules"].as_array_mut().unwrap());
    rules.collect()
}

/// The queries of the dashboard and of the documents.
fn questions() -> Vec<String> {
    let read = |path: &str| fs::read_to_string(repository().join(path)).unwrap();
    let dashboard = read("deploy/dashboards/connectors-approval.json");
    let dashboard: Value = serde_json::from_str(&dashboard).unwrap();
    let panels = dashboard["panels"].as_array().unwrap().iter();
    let targets = panels.flat_map(|it| it["targets"].as_array().into_iter().flatten());
    let of_dashboard = targets.map(|it| {
        let query = it["expr"].as_str().unwrap();
        query.replace("$__rate_interval", "1m")
    });
    let page = read("docs/operate.md");
    let blocks = page.split("```promql\n").skip(1);
    let of_page = blocks.flat_map(|it| it.split("```").next().unwrap().split("\n\n"));
    let of_page = of_page.map(|it| it.trim().to_owned());
    let questions: Vec<String> = of_dashboard.chain(of_page).collect();
    assert!(questions.len() > 60, "{questions:#?}");
    questions
}

/// Waits until all of these give data.
fn expect_data(prometheus: &Prometheus, queries: &BTreeSet<String>) {
    let empty = || {
        let empty = queries.iter().filter_map(|query| {
            let why = match prometheus.query(query) {
                Ok(samples) if !samples.is_empty() => return None,
                Ok(_) => "no data".to_owned(),
                Err(error) => error,
            };
            Some(format!("{query}: {why}"))
        });
        let empty: Vec<_> = empty.collect();
        if empty.is_empty() {
            Ok(())
        } else {
            Err(format!("\n{}\n", empty.join("\n")))
        }
    };
    poll("an answer to every query", Deadline::after(PATIENCE), empty).unwrap();
}

/// Waits until these alerts fire: their names, and labels that they have.
fn expect_alerts(prometheus: &Prometheus, wanted: &[(&str, Value)]) {
    let fire = || {
        let firing = prometheus.firing()?;
        let fires = |(name, labels): &(&str, Value)| {
            let labels = labels.as_object().unwrap();
            firing.iter().any(|it| {
                it["labels"]["alertname"] == *name
                    && labels
                        .iter()
                        .all(|(key, value)| it["labels"][key] == *value)
            })
        };
        if wanted.iter().all(fires) {
            Ok(())
        } else {
            Err(labels(&firing))
        }
    };
    let what = format!("alerts {wanted:?}");
    poll(&what, Deadline::after(PATIENCE), fire).unwrap();
}

/// Waits until none of these alerts fires.
fn expect_end(prometheus: &Prometheus, alerts: &[&str]) {
    let rest = || {
        let mut firing = prometheus.firing()?;
        firing.retain(|it| alerts.iter().any(|name| it["labels"]["alertname"] == *name));
        if firing.is_empty() {
            Ok(())
        } else {
            Err(labels(&firing))
        }
    };
    let what = format!("the end of alerts {alerts:?}");
    poll(&what, Deadline::after(PATIENCE), rest).unwrap();
}

fn labels(firing: &[Value]) -> String {
    let labels = firing.iter().map(|it| it["labels"].to_string());
    labels.collect::<Vec<_>>().join(", ")
}

/// Another admission policy than ours: it refuses every deletion of a `RoleBinding` of the test's namespace, until this
/// is dropped.
struct KeepsBindings<'a>(&'a Gate);

impl<'a> KeepsBindings<'a> {
    fn begin(gate: &'a Gate) -> Self {
        let name = gate.namespace();
        let policy = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicy",
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": ["rbac.authorization.k8s.io"], "apiVersions": ["v1"],
                    "operations": ["DELETE"], "resources": ["rolebindings"],
                }]},
                "validations": [{"expression": "false", "message": "bindings stay"}],
            },
        });
        let own = json!({"matchLabels": {"kubernetes.io/metadata.name": name}});
        let binding = json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingAdmissionPolicyBinding",
            "metadata": {"name": name},
            "spec": {
                "policyName": name, "validationActions": ["Deny"],
                "matchResources": {"namespaceSelector": own},
            },
        });
        gate.api().apply_all(&[policy, binding]).unwrap();
        let keeps = Self(gate);
        let tried = json!({
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "tried"}, "subjects": [],
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "tried"},
        });
        wait_until("bindings to stay", || {
            gate.api().apply(&tried).unwrap();
            gate.api().delete(ROLE_BINDING, "tried").is_err()
        });
        keeps
    }
}

impl Drop for KeepsBindings<'_> {
    fn drop(&mut self) {
        for kind in [ADMISSION_BINDING, ADMISSION_POLICY] {
            if let Err(error) = self.0.api().delete(kind, self.0.namespace()) {
                eprintln!("{kind} stays: {error}");
            }
        }
    }
}

#[test]
fn every_query_is_answered_and_alerts_fire_by_real_faults() {
    let gate = Gate::alone("monitoring");
    let installation = Installation::of(&gate);
    let mut alerts = impatient_alerts();
    let prometheus = Prometheus::start(&gate, &alerts);
    wait_until("every pod to be scraped", || {
        let pods = installation.api().list(POD, "").unwrap();
        prometheus
            .query("up == 1")
            .is_ok_and(|it| it.len() == pods.len())
    });

    // Events for the counters: one pod waits, gets in and ends, another one stays.
    gate.create_policy("release", Approval::ConfigMap);
    gate.set_approval("stays", "stays", Approval::ConfigMap, "approved");
    gate.start_pod("stays");
    gate.start_pod("job");
    let job = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.set_approval("yes", "job", Approval::ConfigMap, "approved");
    gate.wait_for_output("job");
    gate.delete(POD, "job");
    gate.wait_for_phase_of(&job, "Revoked");
    let stays = gate.wait_for_phase("stays", "Granted");

    let mut queries: BTreeSet<String> = questions().into_iter().collect();
    for rule in rules(&mut alerts) {
        let selectors = prometheus.selectors(&word(&rule["expr"])).unwrap();
        queries.extend(selectors);
    }
    expect_data(&prometheus, &queries);
    let all: Vec<String> = rules(&mut alerts)
        .iter()
        .map(|it| word(&it["alert"]))
        .collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    expect_end(&prometheus, &all);

    let since = checker::now();
    let keeps = KeepsBindings::begin(&gate);
    gate.delete(POD, "stays");
    expect_alerts(&prometheus, &[(STUCK, json!({}))]);

    // Without the switch the services do not come back.
    let evaluation = installation.away("evaluation-service");
    let controller = installation.away("request-controller");
    let switch = installation.delete_switch();
    let wanted = [
        ("ConnectorsConfigMissing", json!({})),
        (
            "ConnectorsServiceMissing",
            json!({"component": "evaluation-service"}),
        ),
        (
            "ConnectorsControllerWithoutLeader",
            json!({"controller": "request-controller"}),
        ),
    ];
    expect_alerts(&prometheus, &wanted);

    drop((keeps, switch, controller, evaluation));
    gate.outage_since(since);
    gate.wait_for_request(&name(&stays), "to be revoked", |request| {
        !request["status"]["revokedAt"].is_null()
    });
    // The others look minutes back, and go on for that time.
    let ended = wanted.map(|(name, _)| name);
    expect_end(&prometheus, &[ended.as_slice(), &[STUCK]].concat());
}
