//! The commands in the sentences of the page about troubleshooting, beside a pod that waits and one that has access.

use std::{collections::BTreeSet, fs};

use e2e::{api::kinds::ACCESS_POLICY, repository};
use serde_json::Value;

use super::{Desk, FAILED};
use crate::support::{Approval, Gate, condition, name, session::Block, uid};

/// The programs whose command lines the page has.
const PROGRAMS: [&str; 3] = ["kubectl ", "helm ", "cargo "];

/// Parts of command lines that a sentence names. There is nothing to run.
const NAMED: [&str; 2] = ["kubectl create token", "kubectl replace"];

/// Printed behind the output of a command, with its exit code.
const CODE: &str = "──code──";

/// The pods of the scene. Only the second has its approval.
const WAITS: &str = "waits";
const RUNS: &str = "runs";
/// The policy that both pods ask.
const POLICY: &str = "release";

/// A word of the scene, in the place of a placeholder.
#[derive(Clone, Copy)]
enum Own {
    Namespace,
    WaitingPod,
    WaitingRequest,
    GrantedUid,
    Policy,
    Class,
}

/// A command of the page.
struct Typed {
    command: &'static str,
    own: &'static [(&'static str, Own)],
    codes: &'static [&'static str],
    /// Parts of its output.
    shows: &'static [&'static str],
}

const fn typed(
    command: &'static str,
    own: &'static [(&'static str, Own)],
    shows: &'static [&'static str],
) -> Typed {
    Typed {
        command,
        own,
        codes: &["0"],
        shows,
    }
}

const TYPED: [Typed; 15] = [
    Typed {
        codes: &["1"],
        ..typed(
            "kubectl connectors explain pod/NAME",
            &[("NAME", Own::WaitingPod)],
            &["waits", "policy release"],
        )
    },
    // The findings depend on the tests beside this one.
    Typed {
        codes: &["0", "1"],
        ..typed("kubectl connectors doctor -A", &[], &[])
    },
    typed("kubectl get accessrequests", &[], &["Pending", "Granted"]),
    typed(
        r#"kubectl get accessrequest NAME -o jsonpath='{.status.conditions[?(@.type=="Ready")]}'"#,
        &[("NAME", Own::WaitingRequest)],
        &["ChecksPending", "message"],
    ),
    typed("kubectl describe pod", &[], &["AccessPending"]),
    typed("kubectl get pods", &[], &[WAITS, RUNS]),
    typed("kubectl get apol", &[], &[POLICY]),
    typed(
        "kubectl get apol -n NAMESPACE -o yaml",
        &[("NAMESPACE", Own::Namespace)],
        &["name: release", "ConnectorsMatched"],
    ),
    typed(
        "kubectl get apol NAME -o jsonpath='{.status.conditions}'",
        &[("NAME", Own::Policy)],
        &["ConnectorsMatched", "ChecksValid"],
    ),
    typed(
        "kubectl -n NAMESPACE events --for pod/POD",
        &[("NAMESPACE", Own::Namespace), ("POD", Own::WaitingPod)],
        &["AccessPending"],
    ),
    typed(
        "kubectl -n connectors-system get pods",
        &[],
        &["evaluation-service"],
    ),
    typed(
        "kubectl --namespace connectors-system get pods",
        &[],
        &["webhook"],
    ),
    typed(
        "kubectl get roles,rolebindings -l connectors.alauda.io/accessRequestUid=UID",
        &[("UID", Own::GrantedUid)],
        &[
            "role.rbac.authorization.k8s.io/",
            "rolebinding.rbac.authorization.k8s.io/",
        ],
    ),
    typed(
        "kubectl get connectors --show-labels",
        &[],
        &["prod", "e2e=yes"],
    ),
    typed(
        "kubectl describe connectorclass NAME",
        &[("NAME", Own::Class)],
        &["Name:", "e2e"],
    ),
];

/// The commands between backticks. A line may end within one.
fn commands(page: &str) -> BTreeSet<String> {
    let spans = page.split('`').skip(1).step_by(2);
    let spans = spans.map(|it| it.split_whitespace().collect::<Vec<_>>().join(" "));
    let is_command = |it: &String| PROGRAMS.iter().any(|program| it.starts_with(program));
    spans.filter(is_command).collect()
}

#[test]
fn commands_are_found_in_sentences_and_tables() {
    let page = "Type `kubectl get\n  pods`, not `kubectl`.\n\n| `a` | `helm list`: `b` |\n";
    let found = ["helm list", "kubectl get pods"].map(str::to_owned);
    assert_eq!(commands(page), BTreeSet::from(found));
}

/// A command of the page in the scene, and behind its output its exit code.
fn block(typed: &Typed, word: impl Fn(Own) -> String) -> Block {
    let own = typed.own.iter();
    let command = own.fold(typed.command.to_owned(), |command, (placeholder, own)| {
        command.replace(placeholder, &word(*own))
    });
    unshown(format!("{command}\necho \"{CODE} $?\"\n"))
}

fn unshown(commands: String) -> Block {
    Block {
        commands,
        expected: None,
        left_out: None,
    }
}

fn check(typed: &Typed, output: &str) {
    let Typed { command, shows, .. } = typed;
    let (said, code) = output.split_once(CODE).unwrap();
    assert!(typed.codes.contains(&code.trim()), "{command}: {output}");
    let lines = said.lines().filter(|line| !line.starts_with(FAILED));
    let said = lines.collect::<Vec<_>>().join("\n");
    assert!(!said.trim().is_empty(), "{command} prints nothing");
    for word in *shows {
        assert!(said.contains(word), "{command} without {word}: {said}");
    }
}

#[test]
fn every_command_of_the_page_about_troubleshooting_shows_what_it_is_about() {
    let page = fs::read_to_string(repository().join("docs/troubleshooting.md")).unwrap();
    assert!(!page.contains("```"), "a block that nothing runs");
    let known = TYPED.iter().map(|it| it.command).chain(NAMED);
    let known: BTreeSet<String> = known.map(str::to_owned).collect();
    assert_eq!(commands(&page), known);

    let gate = Gate::new("troubleshooting");
    gate.create_policy(POLICY, Approval::SignOff);
    gate.start_pod(WAITS);
    gate.start_pod(RUNS);
    gate.set_approval("yes", RUNS, Approval::SignOff, "approved");
    let granted = uid(&gate.wait_for_phase(RUNS, "Granted"));
    let waiting = name(&gate.wait_for_reason(WAITS, "AccessCheckReady", "AccessCheckPending"));
    gate.wait_for_event("Pod", WAITS, "AccessPending");
    let is_judged = |policy: &Value| condition(policy, "Ready").is_some();
    gate.scene()
        .wait_for_object("a judged policy", ACCESS_POLICY, POLICY, is_judged);

    let word = |own| match own {
        Own::Namespace => gate.namespace().to_owned(),
        Own::WaitingPod => WAITS.to_owned(),
        Own::WaitingRequest => waiting.clone(),
        Own::GrantedUid => granted.clone(),
        Own::Policy => POLICY.to_owned(),
        Own::Class => "e2e".to_owned(),
    };
    // The reader's context has the namespace of the connector.
    let context = format!(
        "kubectl config view --raw --flatten > config\nexport KUBECONFIG=$PWD/config\n\
         kubectl config set-context --current --namespace {}\n",
        gate.namespace()
    );
    let mut blocks = vec![unshown(context)];
    blocks.extend(TYPED.iter().map(|typed| block(typed, word)));
    let outputs = Desk::new().run(&blocks);
    for (typed, output) in TYPED.iter().zip(&outputs[1..]) {
        check(typed, output);
    }
}
