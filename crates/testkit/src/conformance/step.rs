//! The steps of a script, and the builder with which groups write them.

use serde_json::{Value, json};

use super::kinds::{NAMESPACE, Resource};

/// The requests to be made in sequence, and the actions between them.
///
/// `$run` in any text is the word with which the run names its namespaces and cluster-scoped objects.
/// `<key.field>` is a field (`uid`, `version`, `before`, `name`, `continue`, `token`) of the last answer that
/// was stored under that key. Every answered object is stored under `plural/name`.
#[derive(Debug, Default)]
pub struct Script {
    /// In the order of execution.
    pub steps: Vec<Step>,
}

/// The user that makes a request.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    /// A user with all permissions.
    Admin,
    /// A user with the permissions that RBAC gives.
    User {
        /// The user's name.
        name: String,
        /// Its groups, in addition to those of every authenticated user.
        groups: Vec<String>,
    },
}

/// One step, and the parts of its answer that are compared.
#[derive(Debug)]
pub struct Step {
    /// The group of semantics that it belongs to.
    pub group: &'static str,
    /// The user that makes the request.
    pub who: Who,
    /// The action.
    pub action: Action,
    pub(super) keep_as: Option<String>,
    pub(super) shows_managers: bool,
    pub(super) any_order: bool,
}

