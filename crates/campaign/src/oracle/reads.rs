//! The live reads of the last seconds, and whether they permit a grant.

use std::{collections::VecDeque, time::Duration};

use serde_json::Value;
use testkit::{CallRecord, Verb};

use super::{
    applies::Asked,
    history::{is_going, list, namespace, text},
    truth::{self, Evidence},
};

/// The maximum age of a read when the write is sent.
const FRESH: Duration = Duration::from_secs(5);
/// The maximum time that a write is in flight.
const ON_ITS_WAY: Duration = Duration::from_secs(10);

/// Reads of the last seconds, the oldest first.
#[derive(Default)]
pub(super) struct Reads<'a> {
    calls: VecDeque<&'a CallRecord>,
}

impl<'a> Reads<'a> {
    /// Adds a read, if it asked for the newest state and was answered.
    pub(super) fn take(&mut self, call: &'a CallRecord) {
        let newest = call
            .query
            .get("resourceVersion")
            .is_none_or(String::is_empty);
        // "Not found" is an answer.
        let answered = matches!(call.code, Some(200 | 404)) && call.answer.is_some();
        if answered && newest && call.point.verb != Verb::Watch {
            self.calls.push_back(call);
        }
    }

    /// Drops reads that are too old to matter.
    pub(super) fn forget(&mut self, now: Duration) {
        while self
            .calls
            .front()
            .is_some_and(|read| read.begun + FRESH + ON_ITS_WAY < now)
        {
            self.calls.pop_front();
        }
    }

    /// The evidence from the live reads of the process before it sent a write, if it permits a grant.
    pub(super) fn live(
        &self,
        by: &str,
        request: &Value,
        policy_uid: &str,
        sent: Duration,
        anybody: bool,
    ) -> Result<Evidence, String> {
        let before = Before {
            calls: &self.calls,
            by,
            sent,
        };
        before.evidence(request, policy_uid, anybody)
    }
}

/// The reads of one process before it sent a call.
struct Before<'r, 'a> {
    calls: &'r VecDeque<&'a CallRecord>,
    by: &'r str,
    sent: Duration,
}

