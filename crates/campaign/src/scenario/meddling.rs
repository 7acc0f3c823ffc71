//! Interference by other actors: foreign objects, finalizers, and unreadable objects.

use std::time::Duration;

use serde_json::{Value, json};

use super::{
    Scenario,
    Step::{Do, Rest, Until},
    common::{
        A_WHILE, APPROVE, BLOWN_UP, DELETE_REQUEST, FINISH, GRANTED, PENDING, REJECT, USUAL,
        WITHDRAW, WITHDRAW_OTHER, asked_about, asking, bind, blow_up, both_grant, deepen,
        delete_bindings, grant_objects, granted, nothing, race, rejected, revoked,
        revoked_or_ended, scenario, waiting, waiting_for_two,
    },
};
use crate::stage::{APPS, PolicyForm, Stage, TOOLS};

/// Interference by other actors.
pub(super) const MEDDLING: [Scenario; 22] = [
    scenario(
        "binding-is-kept",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("somebody puts a finalizer on the binding", |stage| {
                each(stage, "rolebindings", |it| {
                    it["metadata"]["finalizers"] = json!(["example.com/keeps"]);
                });
            }),
            FINISH,
            A_WHILE,
            Do("and takes it off", |stage| {
                each(stage, "rolebindings", |it| {
                    it["metadata"]["finalizers"] = json!([]);
                });
            }),
        ],
        revoked,
    ),
    scenario(
        "bound-while-it-waits",
        waiting,
        &[
            PENDING,
            Do(
                "somebody binds the account to the role that waits",
                |stage| {
                    stage
                        .managed("roles")
                        .iter()
                        .for_each(|role| bind(stage, role));
                },
            ),
            PENDING,
            APPROVE,
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "request-is-kept",
        |stage| {
            waiting(stage);
            stage
                .server
                .change("accessrequests", TOOLS, "for-deploy", |it| {
                    it["metadata"]["finalizers"] = json!(["example.com/keeps"]);
                });
        },
        &[PENDING, APPROVE, GRANTED, DELETE_REQUEST],
        nothing,
    ),
    race(
        "name-is-taken",
        |stage| {
            waiting(stage);
            let name = "car-request-0-7ba91dba";
            grant_objects(stage, name, None);
        },
        &[PENDING, APPROVE, A_WHILE, FINISH],
        // Whether a grant was started when the pod ends depends on a race with the attempts to write it.
        revoked_or_ended,
    ),
    race(
        "name-is-taken-afterwards",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("somebody puts his own in its place", |stage| {
                let names = names(&stage.bindings());
                for name in names {
                    stage.server.delete("rolebindings", TOOLS, &name);
                    stage.server.delete("roles", TOOLS, &name);
                    grant_objects(stage, &name, None);
                }
            }),
            A_WHILE,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "deletions-wait-for-others",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("somebody asks for deletions in the foreground", |stage| {
                each(stage, "rolebindings", |it| {
                    it["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
                });
            }),
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "deleted-in-the-foreground",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do(
                "somebody deletes the binding in the foreground",
                delete_in_the_foreground,
            ),
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "deleted-in-the-foreground-with-its-request",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("somebody deletes binding and request", |stage| {
                delete_in_the_foreground(stage);
                stage.server.delete("accessrequests", TOOLS, "for-deploy");
            }),
        ],
        nothing,
    ),
    scenario(
        "somebody-is-added",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("somebody adds himself to the binding", |stage| {
                each(stage, "rolebindings", |it| {
                    let intruder =
                        json!({"kind": "ServiceAccount", "namespace": APPS, "name": "intruder"});
                    if let Some(subjects) = it["subjects"].as_array_mut() {
                        subjects.push(intruder);
                    }
                });
            }),
            A_WHILE,
            GRANTED,
            FINISH,
        ],
        revoked,
    ),
    scenario(
        "called-final-by-somebody",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("somebody calls the request rejected", |stage| {
                stage
                    .server
                    .change("accessrequests", TOOLS, "for-deploy", |it| {
                        // Changing a request that has ended would violate the rule by itself.
                        if it["status"]["phase"] == "Granted" {
                            it["status"]["phase"] = "Rejected".into();
                        }
                    });
            }),
        ],
        rejected,
    ),
    scenario(
        "left-of-a-rejection",
        waiting,
        &[
            PENDING,
            REJECT,
            Until("rejected", rejected),
            Do("somebody makes a grant of it", |stage| {
                let uid = request_uid(stage);
                grant_objects(stage, "car-left", Some(("for-deploy", &uid)));
            }),
        ],
        rejected,
    ),
    scenario(
        "left-by-one-of-the-name",
        |stage| {
            waiting(stage);
            grant_objects(stage, "car-gone", Some(("for-deploy", "gone-uid")));
            stage.decide("yes", "approved");
        },
        &[GRANTED],
        granted,
    ),
    scenario(
        "two-left-by-one-of-the-name",
        |stage| {
            waiting(stage);
            for name in ["car-gone", "car-lost"] {
                grant_objects(stage, name, Some(("for-deploy", "gone-uid")));
            }
            stage.decide("yes", "approved");
        },
        &[GRANTED],
        granted,
    ),
    scenario(
        "request-becomes-unreadable",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("it becomes too deep to read", |stage| {
                stage
                    .server
                    .change("accessrequests", TOOLS, "for-deploy", deepen);
            }),
        ],
        nothing,
    ),
    scenario(
        "approval-becomes-unreadable",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("it becomes too deep to read", |stage| {
                stage.server.change("signoffs", APPS, "yes", deepen);
            }),
        ],
        revoked,
    ),
    scenario(
        "approval-is-blown-up",
        waiting,
        &[PENDING, APPROVE, GRANTED, BLOWN_UP],
        revoked,
    ),
    scenario(
        "blown-up-and-undone",
        waiting,
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("it is blown up, and the binding deleted", |stage| {
                blow_up(stage);
                delete_bindings(stage);
            }),
        ],
        revoked,
    ),
    scenario(
        "one-cannot-be-judged",
        |stage| {
            waiting(stage);
            let kind = Some("Nowhere");
            stage.policy("q", PolicyForm { kind, ..USUAL });
        },
        &[APPROVE, GRANTED, WITHDRAW],
        revoked,
    ),
    asked_about(
        "one-cannot-be-read-for-long",
        |stage| {
            waiting(stage);
            stage.latecomers_are_away();
            let kind = Some("Latecomer");
            stage.policy("q", PolicyForm { kind, ..USUAL });
        },
        &[APPROVE, GRANTED, WITHDRAW],
        revoked,
    ),
    scenario(
        "accounts-cannot-be-read-any-more",
        |stage| {
            stage.connector();
            stage
                .server
                .change("serviceaccounts", APPS, "builder", |it| {
                    it["metadata"]["labels"] = json!({"team": "deployers"});
                });
            let edit: fn(&mut Value) = |spec| {
                let deployers = json!([{
                    "kind": "ServiceAccount", "nameSelector": {"matchLabels": {"team": "deployers"}},
                    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": APPS}},
                }]);
                spec["checkGrantedPermission"]["requesters"] = deployers;
            };
            let edit = Some(edit);
            stage.policy("p", PolicyForm { edit, ..USUAL });
            asking(stage);
        },
        &[
            PENDING,
            APPROVE,
            GRANTED,
            Do("nobody serves accounts", |stage| {
                stage.server.take_away("serviceaccounts", "");
            }),
            A_WHILE,
            WITHDRAW,
            // A process that starts meanwhile revokes as well.
            Rest(Duration::from_secs(20)),
            Do("accounts are served again", |stage| {
                stage.server.bring_back("serviceaccounts", "");
            }),
        ],
        revoked,
    ),
    scenario(
        "left-behind-where-a-kind-is-not-served",
        |stage| {
            waiting(stage);
            grant_objects(stage, "car-gone", Some(("gone", "gone-uid")));
            stage.decide("yes", "approved");
            stage.server.take_away("serviceaccounts", "");
        },
        &[
            Until("nothing is left", nothing),
            Do("accounts are served again", |stage| {
                stage.server.bring_back("serviceaccounts", "");
            }),
            GRANTED,
        ],
        granted,
    ),
    scenario(
        "one-cannot-be-judged-any-more",
        |stage| waiting_for_two(stage, "approved"),
        &[
            APPROVE,
            Until("both grant", both_grant),
            Do("the other approval becomes too deep to read", |stage| {
                stage.server.change("signoffs", APPS, "other", deepen);
            }),
            A_WHILE,
            WITHDRAW_OTHER,
            Do("the first one is withdrawn", |stage| {
                stage.decide("yes", "pending");
            }),
        ],
        revoked,
    ),
];

fn delete_in_the_foreground(stage: &Stage) {
    each(stage, "rolebindings", |it| {
        it["metadata"]["finalizers"] = json!(["foregroundDeletion"]);
    });
    delete_bindings(stage);
}

fn each(stage: &Stage, plural: &str, change: fn(&mut Value)) {
    for name in names(&stage.managed(plural)) {
        stage.server.change(plural, TOOLS, &name, change);
    }
}

fn names(objects: &[Value]) -> Vec<String> {
    let names = objects.iter().map(|it| it["metadata"]["name"].as_str());
    names.map(|it| it.unwrap_or_default().to_owned()).collect()
}

fn request_uid(stage: &Stage) -> String {
    let request = stage.request_now("for-deploy").unwrap_or_default();
    let uid = request["metadata"]["uid"].as_str();
    uid.unwrap_or_default().to_owned()
}