/// The action of a step.
#[derive(Debug)]
pub enum Action {
    /// A request with its complete answer.
    Ask(Ask),
    /// A request that is repeated until it has this answer, for asynchronous effects.
    AskUntil(Ask, Until),
    /// A watch is opened under a name.
    Open(&'static str, Ask),
    /// Events are read from an open watch.
    Read(&'static str, Expected),
    /// A watch is closed.
    Close(&'static str),
    /// Waits until a new namespace has everything that controllers create in it.
    AwaitNamespace(String),
    /// A token of a service account is issued, and stored.
    IssueToken(TokenWish),
    /// A kind of the script is removed with its objects.
    RemoveKind(Resource),
    /// The server discards its history as far as it can.
    ForgetHistory,
}

/// The awaited answer.
#[derive(Debug, Clone, Copy)]
pub enum Until {
    /// An answer with this code.
    Code(u16),
    /// A review with a negative answer.
    No,
    /// An object that is being deleted.
    Marked,
}

/// The condition on which reading a watch stops.
#[derive(Debug, Clone, Copy)]
pub enum Expected {
    /// This many events; further ones are read too.
    Events(usize),
    /// The server ends the stream.
    End,
}

/// A request.
#[derive(Debug, Clone)]
pub struct Ask {
    /// HTTP method.
    pub method: &'static str,
    /// Path without query.
    pub path: String,
    /// Parameters, not encoded.
    pub query: Vec<(String, String)>,
    /// Media type of the body.
    pub content_type: &'static str,
    /// The body, if any.
    pub body: Option<Value>,
}

/// A token for a service account, bound to a pod.
#[derive(Debug, Clone)]
pub struct TokenWish {
    /// Namespace of account and pod.
    pub namespace: String,
    /// Name of the service account.
    pub account: String,
    /// UID of the service account.
    pub account_uid: String,
    /// Name of the pod.
    pub pod: String,
    /// UID of the pod.
    pub pod_uid: String,
    /// The audiences of the token; empty for the API server itself.
    pub audiences: Vec<String>,
}

impl Who {
    pub(super) fn user(name: &str) -> Self {
        Self::User {
            name: name.to_owned(),
            groups: Vec::new(),
        }
    }
}

impl Step {
    /// Makes the request as this user instead of the administrator.
    pub(super) fn by(&mut self, who: &Who) -> &mut Self {
        self.who = who.clone();
        self
    }

    /// Adds a parameter.
    pub(super) fn query(&mut self, name: &str, value: &str) -> &mut Self {
        if let Action::Ask(ask) | Action::AskUntil(ask, _) | Action::Open(_, ask) = &mut self.action
        {
            ask.query.push((name.to_owned(), value.to_owned()));
        }
        self
    }

    /// Stores the answer under this key.
    pub(super) fn keep(&mut self, key: &str) -> &mut Self {
        self.keep_as = Some(key.to_owned());
        self
    }

    /// Compares the answer's field managers.
    pub(super) fn managers(&mut self) -> &mut Self {
        self.shows_managers = true;
        self
    }

    /// Compares events regardless of their order, for changes by several concurrent workers.
    pub(super) fn in_any_order(&mut self) -> &mut Self {
        self.any_order = true;
        self
    }
}

impl Ask {
    pub(super) fn new(method: &'static str, path: impl Into<String>) -> Self {
        Self {
            method,
            path: path.into(),
            query: Vec::new(),
            content_type: "application/json",
            body: None,
        }
    }

    pub(super) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub(super) fn typed(mut self, content_type: &'static str) -> Self {
        self.content_type = content_type;
        self
    }
}

/// The steps about one semantic, in their own namespace.
pub(super) struct Group<'s> {
    script: &'s mut Script,
    name: &'static str,
    pub(super) namespace: String,
}

impl<'s> Group<'s> {
    /// A group whose namespace is created first.
    pub(super) fn new(script: &'s mut Script, name: &'static str) -> Self {
        let mut group = Self::without_namespace(script, name);
        let namespace = group.namespace.clone();
        group.create(&NAMESPACE, &namespace, &json!({}));
        // Controllers add standard objects to every namespace; the script waits for them if there are
        // controllers.
        group.step(Action::AwaitNamespace(namespace));
        group
    }

    /// A group that needs no namespace, or creates it by itself.
    pub(super) fn without_namespace(script: &'s mut Script, name: &'static str) -> Self {
        let namespace = format!("$run-{name}");
        Self {
            script,
            name,
            namespace,
        }
    }

    pub(super) fn step(&mut self, action: Action) -> &mut Step {
        let step = Step {
            group: self.name,
            who: Who::Admin,
            action,
            keep_as: None,
            shows_managers: false,
            any_order: false,
        };
        let steps = &mut self.script.steps;
        let index = steps.len();
        steps.push(step);
        &mut steps[index]
    }

    pub(super) fn ask(&mut self, ask: Ask) -> &mut Step {
        self.step(Action::Ask(ask))
    }

    pub(super) fn object(&self, resource: &Resource, name: &str) -> String {
        resource.object(&self.namespace, name)
    }

    pub(super) fn create(&mut self, of: &Resource, name: &str, content: &Value) -> &mut Step {
        self.post(of, of.body(name, content))
    }

    /// Creates an object with the given body, under any name.
    pub(super) fn post(&mut self, of: &Resource, body: Value) -> &mut Step {
        self.ask(Ask::new("POST", of.collection(&self.namespace)).body(body))
    }

    pub(super) fn get(&mut self, of: &Resource, name: &str) -> &mut Step {
        self.ask(Ask::new("GET", self.object(of, name)))
    }

    pub(super) fn list(&mut self, of: &Resource) -> &mut Step {
        self.ask(Ask::new("GET", of.collection(&self.namespace)))
    }

    /// Replaces an object; the content may include its version and UID.
    pub(super) fn put(&mut self, of: &Resource, name: &str, content: &Value) -> &mut Step {
        self.ask(Ask::new("PUT", self.object(of, name)).body(of.body(name, content)))
    }

    pub(super) fn put_status(&mut self, of: &Resource, name: &str, content: &Value) -> &mut Step {
        let path = format!("{}/status", self.object(of, name));
        self.ask(Ask::new("PUT", path).body(of.body(name, content)))
    }

    pub(super) fn merge(&mut self, of: &Resource, name: &str, patch: Value) -> &mut Step {
        let ask = Ask::new("PATCH", self.object(of, name)).body(patch);
        self.ask(ask.typed("application/merge-patch+json"))
    }

    pub(super) fn json_patch(&mut self, of: &Resource, name: &str, patch: Value) -> &mut Step {
        let ask = Ask::new("PATCH", self.object(of, name)).body(patch);
        self.ask(ask.typed("application/json-patch+json"))
    }

    /// Applies content as a field manager.
    pub(super) fn apply(
        &mut self,
        of: &Resource,
        name: &str,
        manager: &str,
        content: &Value,
    ) -> &mut Step {
        let ask = Ask::new("PATCH", self.object(of, name)).body(of.body(name, content));
        self.ask(ask.typed("application/apply-patch+yaml"))
            .query("fieldManager", manager)
            .managers()
    }

    pub(super) fn delete(&mut self, of: &Resource, name: &str) -> &mut Step {
        self.ask(Ask::new("DELETE", self.object(of, name)))
    }

    pub(super) fn delete_with(&mut self, of: &Resource, name: &str, options: Value) -> &mut Step {
        self.ask(Ask::new("DELETE", self.object(of, name)).body(options))
    }

    /// Waits until an object is deleted.
    pub(super) fn gone(&mut self, of: &Resource, name: &str) -> &mut Step {
        let ask = Ask::new("GET", self.object(of, name));
        self.step(Action::AskUntil(ask, Until::Code(404)))
    }

    /// Waits until an object is marked for deletion although something keeps it.
    pub(super) fn marked(&mut self, of: &Resource, name: &str) -> &mut Step {
        let ask = Ask::new("GET", self.object(of, name));
        self.step(Action::AskUntil(ask, Until::Marked))
    }

    /// Opens a watch on a kind in the group's namespace.
    pub(super) fn open(&mut self, stream: &'static str, of: &Resource) -> &mut Step {
        let ask = Ask::new("GET", of.collection(&self.namespace));
        self.step(Action::Open(stream, ask)).query("watch", "true")
    }

    pub(super) fn read(&mut self, stream: &'static str, events: usize) -> &mut Step {
        self.step(Action::Read(stream, Expected::Events(events)))
    }

    pub(super) fn read_to_end(&mut self, stream: &'static str) -> &mut Step {
        self.step(Action::Read(stream, Expected::End))
    }

    pub(super) fn close(&mut self, stream: &'static str) {
        self.step(Action::Close(stream));
    }
}
