//! The kubectl plugin beside the running services: sessions of an administrator, and of a user without rights.

use std::process::Command;

use e2e::{
    api::kinds::{POD, SIGN_OFF},
    images::programs_dir,
};
use serde_json::Value;

use crate::support::rights::{self, RightHolder, RightRule};
use crate::support::{Approval, CONNECTOR, Gate, name, wait_until};

/// The answer of the plugin to a command line.
struct Session {
    code: i32,
    text: String,
    errors: String,
}

impl Session {
    fn of(gate: &Gate, words: &str) -> Self {
        let program = programs_dir().join("kubectl-connectors");
        let output = Command::new(&program)
            .arg("--kubeconfig")
            .arg(gate.scene().kubectl().kubeconfig())
            .args(["--namespace", gate.namespace()])
            .args(words.split(' '))
            .output()
            .unwrap_or_else(|error| panic!("{}: {error}", program.display()));
        let session = Self {
            code: output.status.code().unwrap(),
            text: String::from_utf8(output.stdout).unwrap(),
            errors: String::from_utf8(output.stderr).unwrap(),
        };
        // No token of an account (I8), and no colour, as this is no terminal.
        for text in [&session.text, &session.errors] {
            assert!(!text.contains("eyJ"), "{words}: {text}");
            assert!(!text.contains('\u{1b}'), "{words}: {text}");
        }
        session
    }

    #[track_caller]
    fn expect(&self, code: i32, says: &[&str]) {
        assert_eq!(self.code, code, "{}{}", self.text, self.errors);
        for word in says {
            let all = format!("{}{}", self.text, self.errors);
            assert!(all.contains(word), "{word}: {all}");
        }
    }
}

#[test]
fn the_plugin_follows_a_pod_from_its_wait_to_the_end_of_its_access() {
    let gate = Gate::new("plugin");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    let request = gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");

    let waits = Session::of(&gate, "explain pod/job");
    waits.expect(1, &["waits", CONNECTOR, "policy release", "SignOff"]);
    let in_json = Session::of(&gate, "explain pod/job -o json");
    let document: Value = serde_json::from_str(&in_json.text).unwrap();
    assert!(document["apiVersion"].is_string(), "{document}");
    Session::of(&gate, &format!("can-i {CONNECTOR} --pod job")).expect(1, &[]);
    Session::of(&gate, "requests").expect(0, &["Pending"]);
    Session::of(&gate, "grants").expect(0, &[]);

    gate.set_approval("yes", "job", Approval::SignOff, "approved");
    gate.wait_for_output("job");
    Session::of(&gate, "explain pod/job").expect(0, &["policy release"]);
    Session::of(&gate, &format!("can-i {CONNECTOR} --pod job")).expect(0, &[]);
    Session::of(&gate, &format!("who-can {CONNECTOR}")).expect(0, &["job"]);
    Session::of(&gate, "grants").expect(0, &["job", "release"]);

    gate.delete(POD, "job");
    gate.wait_for_phase_of(&request, "Revoked");
    wait_until("no grant to be listed", || {
        !Session::of(&gate, "grants").text.contains("job")
    });
    let request = format!("explain areq/{}", name(&request));
    Session::of(&gate, &request).expect(1, &["Revoked", "policy release"]);
}

#[test]
fn a_user_without_rights_is_told_what_may_not_be_read() {
    let gate = Gate::new("plugin-stranger");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    for words in ["explain pod/job", "requests", "grants"] {
        let session = Session::of(&gate, &format!("{words} --as stranger"));
        session.expect(3, &["stranger"]);
        assert!(!session.text.contains("release"), "{}", session.text);
    }
}

/// A user who may read the objects of the namespace, and write the state of sign-offs.
fn board(gate: &Gate) -> String {
    let user = format!("board-{}", gate.namespace());
    let rule = |group, resource, verbs| RightRule {
        group,
        resource,
        name: None,
        verbs,
    };
    let rules = [
        rule("", "pods", &["get"]),
        rule("connectors.alauda.io", "*", &["get", "list"]),
        rule("e2e.example.com", "signoffs", &["get", "list"]),
        rule("e2e.example.com", "signoffs/status", &["patch"]),
    ];
    rights::give(gate, "board", &rules, RightHolder::User(&user));
    user
}

#[test]
fn an_administrator_answers_with_the_plugin_and_users_without_the_rights_write_nothing() {
    let gate = Gate::new("plugin-answers");
    gate.create_policy("release", Approval::SignOff);
    gate.start_pod("job");
    gate.wait_for_reason("job", "AccessCheckReady", "AccessCheckPending");
    gate.set_approval("yes", "job", Approval::SignOff, "pending");
    let board = board(&gate);
    let state = || gate.object(SIGN_OFF, "yes")["status"]["state"].clone();
    let as_board = |words: &str| Session::of(&gate, &format!("{words} --as {board}"));

    let shown = as_board("approve pod/job");
    shown.expect(2, &["opens", "policy release", "rule: * on", "--yes"]);
    assert_eq!(state(), "pending");
    let stranger = Session::of(&gate, "approve signoff/yes --yes --as stranger");
    assert_ne!(stranger.code, 0, "{}{}", stranger.text, stranger.errors);
    assert_eq!(state(), "pending");

    let unnamed = as_board("approve pod/job --yes");
    unnamed.expect(2, &["--only"]);
    // Policies of other namespaces may count the object too, and the board may not read them.
    let unseen = as_board("approve signoff/yes --yes");
    let all = "you may not list accessrequests.connectors.alauda.io";
    unseen.expect(3, &["it may open or end more", all, "nothing was written"]);
    assert_eq!(state(), "pending");
    // The first look of the controller may be a moment away.
    let approve = "approve pod/job --only signoff/yes --yes --wait=30";
    let approved = Session::of(&gate, approve);
    approved.expect(0, &["written: SignOff", "it is approved", "Granted"]);
    gate.wait_for_output("job");
    let rejected = Session::of(&gate, "reject signoff/yes --yes --wait=30");
    rejected.expect(0, &["takes back", "it is rejected", "Revoked"]);
    assert_eq!(state(), "rejected");
    gate.approval_ended("job", "release");
}
