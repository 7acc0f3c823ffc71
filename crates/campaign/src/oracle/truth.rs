//! The actual state of the cluster, as opposed to the controller's view.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::{
    history::{Snapshot, is_going, label, list, namespace, text},
    lineage::{self, Chain},
};
use crate::stage::{APPS, CONNECTOR, TOOLS};

/// The evidence of a binding: the policy at that time, and the UIDs of the approvals of each check.
#[derive(Clone, Debug, Default)]
pub(super) struct Evidence {
    checks: Vec<CheckEvidence>,
    /// The maximum duration.
    pub(super) limit: Option<Duration>,
    /// UID of the connector.
    pub(super) connector: String,
    /// The verbs of its rules.
    verbs: Vec<Value>,
}

#[derive(Clone, Debug)]
pub(super) struct CheckEvidence {
    plural: String,
    any: bool,
    while_holds: bool,
    once: bool,
    approvals: Vec<Approval>,
}

/// An approval by its UID, and the proof that it is about the pod's own run, if the check requires a proof.
#[derive(Clone, Debug)]
struct Approval {
    uid: String,
    chain: Option<Chain>,
}

/// The verbs of each rule.
fn verbs(rules: &[Value]) -> Vec<Value> {
    rules.iter().map(|it| it["verbs"].clone()).collect()
}

/// A policy's checks.
pub(super) fn checks(policy: &Value) -> &[Value] {
    list(policy, "/spec/checkGrantedPermission/spec/checks")
}

/// The resource that a check selects from.
pub(super) fn plural(check: &Value) -> String {
    match text(check, "/selector/objectRef/kind") {
        "ConfigMap" => "configmaps".to_owned(),
        kind => format!("{}s", kind.to_lowercase()),
    }
}

/// The labels of a check's selector: the only templates of the scenarios are the pod's name and its run.
fn labels<'a>(check: &'a Value, pod: &'a Value) -> impl Iterator<Item = (&'a str, &'a str)> {
    let labels = check.pointer("/selector/labels").and_then(Value::as_object);
    labels.into_iter().flatten().map(move |(key, value)| {
        let value = match value.as_str().unwrap_or_default() {
            "{.object.metadata.name}" => text(pod, "/metadata/name"),
            "{.object.metadata.labels.tekton\\.dev/pipelineRun}" => {
                text(pod, "/metadata/labels/tekton.dev~1pipelineRun")
            }
            value => value,
        };
        (key.as_str(), value)
    })
}

/// The label selector for the objects of a check.
pub(super) fn selector(check: &Value, pod: &Value) -> String {
    let labels = labels(check, pod).map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<_>>().join(",")
}

/// The maximum waiting time of a policy.
pub(super) fn most_waiting(policy: &Value) -> Option<Duration> {
    let limit = "/spec/checkGrantedPermission/spec/limits/pendingTimeout";
    time(text(policy, limit))
}

/// An object that is being deleted counts as deleted.
fn selects(check: &Value, object: &Value, pod: &Value) -> bool {
    if is_going(object) {
        return false;
    }
    let mut labels = labels(check, pod).peekable();
    labels.peek().is_some() && labels.all(|(key, value)| object["metadata"]["labels"][key] == value)
}

/// A duration in the notation of the scenarios.
fn time(text: &str) -> Option<Duration> {
    let (number, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => return None,
    };
    Some(Duration::from_secs(number.parse::<u64>().ok()? * seconds))
}

/// True when a scenario made the object larger than an approval may be.
fn is_blown_up(object: &Value) -> bool {
    object["spec"]["noise"].is_string()
}

/// True when a scenario made the object nested deeper than any reader accepts.
fn is_deep(object: &Value) -> bool {
    object.get("deep").is_some()
}

fn approves(object: &Value) -> bool {
    if is_blown_up(object) || is_deep(object) {
        return false;
    }
    let state = [text(object, "/status/state"), text(object, "/data/state")];
    state.contains(&"approved")
}

/// True when a check asks for a proof of the pod's own run: by default, where there can be one.
fn needs_proof(check: &Value) -> bool {
    let resource = plural(check);
    let is_of_pipelines =
        resource == "approvaltasks" || lineage::BETWEEN.contains(&resource.as_str());
    is_of_pipelines && text(check, "/provenance") != "None"
}

