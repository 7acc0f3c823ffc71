use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use proptest::sample::select;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use serde_json::{Value, json};

use super::*;
use crate::check_state::ObjectState;
use crate::judge::tests::{gate, question};
use crate::judge::{
    JudgeError, Judgement, PolicyQuestion, RegoAnswer, RegoFailure, Stage, prepare,
};
use crate::reason::AccessCheckReady;
use crate::shared_fields::FieldPath;
use crate::testing::json_values;

/// The fields that the module of the tests reads.
const READ: [&[&str]; 2] = [&["status", "state"], &["data", "verdict"]];
const CASES: usize = 4_000;

/// The answer of a module that reads these fields.
fn said(object: &Value) -> Result<RegoAnswer, RegoFailure> {
    let text = |path: &[&str]| {
        let step = |at: &Value, name: &&str| at.as_object()?.get(*name).cloned();
        path.iter()
            .try_fold(object.clone(), |at, name| step(&at, name))
    };
    let words = READ.map(text);
    let word = words.iter().flatten().find_map(Value::as_str);
    let state = word.and_then(ObjectState::from_word);
    let state = state.ok_or_else(|| RegoFailure::Failed(format!("{words:?}")))?;
    let message = Some(format!("{words:?}"));
    Ok(RegoAnswer { state, message })
}

/// A question with whole objects as texts, so that each can be read in part.
type Texts = (PolicyQuestion, String, Vec<String>);

fn policies() -> impl Strategy<Value = PolicyQuestion> {
    let label = select(
        &[
            "{.object.metadata.labels.run}",
            "{.object.metadata.labels['run']}",
            "{.pod.metadata.labels[\"run\"]}",
            "{.object.spec.containers[0].name}",
            "{.object.spec['containers'][*].name}",
            "{.object..run}",
            "{.object.metadata.annotations.*}",
            "r{.object.spec.number}",
            "r1",
        ][..],
    );
    let fields = select(vec![
        json!(null),
        json!({"spec.type": "window"}),
        json!({"data.x.y": "1"}),
        json!({"metadata.annotations.a": "b"}),
        json!({"status.state": "approved"}),
    ]);
    let approvers = select(vec![json!(null), json!({"users": ["ann"], "minimum": 1})]);
    let flags = any::<[bool; 6]>();
    (label, fields, approvers, flags).prop_map(|(label, fields, approvers, flags)| {
        let [is_task, has_module, is_foreign, shares, is_any, is_after] = flags;
        question().with(|it| {
            let check = it.check();
            check["selector"]["labels"]["run"] = label.into();
            if !fields.is_null() {
                check["selector"]["fieldSelector"] = fields;
            }
            if is_task {
                let kind = json!({"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"});
                check["selector"]["objectRef"] = kind;
                check["provenance"] = "None".into();
                if !approvers.is_null() {
                    check["approvers"] = approvers;
                }
            }
            if has_module {
                check["state"] = json!({"rego": "package approval"});
            }
            if is_any {
                check["match"] = "Any".into();
            }
            if is_foreign {
                it.policy["metadata"]["namespace"] = "tools".into();
            }
            if shares {
                let fields = ["data.verdict", "spec.type", "metadata.annotations"];
                let fields = fields.map(|it| FieldPath::parse(it).unwrap());
                it.shared.insert("gate".to_owned(), fields.into());
            }
            if is_after {
                it.stage = Stage::AfterGrant;
            }
        })
    })
}

fn pods() -> impl Strategy<Value = Value> {
    (json_values(), 0..12_u8).prop_map(|(odd, part)| {
        let mut pod = question().context;
        pod["metadata"]["annotations"] = json!({"a": "r1"});
        pod["spec"]["containers"][0]["name"] = "r1".into();
        pod["spec"]["number"] = "1".into();
        match part {
            0 => pod["metadata"]["labels"] = odd,
            1 => pod["metadata"]["annotations"] = odd,
            2 => pod["spec"]["containers"] = odd,
            3 => pod["spec"] = odd,
            4 => pod["metadata"] = odd,
            5 => pod["status"] = odd,
            _ => {}
        }
        pod
    })
}

fn objects(is_task: bool) -> impl Strategy<Value = Vec<Value>> {
    let states = select(&["approved", "approved", "passed", "rejected", "expired"][..]);
    let object = (states, "[a-e]", json_values(), 0..24_u8);
    let object = object.prop_map(move |(state, name, odd, part)| {
        let mut object = gate(&name, state);
        object["spec"] = json!({"type": "window", "title": "t"});
        object["data"] = json!({"verdict": "approved", "x": {"y": 1, "z": 2}});
        object["metadata"]["annotations"] = json!({"a": "b", "c": "d"});
        if is_task {
            object["apiVersion"] = "openshift-pipelines.org/v1alpha1".into();
            object["kind"] = "ApprovalTask".into();
            object["spec"]["approvers"] = json!([
                {"name": "ann", "type": "User", "input": "approve", "message": "well"},
                {"name": "all", "type": "Group", "input": "pending", "users": [{"name": "bob", "input": "approve"}]},
            ]);
        }
        match part {
            0 => object["status"] = odd,
            1 => object["metadata"]["labels"] = odd,
            2 => object["metadata"] = odd,
            3 => object["spec"] = odd,
            4 => object["data"] = odd,
            5 => object["spec"]["approvers"] = odd,
            6 => object["metadata"]["deletionTimestamp"] = odd,
            7 => object["spec"]["Approvers"] = odd,
            8 => object["SPEC"] = odd,
            9 => object["metadata"]["annotations"] = odd,
            10 => object = odd,
            _ => {}
        }
        object
    });
    prop::collection::vec(object, 1..4)
}

