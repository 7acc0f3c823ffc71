//! The shape of a run, from which an honest world is made as Tekton and the gate make it.

mod objects;

use serde_json::{Value, json};

use crate::lineage::tekton::names;

/// The content of the pod's pipeline task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Embedded,
    Reference,
    Resolver,
}

/// Where a parameter of the pod's task comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Uses {
    Nothing,
    Text,
    List,
    Item,
    Key,
    Object,
    Script,
    Custom,
}

/// The matrix of the pod's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Matrix {
    None,
    Params,
    Result,
    Include,
    Both,
    /// The order in which an entry of `include` lists its parameters decides about the number of children.
    Listed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Workspace {
    None,
    Secret,
    Claim,
}

#[derive(Clone, Debug)]
#[allow(clippy::struct_excessive_bools, reason = "each is a choice of its own")]
pub(super) struct Shape {
    pub(super) run: String,
    pub(super) uid: String,
    pub(super) task: String,
    pub(super) approve: String,
    pub(super) target: Target,
    pub(super) uses: Uses,
    pub(super) matrix: Matrix,
    /// Which child of the matrix the pod belongs to.
    pub(super) index: usize,
    /// Attempts that failed before.
    pub(super) attempts: usize,
    /// The pod's task is one of `finally`.
    pub(super) is_last: bool,
    /// Users and groups that may approve.
    pub(super) approvers: Vec<(bool, String)>,
    /// How many of them must, and do.
    pub(super) needed: usize,
    /// The approvers are the result of another task.
    pub(super) asks: bool,
    pub(super) own_account: bool,
    pub(super) has_template: bool,
    /// Tasks have conditions (`when`), and one of them left a task out.
    pub(super) has_conditions: bool,
    pub(super) workspace: Workspace,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            run: "run".to_owned(),
            uid: "uid-run".to_owned(),
            task: "deploy".to_owned(),
            approve: "wait".to_owned(),
            target: Target::Embedded,
            uses: Uses::Nothing,
            matrix: Matrix::None,
            index: 0,
            attempts: 0,
            is_last: false,
            approvers: vec![(false, "alice".to_owned()), (true, "team".to_owned())],
            needed: 1,
            asks: false,
            own_account: false,
            has_template: false,
            has_conditions: false,
            workspace: Workspace::None,
        }
    }
}

/// The result of the task `who`.
const LIST: [&str; 3] = ["x", "y", "z"];

impl Shape {
    /// The parameters that the matrix gives each child.
    fn combinations(&self) -> Vec<Vec<Value>> {
        let one = |name: &str, value: &str| json!({"name": name, "value": value});
        match self.matrix {
            Matrix::None => vec![vec![]],
            Matrix::Params => ["c", "d"]
                .iter()
                .flat_map(|b| ["a", "b"].iter().map(|a| vec![one("m1", a), one("m2", b)]))
                .collect(),
            Matrix::Result => LIST.iter().map(|it| vec![one("m1", it)]).collect(),
            Matrix::Include => vec![vec![one("m1", "i")], vec![one("m1", "j"), one("m2", "k")]],
            Matrix::Both => vec![
                vec![one("m1", "a"), one("m2", "extra")],
                vec![one("m1", "b")],
                vec![one("m1", "new")],
            ],
            Matrix::Listed => vec![vec![one("m1", "a"), one("m2", "x")]],
        }
    }

    fn matrix(&self) -> Value {
        match self.matrix {
            Matrix::None => Value::Null,
            Matrix::Params => json!({"params": [
                {"name": "m1", "value": ["a", "b"]}, {"name": "m2", "value": ["c", "d"]},
            ]}),
            Matrix::Result => {
                json!({"params": [{"name": "m1", "value": "$(tasks.who.results.list[*])"}]})
            }
            Matrix::Include => json!({"include": [
                {"name": "one", "params": [{"name": "m1", "value": "i"}]},
                {"params": [{"name": "m1", "value": "j"}, {"name": "m2", "value": "k"}]},
            ]}),
            Matrix::Both => json!({
                "params": [{"name": "m1", "value": ["a", "b"]}],
                "include": [
                    {"params": [{"name": "m1", "value": "a"}, {"name": "m2", "value": "extra"}]},
                    {"params": [{"name": "m1", "value": "new"}]},
                ],
            }),
            Matrix::Listed => json!({
                "params": [{"name": "m1", "value": ["a"]}, {"name": "m2", "value": ["x"]}],
                "include": [{"params": [
                    {"name": "m2", "value": "x"}, {"name": "m1", "value": "new"},
                ]}],
            }),
        }
    }