/// The evidence of a policy for a pod, if all its checks pass; `objects` returns the objects found for a
/// check, and `find` an object of the pod's namespace by resource and name.
pub(super) fn passes<'a>(
    policy: &Value,
    pod: &Value,
    objects: impl Fn(&Value) -> Option<Vec<&'a Value>>,
    find: impl Fn(&str, &str) -> Option<&'a Value>,
) -> Result<Evidence, String> {
    let checks = checks(policy);
    if checks.is_empty() {
        return Err("the policy has no checks".to_owned());
    }
    let limit = text(
        policy,
        "/spec/checkGrantedPermission/spec/limits/maxDuration",
    );
    let mut evidence = Evidence {
        limit: time(limit),
        verbs: verbs(list(
            policy,
            "/spec/checkGrantedPermission/spec/permissions/roleTemplate/rules",
        )),
        ..Evidence::default()
    };
    for check in checks {
        let name = text(check, "/name");
        let Some(found) = objects(check) else {
            return Err(format!("the objects of check {name} were not read"));
        };
        let selected: Vec<_> = found
            .into_iter()
            .filter(|it| selects(check, it, pod))
            .collect();
        let any = text(check, "/match") == "Any";
        let mut approvals = Vec::new();
        let mut problems = Vec::new();
        for object in &selected {
            match approval(check, pod, object, &find) {
                Ok(approval) => approvals.push(approval),
                Err(why) => problems.push(why),
            }
        }
        if !any && needs_proof(check) {
            let names: Vec<_> = selected
                .iter()
                .map(|it| text(it, "/metadata/name"))
                .collect();
            let would =
                |labels: Value| selects(check, &json!({"metadata": {"labels": labels}}), pod);
            problems.extend(lineage::asked_beside(pod, &names, would, &find).err());
        }
        let passed = !approvals.is_empty() && (any || problems.is_empty());
        if !passed {
            let (approved, all) = (approvals.len(), selected.len());
            return Err(format!(
                "check {name}: {approved} of {all} approve {problems:?}"
            ));
        }
        evidence.checks.push(CheckEvidence {
            plural: plural(check),
            any,
            while_holds: text(check, "/latch") == "WhileHolds",
            once: text(check, "/latch") == "Once",
            approvals,
        });
    }
    Ok(evidence)
}

/// An object that approves, or why it does not.
fn approval<'a>(
    check: &Value,
    pod: &Value,
    object: &Value,
    find: &impl Fn(&str, &str) -> Option<&'a Value>,
) -> Result<Approval, String> {
    if !approves(object) {
        return Err("it is not approved".to_owned());
    }
    let chain = if needs_proof(check) {
        Some(lineage::chain(pod, object, find)?)
    } else {
        None
    };
    let uid = text(object, "/metadata/uid").to_owned();
    Ok(Approval { uid, chain })
}

impl Evidence {
    /// True when the Role of a binding, if there is one, allows the same as the policy's rules.
    fn allows_what(&self, snapshot: &Snapshot, binding: &Value) -> bool {
        let name = text(binding, "/metadata/name");
        let role = snapshot.get("roles", namespace(binding), name);
        role.is_none_or(|it| verbs(list(it, "/rules")) == self.verbs)
    }

    fn lapsed(&self, snapshot: &Snapshot) -> Option<String> {
        let lapsed = self.checks.iter().find(|check| !check.holds(snapshot))?;
        Some(format!("an approval of {} does not hold", lapsed.plural))
    }
}

impl CheckEvidence {
    fn holds(&self, snapshot: &Snapshot) -> bool {
        if self.once {
            return true;
        }
        let mut chains = self.approvals.iter().filter_map(|it| it.chain.as_ref());
        // Regardless of the approvals.
        if chains.any(|it| it.has_ended(snapshot)) {
            return false;
        }
        let holds = |approval: &Approval| {
            let Approval { uid, chain } = approval;
            let object = snapshot.by_uid(&self.plural, uid);
            let Some(object) = object.filter(|it| !is_going(it)) else {
                return !self.while_holds;
            };
            let Some(chain) = chain else {
                return approves(object);
            };
            approves(object)
                && lineage::says_yes(object)
                && (!self.while_holds || chain.is_whole(snapshot))
        };
        if self.any {
            self.approvals.iter().any(holds)
        } else {
            self.approvals.iter().all(holds)
        }
    }
}

/// The evidence of all bindings, by their UID.
pub(super) type Known = BTreeMap<String, Evidence>;

/// The current request of a managed object.
pub(super) fn request_of<'a>(snapshot: &'a Snapshot, object: &Value) -> Option<&'a Value> {
    snapshot.by_uid("accessrequests", label(object, "accessRequestUid"))
}

pub(super) fn is_terminal(request: &Value) -> bool {
    matches!(
        text(request, "/status/phase"),
        "Rejected" | "Revoked" | "Invalid" | "Ended"
    )
}

/// The reason why a binding should not exist, if there is one.
pub(super) fn reason_to_go(snapshot: &Snapshot, binding: &Value, known: &Known) -> Option<String> {
    // A foreign finalizer keeps it; the controller can do no more.
    let finalizers = list(binding, "/metadata/finalizers").iter();
    let mut own = finalizers.filter(|it| *it != "foregroundDeletion" && *it != "orphan");
    if own.next().is_some() && is_going(binding) {
        return None;
    }
    let Some(request) = request_of(snapshot, binding) else {
        return Some("its request is not there".to_owned());
    };
    if namespace(request) != namespace(binding) {
        return Some("its request is elsewhere".to_owned());
    }
    if is_deep(request) {
        return Some("its request cannot be read".to_owned());
    }
    if is_going(request) {
        return Some("its request is being deleted".to_owned());
    }
    if is_terminal(request) {
        return Some(format!("its request is {}", text(request, "/status/phase")));
    }
    reason_beside_its_record(snapshot, binding, request, known)
}

