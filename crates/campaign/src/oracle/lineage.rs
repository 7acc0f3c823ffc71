//! Whether an approval belongs to a pod's own pipeline run: the oracle's own reading of the design, for runs as the
//! scenarios make them.

use serde_json::{Value, json};

use crate::stage::{RUN_LABEL, STOPPING};

use super::history::{Snapshot, is_going, list, text};

/// The resources between pod and approval.
pub(super) const BETWEEN: [&str; 3] = ["pipelineruns", "taskruns", "customruns"];

/// The objects that proved an approval, by their UIDs: the run, the pod's `TaskRun` and the approval's `CustomRun`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Chain(pub(super) [String; 3]);

impl Chain {
    /// True when the run ended, or is being deleted. A run that is gone has not ended: the latch decides.
    pub(super) fn has_ended(&self, snapshot: &Snapshot) -> bool {
        let run = snapshot.by_uid(BETWEEN[0], &self.0[0]);
        run.is_some_and(|it| end_of(it).is_some())
    }

    /// True when each object exists with its UID.
    pub(super) fn is_whole(&self, snapshot: &Snapshot) -> bool {
        let mut links = BETWEEN.iter().zip(&self.0);
        links.all(|(plural, uid)| snapshot.by_uid(plural, uid).is_some_and(|it| !is_going(it)))
    }
}

fn must(holds: bool, otherwise: &str) -> Result<(), String> {
    if holds {
        Ok(())
    } else {
        Err(otherwise.to_owned())
    }
}

fn name(object: &Value) -> &str {
    text(object, "/metadata/name")
}

fn uid(object: &Value) -> &str {
    text(object, "/metadata/uid")
}

/// All creation times of a run have the same form.
fn is_older(one: &Value, other: &Value) -> bool {
    let created = |it| text(it, "/metadata/creationTimestamp");
    created(one) < created(other)
}

fn succeeded(object: &Value) -> &str {
    let mut conditions = list(object, "/status/conditions").iter();
    let found = conditions.find(|it| text(it, "/type") == "Succeeded");
    found.map_or("", |it| text(it, "/status"))
}

fn is_finished(object: &Value) -> bool {
    ["True", "False"].contains(&succeeded(object))
}

/// How a run ended.
fn end_of(run: &Value) -> Option<&'static str> {
    if is_going(run) {
        Some("the run is being deleted")
    } else if !text(run, "/spec/status").is_empty() {
        Some("the run was cancelled")
    } else if is_finished(run) || !text(run, "/status/completionTime").is_empty() {
        Some("the run is done")
    } else {
        None
    }
}

/// The controlling owner of an object, by name and UID.
fn owner<'a>(
    object: &Value,
    kind: &str,
    find: &impl Fn(&str, &str) -> Option<&'a Value>,
) -> Result<&'a Value, String> {
    let what = name(object);
    let mut owners = list(object, "/metadata/ownerReferences").iter();
    let owner = owners.find(|it| it["controller"] == true && text(it, "/kind") == kind);
    let owner = owner.ok_or_else(|| format!("no {kind} controls {what}"))?;
    let found = find(&format!("{}s", kind.to_lowercase()), text(owner, "/name"));
    let found = found.ok_or_else(|| format!("the {kind} of {what} was not found"))?;
    must(
        uid(found) == text(owner, "/uid"),
        &format!("the {kind} of {what} is another one"),
    )?;
    Ok(found)
}

