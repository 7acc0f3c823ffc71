//! What happens to objects, to watches and to callers.

use serde_json::{Value, json};

use super::{Step, Writer};
use crate::oracle::api::{ListFault, ListPlan, ReviewPlan, WatchFault};
use crate::oracle::callers::{Right, identities};
use crate::oracle::cluster::{Key, Kind};
use crate::oracle::reference::Question;
use rand::RngExt;

impl Writer {
    /// A request with what was written for it, in one order or another.
    pub(super) fn grant(&mut self) {
        let question = self.question();
        let name = self.name("g");
        self.maker.is_plain = self.maker.once_in(2);
        let phase = if self.maker.is_plain {
            "Granted"
        } else {
            self.phase()
        };
        let now = self.now;
        let request = self.maker.request(&name, &question, phase, now);
        let uid = request["metadata"]["uid"].as_str().unwrap().to_owned();
        let labels = self.maker.labels(&uid);
        let role = json!({
            "metadata": self.maker.metadata(&question.connector.0, &name, &labels),
            "rules": self.maker.rules(&question, true),
        });
        let binding = self.binding(&question, &question.connector.0, &name, "Role", &labels);
        self.maker.is_plain = false;
        let mut all = vec![
            (Kind::Request, request),
            (Kind::Role, role),
            (Kind::RoleBinding, binding),
        ];
        if self.maker.once_in(3) {
            all.reverse();
        }
        for (kind, object) in all {
            if self.maker.once_in(4) {
                self.pause();
            }
            self.write(kind, object);
        }
    }

    fn binding(
        &mut self,
        question: &Question,
        namespace: &str,
        name: &str,
        role: &str,
        labels: &Value,
    ) -> Value {
        json!({
            "metadata": self.maker.metadata(namespace, name, labels),
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": role, "name": name},
            "subjects": self.maker.subjects(question),
        })
    }

    /// A permission that asks for no pod, in a namespace or everywhere, of ours or not.
    pub(super) fn standing(&mut self) {
        let question = self.question();
        let name = self.name("s");
        let labels = if self.maker.once_in(2) {
            json!({"app.kubernetes.io/managed-by": "connectors-approval"})
        } else {
            json!({})
        };
        let is_wide = self.maker.once_in(3);
        let (kind, namespace) = if is_wide {
            (Kind::ClusterRole, String::new())
        } else {
            (Kind::Role, question.connector.0.clone())
        };
        let mut role = json!({
            "metadata": self.maker.metadata(&namespace, &name, &labels),
            "rules": self.maker.rules(&question, false),
        });
        if is_wide && self.maker.once_in(2) {
            // What is aggregated is written into the rules by Kubernetes.
            role["aggregationRule"] =
                json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
            if self.maker.once_in(3) {
                role["rules"] = Value::Null;
            }
        }
        self.write(kind, role);
        let is_everywhere = self.maker.once_in(3);
        let role = if is_wide { "ClusterRole" } else { "Role" };
        let (kind, namespace) = if is_everywhere {
            (Kind::ClusterRoleBinding, String::new())
        } else {
            (Kind::RoleBinding, question.connector.0.clone())
        };
        let binding = self.binding(&question, &namespace, &name, role, &labels);
        self.write(kind, binding);
    }