impl<'a> Before<'_, 'a> {
    /// The newest first.
    fn calls(&self) -> impl Iterator<Item = &'a CallRecord> {
        let all = self.calls.iter().rev().copied();
        all.filter(|read| {
            read.point.process == self.by
                && read.begun <= self.sent
                && self.sent <= read.begun + FRESH
        })
    }

    /// The same, but only the first page of each list.
    fn reads(&self) -> impl Iterator<Item = &'a CallRecord> {
        self.calls().filter(|it| token(it).is_empty())
    }

    fn evidence(
        &self,
        request: &Value,
        policy_uid: &str,
        anybody: bool,
    ) -> Result<Evidence, String> {
        let pod = text(request, "/spec/context/objectRef/name");
        let uid = text(request, "/spec/context/objectRef/uid");
        let (owner, home) = (namespace(request), truth::home(request));
        let account = text(request, "/spec/subject/name");
        let read = self.last_read("pods", home, Some(pod), |it| {
            text(it, "/metadata/name") == pod
        });
        let whole_pod = match read {
            None => return Err("the pod was not found live".to_owned()),
            Some(it) if text(it, "/metadata/uid") != uid => {
                return Err("the pod that was read is another one".to_owned());
            }
            Some(it) if truth::is_finished(it) => {
                return Err("the pod that was read had ended".to_owned());
            }
            Some(it) if is_going(it) => {
                return Err("the pod that was read was being deleted".to_owned());
            }
            Some(it)
                if text(it, "/spec/serviceAccountName") != account
                    || text(request, "/spec/subject/namespace") != home =>
            {
                return Err("the pod that was read has another account".to_owned());
            }
            Some(it) => it,
        };
        let name = text(request, "/spec/connectorRef/name");
        let connector = self.last_read("connectors", owner, Some(name), |it| {
            text(it, "/metadata/name") == name && !is_going(it)
        });
        let Some(connector) = connector else {
            return Err("the connector was not read live".to_owned());
        };
        let is_the_policy = |it: &Value| text(it, "/metadata/uid") == policy_uid;
        // A list has it by its UID. A read by name may also say later that it is gone, or another one.
        let policy = self.name_of("accesspolicies", owner, is_the_policy);
        let policy = self.last_read("accesspolicies", owner, policy, is_the_policy);
        let Some(policy) = policy else {
            return Err("the policy was not read live".to_owned());
        };
        let asked = Asked {
            request,
            connector,
            account: self.last_read("serviceaccounts", home, Some(account), |it| {
                text(it, "/metadata/name") == account
            }),
            anybody,
        };
        if let Some(problem) = asked.problem(policy) {
            return Err(problem.to_owned());
        }
        let objects = |check: &Value| {
            let selector = truth::selector(check, whole_pod);
            self.last_list(home, &truth::plural(check), &selector)
        };
        let find = |resource: &str, name: &str| {
            self.last_read(resource, home, Some(name), |it| {
                text(it, "/metadata/name") == name
            })
        };
        let mut evidence = truth::passes(policy, whole_pod, objects, find)?;
        text(connector, "/metadata/uid").clone_into(&mut evidence.connector);
        Ok(evidence)
    }

    /// The name of an object that was found, by its name or in a list.
    fn name_of(
        &self,
        resource: &str,
        namespace: &str,
        is_it: impl Fn(&Value) -> bool,
    ) -> Option<&'a str> {
        let of_it =
            |it: &&CallRecord| it.point.resource == resource && it.point.namespace == namespace;
        self.calls().filter(of_it).find_map(|read| {
            let answer = read.answer.as_deref()?;
            let items = list(answer, "/items").iter();
            let found = items.chain([answer]).find(|it| is_it(it))?;
            Some(text(found, "/metadata/name"))
        })
    }

    /// An object in its latest read that could contain it. A read that did not find it means that it is gone.
    fn last_read(
        &self,
        resource: &str,
        namespace: &str,
        name: Option<&str>,
        is_it: impl Fn(&Value) -> bool,
    ) -> Option<&'a Value> {
        let could = |it: &&CallRecord| {
            let point = &it.point;
            let whole = point.verb == Verb::List && !it.query.contains_key("labelSelector");
            point.resource == resource
                && point.namespace == namespace
                && (whole || point.verb == Verb::Get && Some(point.name.as_str()) == name)
        };
        self.reads().filter(could).find_map(|read| {
            if read.point.verb == Verb::List {
                let items = self.items(read)?;
                Some(items.into_iter().find(|it| is_it(it)))
            } else {
                Some(read.answer.as_deref().filter(|it| is_it(it)))
            }
        })?
    }

    /// The objects of the last list of a namespace by these labels.
    fn last_list(&self, home: &str, resource: &str, selector: &str) -> Option<Vec<&'a Value>> {
        let mut lists = self.reads().filter(|it| {
            it.point.resource == resource
                && it.point.namespace == home
                && it.point.verb == Verb::List
                && it
                    .query
                    .get("labelSelector")
                    .is_some_and(|it| it == selector)
        });
        lists.find_map(|it| self.items(it))
    }

    /// All objects of a list; its pages show the state at the time of the first one. None if the process has
    /// not read all pages: then it is not a list, regardless of its first pages.
    fn items(&self, first: &'a CallRecord) -> Option<Vec<&'a Value>> {
        let mut page = first.answer.as_deref()?;
        let mut items: Vec<_> = list(page, "/items").iter().collect();
        loop {
            let next = text(page, "/metadata/continue");
            if next.is_empty() {
                return Some(items);
            }
            page = self
                .calls()
                .find(|it| token(it) == next)?
                .answer
                .as_deref()?;
            items.extend(list(page, "/items"));
        }
    }
}

/// The continue token of a page; empty for the first one. Lists of different kinds or versions never have the
/// same token.
fn token(read: &CallRecord) -> &str {
    read.query.get("continue").map_or("", String::as_str)
}