/// The pipeline task of a child, if the run made the child for it and no other one.
fn task_of<'a>(run: &'a Value, child: &Value) -> Result<&'a Value, String> {
    let what = name(child);
    must(!is_going(child), &format!("{what} is being deleted"))?;
    must(
        !is_older(child, run),
        &format!("{what} is older than its run"),
    )?;
    let mut tasks = list(run, "/status/pipelineSpec/tasks").iter();
    let derived = |task: &&Value| format!("{}-{}", name(run), text(task, "/name")) == what;
    let task = tasks
        .find(derived)
        .ok_or_else(|| format!("no task makes {what}"))?;
    let children = list(run, "/status/childReferences").iter();
    let of_task = children.filter(|it| it["pipelineTaskName"] == task["name"]);
    let of_task: Vec<_> = of_task
        .map(|it| (text(it, "/kind"), text(it, "/name")))
        .collect();
    let is_its = of_task == [(text(child, "/kind"), what)];
    let listed = list(run, "/status/childReferences").iter();
    let times = listed.filter(|it| text(it, "/name") == what).count();
    must(times < 2, &format!("the run lists {what} twice"))?;
    let mut skipped = list(run, "/status/skippedTasks").iter();
    let is_skipped = skipped.any(|it| it["name"] == task["name"]);
    must(!is_skipped, &format!("the run skipped the task of {what}"))?;
    must(
        is_its,
        &format!("the run lists {of_task:?} where {what} belongs"),
    )?;
    must(
        child["spec"]["serviceAccountName"] == run["spec"]["taskRunTemplate"]["serviceAccountName"],
        &format!("{what} has another account"),
    )?;
    Ok(task)
}

/// The chain between a pod and an approval, if it proves that they belong to one run that goes on.
pub(super) fn chain<'a>(
    pod: &Value,
    approval: &Value,
    find: &impl Fn(&str, &str) -> Option<&'a Value>,
) -> Result<Chain, String> {
    let task_run = owner(pod, "TaskRun", find)?;
    let custom_run = owner(approval, "CustomRun", find)?;
    let run = owner(task_run, "PipelineRun", find)?;
    let other = owner(custom_run, "PipelineRun", find)?;
    must(uid(run) == uid(other), "pod and approval are of two runs")?;
    if let Some(end) = end_of(run) {
        return Err(end.to_owned());
    }
    let is_child = list(run, "/metadata/ownerReferences")
        .iter()
        .any(|it| it["kind"] == "PipelineRun");
    must(!is_child, "another run owns the run")?;
    let manager = text(run, "/spec/managedBy");
    must(manager.is_empty(), "another controller manages the run")?;
    let has_only = |object: &Value, fields: &[&str]| {
        let spec = object["spec"].as_object();
        spec.is_some_and(|it| it.keys().all(|field| fields.contains(&field.as_str())))
    };
    must(
        has_only(task_run, &["serviceAccountName", "taskSpec"])
            && has_only(
                custom_run,
                &["serviceAccountName", "customRef", "params", "status"],
            ),
        "a child has other settings",
    )?;
    must(
        pod["spec"]["serviceAccountName"] == task_run["spec"]["serviceAccountName"],
        "the pod has another account",
    )?;
    let deploys = task_of(run, task_run)?;
    must(
        task_run["spec"]["taskSpec"] == deploys["taskSpec"],
        "the TaskRun runs another script",
    )?;
    must(
        text(task_run, "/status/podName") == name(pod)
            && format!("{}-pod", name(task_run)) == name(pod),
        "the pod is not the current one",
    )?;
    must(
        !is_older(pod, task_run),
        "the pod is older than its TaskRun",
    )?;
    must(!is_finished(task_run), "the TaskRun has ended")?;
    let waits = task_of(run, custom_run)?;
    must(
        custom_run["spec"]["customRef"] == waits["taskRef"]
            && custom_run["spec"]["params"] == waits["params"],
        "the CustomRun asks for another approval",
    )?;
    must(
        name(approval) == name(custom_run),
        "the approval has another name",
    )?;
    must(
        !is_older(approval, custom_run),
        "the approval is older than its CustomRun",
    )?;
    let is_over = succeeded(custom_run) == "False" || !text(custom_run, "/spec/status").is_empty();
    must(!is_over, "the CustomRun was cancelled or failed")?;
    let param = |name: &str| {
        let mut params = list(custom_run, "/spec/params").iter();
        params
            .find(|it| text(it, "/name") == name)
            .map(|it| &it["value"])
    };
    let approvers: Vec<_> = list(approval, "/spec/approvers")
        .iter()
        .map(|it| &it["name"])
        .collect();
    let wanted = param("approvers").and_then(Value::as_array);
    must(
        wanted.is_some_and(|it| it.iter().collect::<Vec<_>>() == approvers),
        "the approval has other approvers",
    )?;
    let count = approval["spec"]["numberOfApprovalsRequired"].to_string();
    must(
        param("numberOfApprovalsRequired").is_some_and(|it| *it == count),
        "the approval needs another number",
    )?;
    must(says_yes(approval), "its approvers did not say yes")?;
    Ok(Chain(
        [run, task_run, custom_run].map(|it| uid(it).to_owned()),
    ))
}