/// The same, ignoring the request's status.
pub(super) fn reason_beside_its_record(
    snapshot: &Snapshot,
    binding: &Value,
    request: &Value,
    known: &Known,
) -> Option<String> {
    if let Some(why) = pod_problem(snapshot, request) {
        return Some(why);
    }
    let connector = snapshot.get(
        "connectors",
        namespace(request),
        text(request, "/spec/connectorRef/name"),
    );
    let connector = connector.filter(|it| !is_going(it));
    let evidence = known.get(text(binding, "/metadata/uid"));
    let uid = evidence.map_or("", |it| it.connector.as_str());
    if connector.is_none_or(|it| text(it, "/metadata/uid") != uid) {
        return Some("its connector is not there".to_owned());
    }
    let policy = snapshot.by_uid("accesspolicies", label(binding, "accessPolicyUid"));
    if policy.is_none_or(is_going) {
        return Some("its policy is not there".to_owned());
    }
    if !is_as_decided(snapshot, binding, request) {
        return Some("it gives something else than was decided".to_owned());
    }
    match evidence {
        Some(evidence) if !evidence.allows_what(snapshot, binding) => {
            Some("it allows something else than its policy".to_owned())
        }
        Some(evidence) => evidence.lapsed(snapshot),
        None => Some("its evidence is unknown".to_owned()),
    }
}

/// True when a binding and its Role give exactly the grant, to its subject.
fn is_as_decided(snapshot: &Snapshot, binding: &Value, request: &Value) -> bool {
    let name = text(binding, "/metadata/name");
    let role = snapshot.get("roles", namespace(binding), name);
    binding["subjects"] == subjects(request)
        && text(binding, "/roleRef/kind") == "Role"
        && text(binding, "/roleRef/name") == name
        // Without a Role the binding has no effect.
        && role.is_none_or(|it| is_shaped(it, request))
}

/// The subjects of a grant: the asking account only.
pub(super) fn subjects(request: &Value) -> Value {
    let [name, home] =
        ["/spec/subject/name", "/spec/subject/namespace"].map(|it| text(request, it));
    json!([{"kind": "ServiceAccount", "name": name, "namespace": home}])
}

/// The namespace of a request's pod.
pub(super) fn home(request: &Value) -> &str {
    text(request, "/spec/context/objectRef/namespace")
}

/// True when a Role covers one pod's use of the connector only.
pub(super) fn is_shaped(role: &Value, request: &Value) -> bool {
    let pod = text(request, "/spec/context/objectRef/name");
    let resource = format!("connectors/apis/v1/pod/{}/{pod}", home(request));
    let connector = text(request, "/spec/connectorRef/name");
    let rules = list(role, "/rules");
    let shaped = |rule: &Value| {
        rule["apiGroups"] == json!(["connectors.alauda.io"])
            && rule["resourceNames"] == json!([connector])
            && rule["resources"] == json!([resource])
            && rule.get("nonResourceURLs").is_none()
    };
    !rules.is_empty() && rules.iter().all(shaped)
}

/// The pod of a request, if it exists.
pub(super) fn pod_of<'a>(snapshot: &'a Snapshot, request: &Value) -> Option<&'a Value> {
    let name = text(request, "/spec/context/objectRef/name");
    let uid = text(request, "/spec/context/objectRef/uid");
    let pod = snapshot.get("pods", home(request), name)?;
    (text(pod, "/metadata/uid") == uid).then_some(pod)
}

/// The reason why the pod of a request justifies no access.
pub(super) fn pod_problem(snapshot: &Snapshot, request: &Value) -> Option<String> {
    let name = text(request, "/spec/context/objectRef/name");
    match pod_of(snapshot, request) {
        None if snapshot.get("pods", home(request), name).is_some() => {
            Some("its pod is another one".to_owned())
        }
        None => Some("its pod is not there".to_owned()),
        Some(pod) if is_finished(pod) => Some("its pod has ended".to_owned()),
        Some(_) => None,
    }
}

/// True when the account of the scenarios' pods has a standing permission.
pub(super) fn stands(snapshot: &Snapshot) -> bool {
    let subject = json!({"kind": "ServiceAccount", "name": "builder", "namespace": APPS});
    let mut bindings = snapshot.all("rolebindings");
    bindings.any(|binding| {
        let role = snapshot.get("roles", TOOLS, text(binding, "/roleRef/name"));
        let rules = role.map(|it| list(it, "/rules")).unwrap_or_default();
        let opens = |rule: &Value| {
            rule["resources"] == json!(["connectors/apis"])
                && rule["verbs"] == json!(["*"])
                && rule["resourceNames"] == json!([CONNECTOR])
        };
        text(binding, "/metadata/namespace") == TOOLS
            && list(binding, "/subjects").contains(&subject)
            && rules.iter().any(opens)
    })
}

pub(super) fn is_finished(pod: &Value) -> bool {
    matches!(text(pod, "/status/phase"), "Succeeded" | "Failed")
}