    /// The parameter as the pipeline says it, and as the child has it.
    fn param(&self) -> (Value, Value) {
        let (wanted, found) = match self.uses {
            Uses::Nothing | Uses::Script => (json!("fixed $(date)"), json!("fixed $(date)")),
            Uses::Text => (json!("to-$(tasks.who.results.boss)!"), json!("to-eve!")),
            Uses::List => (
                json!(["first", "$(tasks.who.results.list[*])"]),
                json!(["first", "x", "y", "z"]),
            ),
            Uses::Item => (json!("$(tasks.who.results.list[1])"), json!("y")),
            Uses::Key => (json!("$(tasks.who.results.map.key)"), json!("value")),
            Uses::Object => (
                json!("$(tasks.who.results.map[*])"),
                json!({"key": "value"}),
            ),
            Uses::Custom => (json!("$(tasks.ask.results.said)"), json!(["yes", "no"])),
        };
        (
            json!({"name": "p", "value": wanted}),
            json!({"name": "p", "value": found}),
        )
    }

    fn needs_who(&self) -> bool {
        let by_task = match self.uses {
            Uses::Nothing | Uses::Custom => false,
            Uses::Script => self.target == Target::Embedded,
            Uses::Text | Uses::List | Uses::Item | Uses::Key | Uses::Object => true,
        };
        by_task || self.matrix == Matrix::Result || self.asks
    }

    /// The task as the pipeline says it, and as the child has it.
    fn target(&self) -> (Value, Value) {
        match self.target {
            Target::Embedded => {
                let task = |script: &str, args: Value| {
                    json!({
                        "params": [{"name": "p", "type": "string"}],
                        "steps": [{"name": "s", "image": "image:1", "script": script, "args": args}],
                    })
                };
                let is_script = self.uses == Uses::Script;
                let (said, has) = if is_script {
                    (
                        "echo $(tasks.who.results.boss) $(tasks.who.results.list[0]) $(params.p)",
                        "echo eve $(tasks.who.results.list[0]) $(params.p)",
                    )
                } else {
                    ("echo $(params.p)", "echo $(params.p)")
                };
                let (said_args, has_args) = if is_script {
                    (
                        json!(["a", "$(tasks.who.results.list[*])"]),
                        json!(["a", "x", "y", "z"]),
                    )
                } else {
                    (json!(["a"]), json!(["a"]))
                };
                let mut wanted = task(said, said_args);
                wanted["metadata"] = json!({});
                wanted["spec"] = Value::Null;
                (
                    json!({"taskSpec": wanted}),
                    json!({"taskSpec": task(has, has_args)}),
                )
            }
            Target::Reference => (
                json!({"taskRef": {"name": "deployer", "kind": "Task"}}),
                json!({"taskRef": {"name": "deployer", "kind": "Task"}}),
            ),
            Target::Resolver => {
                let by = json!({"taskRef": {"resolver": "git", "params": [
                    {"name": "url", "value": "https://example.com/r.git"},
                    {"name": "revision", "value": "main"},
                ]}});
                (by.clone(), by)
            }
        }
    }

    fn names(&self) -> Vec<String> {
        names::of_children(&self.run, &self.task, self.combinations().len())
    }

    fn approver_params(&self) -> Vec<String> {
        let name = |(is_group, name): &(bool, String)| {
            if *is_group {
                format!("group:{name}")
            } else {
                name.clone()
            }
        };
        self.approvers.iter().map(name).collect()
    }

    fn pipeline_spec(&self) -> Value {
        let mut deploy = json!({
            "name": self.task, "params": [self.param().0], "retries": 2, "timeout": "1h0m0s",
        });
        let (target, _) = self.target();
        deploy
            .as_object_mut()
            .unwrap()
            .extend(target.as_object().unwrap().clone());
        if self.matrix != Matrix::None {
            deploy["matrix"] = self.matrix();
        }
        if self.workspace != Workspace::None {
            deploy["workspaces"] =
                json!([{"name": "src", "workspace": "shared", "subPath": "sub"}]);
        }
        let approvers = if self.asks {
            json!("$(tasks.who.results.approvers[*])")
        } else {
            json!(self.approver_params())
        };
        let approve = json!({
            "name": self.approve,
            "taskRef": {"apiVersion": "openshift-pipelines.org/v1alpha1", "kind": "ApprovalTask"},
            "params": [
                {"name": "approvers", "value": approvers},
                {"name": "numberOfApprovalsRequired", "value": self.needed.to_string()},
                {"name": "description", "value": "Go?"},
            ],
        });
        let who = json!({"name": "who", "taskSpec": {"metadata": {}, "spec": null, "steps": [
            {"name": "s", "image": "image:1", "script": "who"},
        ]}});
        let ask = json!({"name": "ask", "taskRef": {"apiVersion": "example.com/v1", "kind": "Ask", "name": "a"}});
        let lint = json!({"name": "lint", "taskRef": {"name": "lint", "kind": "Task"}});
        let mut tasks = vec![who, ask, lint, approve];
        if self.has_conditions {
            let when =
                |values: [&str; 1]| json!([{"input": "main", "operator": "in", "values": values}]);
            let mut scan = tasks[2].clone();
            scan["name"] = "scan".into();
            scan["when"] = when(["release"]);
            tasks.push(scan);
            deploy["when"] = when(["main"]);
        }
        let mut spec = json!({});
        if self.is_last {
            spec["finally"] = json!([deploy]);
        } else {
            tasks.push(deploy);
        }
        spec["tasks"] = json!(tasks);
        spec
    }
}