/// Whether the pod's run asked for an approval that a check would select and that is none of these.
pub(super) fn asked_beside<'a>(
    pod: &Value,
    found: &[&str],
    would_select: impl Fn(Value) -> bool,
    find: &impl Fn(&str, &str) -> Option<&'a Value>,
) -> Result<(), String> {
    let run = owner(owner(pod, "TaskRun", find)?, "PipelineRun", find)?;
    let of = |it: &str| list(run, &format!("/status/pipelineSpec/{it}"));
    let asks = |task: &Value| {
        let mut tasks = of("tasks").iter().chain(of("finally"));
        let task = tasks.find(|it| it["name"] == *task);
        task.is_some_and(|it| text(it, "/taskRef/kind") == "ApprovalTask")
    };
    let listed = list(run, "/status/childReferences").iter();
    let listed = listed.filter(|it| asks(&it["pipelineTaskName"]));
    let listed = listed.map(|it| text(it, "/name").to_owned());
    // A run of the campaign leaves out tasks for this reason alone.
    let stopped = list(run, "/status/skippedTasks").iter();
    let stopped = stopped.filter(|it| it["reason"] == STOPPING && asks(&it["name"]));
    let stopped = stopped.map(|it| format!("{}-{}", name(run), text(it, "/name")));
    for what in listed.chain(stopped) {
        let labels = json!({RUN_LABEL: name(run)});
        let is_missing = !found.contains(&what.as_str()) && would_select(labels);
        must(!is_missing, &format!("the run asked for {what} too"))?;
    }
    Ok(())
}

