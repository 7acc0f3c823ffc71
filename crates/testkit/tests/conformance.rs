//! The fake answers the whole script as the real API server did.
//!
//! The file with the real answers is written by the test of the same name in `e2e/tests/api`.

#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "tests fail by panicking"
)]

use std::future::{Future, ready};

use jiff::Timestamp;
use kube::Client;
use serde_json::json;
use testkit::conformance::{self, Resource, Server, TokenWish, Who, report};
use testkit::{ApiServer, Caller, Kind, TokenFacts};

/// The name of the run; the answers show it as `$run`.
const RUN: &str = "trial-0";

struct Fake(ApiServer);

impl Fake {
    fn new() -> Self {
        let server = ApiServer::new(Timestamp::from_second(1_767_225_600).unwrap());
        for kind in conformance::test_kinds() {
            server.register(Kind {
                group: kind.group.to_owned(),
                version: kind.version.to_owned(),
                kind: kind.kind.to_owned(),
                plural: kind.plural.to_owned(),
                namespaced: kind.namespaced,
                status: kind.status,
            });
        }
        // The default roles of every cluster, as far as the script uses them.
        let everybody = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:authenticated"});
        let administrators = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:masters"});
        let reviews = json!([{
            "apiGroups": ["authorization.k8s.io"],
            "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"], "verbs": ["create"],
        }]);
        let everything = json!([{"apiGroups": ["*"], "resources": ["*"], "verbs": ["*"]}]);
        for (name, rules, subject) in [
            ("system:basic-user", reviews, everybody),
            ("cluster-admin", everything, administrators),
        ] {
            server.create(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole",
                "metadata": {"name": name}, "rules": rules,
            }));
            server.create(json!({
                "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRoleBinding",
                "metadata": {"name": name}, "subjects": [subject],
                "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name},
            }));
        }
        Self(server)
    }
}

impl Server for Fake {
    fn client(&self, who: &Who) -> Client {
        match who {
            Who::Admin => self.0.client(&Caller::admin()),
            Who::User { name, groups } => {
                let mut groups = groups.clone();
                groups.push("system:authenticated".to_owned());
                self.0.client(&Caller {
                    process: name.clone(),
                    user: name.clone(),
                    groups,
                })
            }
        }
    }

    fn await_namespace(&self, _name: &str) -> impl Future<Output = ()> {
        ready(()) // no controller creates anything in it
    }

    fn issue_token(&self, wish: &TokenWish) -> impl Future<Output = String> {
        let caller = Caller::service_account("", &wish.namespace, &wish.account);
        ready(self.0.issue_token(TokenFacts {
            user: caller.user,
            uid: wish.account_uid.clone(),
            groups: caller.groups,
            audiences: wish.audiences.clone(),
            pod: Some((wish.pod.clone(), wish.pod_uid.clone())),
            node: None,
        }))
    }

    fn remove_kind(&self, kind: &Resource) -> impl Future<Output = ()> {
        self.0.unregister(kind.plural, kind.group);
        ready(())
    }

    fn forget_history(&self) {
        self.0.compact();
    }
}

#[tokio::test(start_paused = true)]
async fn the_fake_answers_as_the_real_server_did() {
    let found = conformance::run(&Fake::new(), &conformance::script(), RUN).await;
    let differences = conformance::real().differences(&found);
    assert!(
        differences.is_empty(),
        "{} of {} steps differ\n\n{}",
        differences.len(),
        found.len(),
        report(&differences)
    );
}

#[tokio::test(start_paused = true)]
async fn two_runs_on_the_fake_are_the_same() {
    let script = conformance::script();
    let first = conformance::run(&Fake::new(), &script, RUN).await;
    let second = conformance::run(&Fake::new(), &script, RUN).await;
    assert_eq!(report(&first.differences(&second)), "");
}

#[test]
fn the_file_of_the_real_answers_belongs_to_this_script() {
    let real = conformance::real();
    assert_eq!(real.len(), conformance::script().steps.len());
    assert_eq!(
        real.to_string(),
        include_str!("../src/conformance/real.transcript")
    );
}

#[test]
fn the_script_has_several_hundred_requests() {
    assert!(conformance::script().steps.len() > 300);
}