fn questions() -> impl Strategy<Value = Texts> {
    let with_objects = |policy: PolicyQuestion| {
        let kind = &policy.policy["spec"]["checkGrantedPermission"]["spec"]["checks"][0];
        let is_task = kind["selector"]["objectRef"]["kind"] == "ApprovalTask";
        (Just(policy), pods(), objects(is_task))
    };
    let texts = |(policy, pod, objects): (PolicyQuestion, Value, Vec<Value>)| {
        let objects = objects.iter().map(ToString::to_string).collect();
        (policy, pod.to_string(), objects)
    };
    policies().prop_flat_map(with_objects).prop_map(texts)
}

/// The judgement on the needed parts, and whether there are twins.
fn judged(
    (asked, pod, objects): &Texts,
    policy: &Arc<GatedPolicy>,
    needed: &NeededParts<'_>,
) -> Result<(Judgement, bool), JudgeError> {
    let read = |needed: &NeededFields<'_>, text: &String| needed.read(text.as_bytes()).unwrap();
    let found = objects.iter().map(|it| read(needed.of_objects("gate"), it));
    let question = asked.clone().found(found.collect::<Vec<_>>()).with(|it| {
        it.context = read(&needed.pod, pod);
    });
    let prepared = prepare(question.about(Arc::clone(policy)))?;
    let answers: Vec<_> = prepared.rego_jobs().map(|it| said(it.input)).collect();
    let has_twins = prepared.has_twins();
    Ok((prepared.finish(answers), has_twins))
}

#[test]
fn a_judgement_on_the_needed_parts_is_the_judgement_on_the_whole() {
    let mut runner = TestRunner::deterministic();
    let strategy = questions();
    let read: Vec<Vec<String>> = READ
        .iter()
        .map(|path| path.iter().map(|it| (*it).to_owned()).collect())
        .collect();
    let mut told: BTreeMap<String, usize> = BTreeMap::new();
    for _ in 0..CASES {
        let texts = strategy.new_tree(&mut runner).unwrap().current();
        let policy = Arc::new(GatedPolicy::read(&texts.0.policy).unwrap());
        let paths = |_| Some(read.iter().map(Vec::as_slice));
        let needed = needed_parts(&policy, paths);
        assert!(needed.are_fewer());
        let whole = judged(&texts, &policy, &NeededParts::ALL);
        let part = judged(&texts, &policy, &needed);
        let count = match (whole, part) {
            (Ok((whole, true)), Ok((part, true))) => {
                assert_eq!(part.verdict, whole.verdict);
                "twins".to_owned()
            }
            (Ok((whole, false)), Ok((part, false))) => {
                assert_eq!(part, whole, "{texts:#?}");
                whole.checks[0].reason.as_str().to_owned()
            }
            (whole, part) => {
                assert_eq!(part, whole, "{texts:#?}");
                "refused".to_owned()
            }
        };
        *told.entry(count).or_default() += 1;
    }
    // Each kind of answer has a share.
    for (kind, least) in [
        ("Approved", 100),
        ("Rejected", 100),
        ("NotSelected", 100),
        ("TemplateFailed", 20),
        ("RegoFailed", 5),
        ("QuorumNotMet", 5),
        ("BeingDeleted", 5),
        ("twins", 20),
        ("refused", 20),
    ] {
        let count = told.get(kind).copied().unwrap_or_default();
        assert!(count >= least, "{kind}: {told:?}");
    }
}

#[test]
fn whatever_needs_a_whole_object_reads_one() {
    let policy = |change: fn(&mut Value)| {
        let question = question().with(|it| change(it.check()));
        GatedPolicy::read(&question.policy).unwrap()
    };
    let module: fn(&mut Value) = |it| it["state"] = json!({"rego": "package approval"});
    let without_a_program = policy(module);
    let none = |_| None::<std::iter::Empty<&[String]>>;
    assert!(!needed_parts(&without_a_program, none).are_fewer());
    let proven = policy(|it| {
        let kind =
            json!({"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"});
        it["selector"]["objectRef"] = kind;
    });
    assert!(!needed_parts(&proven, none).are_fewer());
    let usual = policy(|_| {});
    let needed = needed_parts(&usual, none);
    assert!(needed.are_fewer() && !needed.of_objects("gate").is_all());
    assert!(needed.of_objects("unknown").is_all());
}

/// The state passes only in an object whose approvers every reader finds in the same place.
#[test]
fn a_second_list_of_approvers_is_noticed_beside_the_needed_parts() {
    let approval = |spec: Value| {
        let mut object = gate("a", "approved");
        object["apiVersion"] = "openshift-pipelines.org/v1alpha1".into();
        object["kind"] = "ApprovalTask".into();
        object["spec"] = spec;
        object.to_string()
    };
    let list = json!([{"name": "ann", "type": "User", "input": "approve"}]);
    let asked = question().with(|it| {
        let check = it.check();
        let kind =
            json!({"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"});
        check["selector"]["objectRef"] = kind;
        check["provenance"] = "None".into();
        check["approvers"] = json!({"users": ["ann"], "minimum": 1});
    });
    let policy = Arc::new(GatedPolicy::read(&asked.policy).unwrap());
    let needed = needed_parts(&policy, |_| None::<std::iter::Empty<&[String]>>);
    let pod = asked.context.to_string();
    for (spec, verdict) in [
        (
            json!({"approvers": list}),
            AccessCheckReady::AccessCheckPassed,
        ),
        (
            json!({"approvers": list, "Approvers": []}),
            AccessCheckReady::AccessCheckFailed,
        ),
    ] {
        let texts = (asked.clone(), pod.clone(), vec![approval(spec)]);
        let (judgement, _) = judged(&texts, &policy, &needed).unwrap();
        assert_eq!(judgement.verdict, verdict, "{judgement:?}");
    }
}