/// True when enough approvers say yes, and none says no. The status alone proves nothing.
pub(super) fn says_yes(approval: &Value) -> bool {
    let said = |word: &str| {
        let approvers = list(approval, "/spec/approvers").iter();
        approvers.filter(|it| text(it, "/input") == word).count() as u64
    };
    let needed = approval["spec"]["numberOfApprovalsRequired"].as_u64();
    text(approval, "/status/state") == "approved"
        && said("reject") == 0
        && needed.is_some_and(|it| said("approve") >= it.max(1))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::*;
    use crate::stage::{ANOTHER, BEFORE_ALL, Part, RELEASE, approver, params, script};

    /// The verdict about a run that is honest but for one edit, and approved.
    fn proof(edit: impl Fn(Part, &mut Value)) -> Result<Chain, String> {
        let parts = Part::ALL.map(|part| {
            let mut object = RELEASE.part(part);
            if part == Part::Approval {
                object["spec"]["approvers"][0]["input"] = "approve".into();
                object["status"]["state"] = "approved".into();
            }
            edit(part, &mut object);
            object
        });
        let found: BTreeMap<_, _> = parts
            .iter()
            .map(|it| {
                let plural = format!("{}s", text(it, "/kind").to_lowercase());
                ((plural, name(it).to_owned()), it)
            })
            .collect();
        let find =
            |plural: &str, name: &str| found.get(&(plural.to_owned(), name.to_owned())).copied();
        let [.., approval, pod] = &parts;
        chain(pod, approval, &find)
    }

    #[test]
    fn an_honest_run_is_proven_by_its_three_objects() {
        let chain = proof(|_, _| ()).unwrap();
        let expected = [
            "pipelineruns-release",
            "taskruns-release-deploy",
            "customruns-release-wait",
        ];
        assert_eq!(chain.0, expected);
    }

    type Edit = fn(&mut Value);

    const OLDER: Edit = |it| it["metadata"]["creationTimestamp"] = BEFORE_ALL.into();
    const REPLACED: Edit = |it| it["metadata"]["uid"] = "again".into();
    const GOING: Edit = |it| it["metadata"]["deletionTimestamp"] = BEFORE_ALL.into();
    const FREE: Edit = |it| it["metadata"]["ownerReferences"] = json!([]);
    const ENDED: Edit = |it| it["status"]["conditions"][0]["status"] = "False".into();
    const CANCELLED: Edit = |it| it["spec"]["status"] = "Cancelled".into();
    const ACCOUNT: Edit = |it| it["spec"]["serviceAccountName"] = "root".into();

    fn assert_unproven(edits: &[(Part, Edit, &str)]) {
        for (one, edit, expected) in edits {
            let why = proof(|part, it| {
                if part == *one {
                    edit(it);
                }
            });
            let why = why.unwrap_err();
            assert!(why.contains(expected), "{one:?}: {why}, not {expected}");
        }
    }

    #[test]
    fn a_run_that_differs_from_an_honest_one_proves_nothing() {
        assert_unproven(&[
            (Part::Run, REPLACED, "is another one"),
            (Part::Run, GOING, "is being deleted"),
            (Part::Run, ENDED, "is done"),
            (Part::Run, CANCELLED, "was cancelled"),
            (
                Part::Run,
                |it| it["status"]["completionTime"] = BEFORE_ALL.into(),
                "is done",
            ),
            (Part::Run, |it| it["status"] = json!({}), "no task makes"),
            (
                Part::Run,
                |it| it["status"]["childReferences"] = json!([]),
                "lists []",
            ),
            (
                Part::Run,
                |it| {
                    let more = RELEASE.child(Part::CustomRun, "release-x", "wait");
                    it["status"]["childReferences"]
                        .as_array_mut()
                        .unwrap()
                        .push(more);
                },
                "lists [",
            ),
            (
                Part::Run,
                |it| it["status"]["skippedTasks"] = json!([{"name": "deploy"}]),
                "skipped",
            ),
            (
                Part::Run,
                |it| it["spec"]["managedBy"] = "other".into(),
                "manages the run",
            ),
            (
                Part::Run,
                |it| it["metadata"]["ownerReferences"] = ANOTHER.owns(Part::Run),
                "another run owns",
            ),
        ]);
    }

    #[test]
    fn what_belongs_to_a_run_and_differs_from_an_honest_one_proves_nothing() {
        assert_unproven(&[
            (
                Part::TaskRun,
                |it| it["spec"]["debug"] = json!({}),
                "other settings",
            ),
            (Part::Pod, ACCOUNT, "another account"),
            (
                Part::CustomRun,
                |it| it["spec"]["customRef"]["kind"] = "Pause".into(),
                "another approval",
            ),
            (Part::TaskRun, REPLACED, "is another one"),
            (Part::TaskRun, OLDER, "older"),
            (Part::TaskRun, GOING, "is being deleted"),
            (Part::TaskRun, FREE, "no PipelineRun controls"),
            (Part::TaskRun, ENDED, "has ended"),
            (Part::TaskRun, ACCOUNT, "another account"),
            (
                Part::TaskRun,
                |it| it["status"] = json!({}),
                "not the current one",
            ),
            (
                Part::TaskRun,
                |it| it["spec"]["taskSpec"] = script("evil:1"),
                "another script",
            ),
            (Part::CustomRun, OLDER, "older"),
            (Part::CustomRun, CANCELLED, "cancelled or failed"),
            (
                Part::CustomRun,
                |it| it["spec"]["params"] = params("mallory"),
                "another approval",
            ),
            (
                Part::CustomRun,
                |it| it["metadata"]["ownerReferences"] = ANOTHER.owns(Part::Run),
                "was not found",
            ),
            (Part::Approval, OLDER, "older"),
            (Part::Approval, FREE, "no CustomRun controls"),
            (
                Part::Approval,
                |it| it["spec"]["approvers"] = json!([approver("mallory", "approve")]),
                "other approvers",
            ),
            (
                Part::Approval,
                |it| it["spec"]["approvers"][0]["input"] = "pending".into(),
                "did not say yes",
            ),
            (Part::Pod, OLDER, "older"),
            (Part::Pod, FREE, "no TaskRun controls"),
        ]);
    }
}