    fn phase(&mut self) -> &'static str {
        let phases = [
            "Granted", "Granted", "Granted", "Granted", "Pending", "Revoked", "Rejected",
            "Invalid", "Ended",
        ];
        self.maker.one(&phases)
    }

    fn some_object(&mut self) -> Option<(Kind, Key, Value)> {
        let count = self.objects.len();
        let mut all = self.objects.iter();
        let ((kind, key), object) = all.nth(self.maker.dice.random_range(0..count.max(1)))?;
        Some((*kind, key.clone(), object.clone()))
    }

    pub(super) fn remove(&mut self) {
        let Some((kind, key, _)) = self.some_object() else {
            return;
        };
        if kind != Kind::Config {
            self.objects.remove(&(kind, key.clone()));
            self.push(Step::Write(kind, key, None, true));
        }
    }

    /// One object becomes another in a part, is being deleted, or cannot be read any more.
    pub(super) fn change(&mut self) {
        let Some((kind, key, mut object)) = self.some_object() else {
            return;
        };
        let odd = self.maker.once_in(8);
        let is_kept = self.maker.once_in(4);
        if is_kept && !odd && ![Kind::Connector, Kind::Config, Kind::Namespace].contains(&kind) {
            object["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
            object["metadata"]["finalizers"] = json!(["example.com/keeps"]);
            return self.write(kind, object);
        }
        let question = self.question();
        let now = self.now;
        match kind {
            Kind::Role | Kind::ClusterRole if odd => object["rules"] = "odd".into(),
            Kind::RoleBinding | Kind::ClusterRoleBinding if odd => {
                object["subjects"] = "odd".into();
            }
            Kind::Request | Kind::Policy if odd => object["spec"]["unknwon"] = 1.into(),
            Kind::Role | Kind::ClusterRole => {
                let is_pods = key.1.starts_with('g');
                object["rules"] = self.maker.rules(&question, is_pods);
            }
            Kind::RoleBinding | Kind::ClusterRoleBinding => {
                if self.maker.once_in(2) {
                    object["subjects"] = self.maker.subjects(&question);
                } else {
                    let uid = format!("{}-{}", key.1, self.maker.dice.random_range(1..60));
                    object["metadata"]["labels"] = self.maker.labels(&uid);
                }
            }
            Kind::Request => {
                let phase = self.phase();
                object["status"] = self.maker.status(phase, now);
            }
            Kind::Policy => {
                object = self.maker.policy(&key.1, &question);
                object["metadata"]["namespace"] = key.0.clone().into();
            }
            Kind::Connector | Kind::Namespace => {
                object["metadata"]["labels"] = json!({"a": self.maker.one(&["b", "c"])});
                return self.write(kind, object);
            }
            Kind::Config => return,
        }
        if !odd {
            self.objects.insert((kind, key.clone()), object.clone());
        }
        self.push(Step::Write(kind, key, Some(object), !odd));
    }

    pub(super) fn trouble(&mut self) {
        let kinds = if self.maker.once_in(3) { 9 } else { 5 };
        let kind = Kind::ALL[self.maker.dice.random_range(0..kinds)];
        let lag = self.millis(500);
        let step = match self.maker.dice.random_range(0..14) {
            0 | 1 => Step::Disturb(kind, WatchFault::Silence),
            2 => Step::Disturb(kind, WatchFault::Cut),
            3 => Step::Disturb(kind, WatchFault::Breaks),
            4 => Step::Disturb(kind, WatchFault::Gone),
            5 => Step::Disturb(kind, WatchFault::Garbage),
            6 | 7 => Step::Disturb(kind, WatchFault::Lag(lag)),
            8 => Step::Disturb(kind, WatchFault::NoBookmarks),
            9 => Step::Refuse(kind, self.maker.one(&[&403, &429, &500, &410]).to_owned()),
            10 => Step::Compact,
            _ => {
                let page = self.maker.dice.random_range(0..3);
                let faults = [
                    ListFault::Fails,
                    ListFault::Expired,
                    ListFault::Hangs,
                    ListFault::Breaks,
                ];
                let fault = faults[self.maker.dice.random_range(0..4)];
                let plan = ListPlan {
                    wait: self.millis(15_000),
                    fault: self.maker.once_in(2).then_some((page, fault)),
                };
                self.push(Step::List(kind, plan));
                if plan.fault.is_some() {
                    self.push(Step::Disturb(kind, WatchFault::Gone));
                    // What was on a page goes before the next list.
                    self.wait = plan.wait + self.millis(1000);
                    self.now += self.wait;
                    return self.remove_first(kind);
                }
                Step::Disturb(kind, WatchFault::Gone)
            }
        };
        self.push(step);
    }

    fn remove_first(&mut self, kind: Kind) {
        let first = self.objects.keys().find(|it| it.0 == kind).cloned();
        if let Some(first) = first.filter(|it| it.0 != Kind::Config) {
            self.objects.remove(&first);
            self.push(Step::Write(kind, first.1, None, true));
        }
    }

    pub(super) fn callers(&mut self) {
        let step = match self.maker.dice.random_range(0..5) {
            0 => {
                let plan = ReviewPlan {
                    wait: self.millis(2500),
                    fails: self.maker.once_in(3),
                };
                Step::Reviews(plan)
            }
            1 => Step::Reviews(ReviewPlan::default()),
            2 => {
                let owner = self.maker.dice.random_range(0..=identities().len());
                let owner = (owner < identities().len()).then_some(owner);
                Step::Token(self.token(), owner)
            }
            _ => {
                let right = Right {
                    identity: self.token() % identities().len(),
                    namespace: self.maker.one(&["tools", "tools-1"]).to_owned(),
                    is_everything: self.maker.once_in(2),
                };
                let is_allowed = !self.maker.once_in(3);
                if !is_allowed && self.maker.once_in(2) {
                    // Both at once: each of them comprises what a mount needs.
                    let is_everything = !right.is_everything;
                    let other = Right {
                        is_everything,
                        ..right.clone()
                    };
                    self.push(Step::Right(other, false));
                }
                Step::Right(right, is_allowed)
            }
        };
        self.push(step);
    }
}
