//! What was read live in the last seconds, and whether that lets its reader grant.

use std::{collections::VecDeque, time::Duration};

use serde_json::Value;
use testkit::{CallRecord, Verb};

use super::{
    applies::Asked,
    history::{is_going, list, text},
    truth::{self, Evidence},
};
use crate::stage::{APPS, TOOLS};

/// How old a read may be when the write is sent.
const FRESH: Duration = Duration::from_secs(5);
/// How long a write may be on its way.
const ON_ITS_WAY: Duration = Duration::from_secs(10);

/// Reads of the last seconds, the oldest first.
#[derive(Default)]
pub(super) struct Reads<'a> {
    calls: VecDeque<&'a CallRecord>,
}

impl<'a> Reads<'a> {
    /// Takes a read, if it asked for the newest state and was answered.
    pub(super) fn take(&mut self, call: &'a CallRecord) {
        let newest = call
            .query
            .get("resourceVersion")
            .is_none_or(String::is_empty)
            && call.query.get("continue").is_none_or(String::is_empty);
        // That something is not there is an answer.
        let answered = matches!(call.code, Some(200 | 404)) && call.answer.is_some();
        if answered && newest && call.point.verb != Verb::Watch {
            self.calls.push_back(call);
        }
    }

    /// Forgets reads that are too old to matter.
    pub(super) fn forget(&mut self, now: Duration) {
        while self
            .calls
            .front()
            .is_some_and(|read| read.begun + FRESH + ON_ITS_WAY < now)
        {
            self.calls.pop_front();
        }
    }

    /// What the process had read live in the seconds before it sent a write, if that lets it grant.
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

/// The reads of one process before it sent something.
struct Before<'r, 'a> {
    calls: &'r VecDeque<&'a CallRecord>,
    by: &'r str,
    sent: Duration,
}

impl<'a> Before<'_, 'a> {
    /// The newest first.
    fn reads(&self) -> impl Iterator<Item = &'a CallRecord> {
        let all = self.calls.iter().rev().copied();
        all.filter(|read| {
            read.point.process == self.by
                && read.begun <= self.sent
                && self.sent <= read.begun + FRESH
        })
    }

    fn evidence(
        &self,
        request: &Value,
        policy_uid: &str,
        anybody: bool,
    ) -> Result<Evidence, String> {
        let pod = text(request, "/spec/context/objectRef/name");
        let uid = text(request, "/spec/context/objectRef/uid");
        let read = self.last_read("pods", APPS, Some(pod), |it| {
            text(it, "/metadata/name") == pod
        });
        match read {
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
            Some(_) => {}
        }
        let name = text(request, "/spec/connectorRef/name");
        let connector = self.last_read("connectors", TOOLS, Some(name), |it| {
            text(it, "/metadata/name") == name
        });
        let Some(connector) = connector else {
            return Err("the connector was not read live".to_owned());
        };
        let policy = self.last_read("accesspolicies", TOOLS, None, |it| {
            text(it, "/metadata/uid") == policy_uid
        });
        let Some(policy) = policy else {
            return Err("the policy was not read live".to_owned());
        };
        let account = text(request, "/spec/subject/name");
        let asked = Asked {
            request,
            connector,
            account: self.last_read("serviceaccounts", APPS, Some(account), |it| {
                text(it, "/metadata/name") == account
            }),
            anybody,
        };
        if let Some(problem) = asked.problem(policy) {
            return Err(problem.to_owned());
        }
        let mut evidence = truth::passes(policy, pod, |check| {
            self.last_list(&truth::plural(check), &truth::selector(check, pod))
        })?;
        text(connector, "/metadata/uid").clone_into(&mut evidence.connector);
        Ok(evidence)
    }

    /// An object, as the last read had it that could have had it. One that did not find it found that it is gone.
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
        let read = self.reads().find(could)?;
        let answer = read.answer.as_deref()?;
        if read.point.verb == Verb::List {
            list(answer, "/items").iter().find(|it| is_it(it))
        } else {
            is_it(answer).then_some(answer)
        }
    }

    /// The objects of the last list of the pod's namespace by these labels.
    fn last_list(&self, resource: &str, selector: &str) -> Option<Vec<&'a Value>> {
        let read = self.reads().find(|it| {
            it.point.resource == resource
                && it.point.namespace == APPS
                && it.point.verb == Verb::List
                && it
                    .query
                    .get("labelSelector")
                    .is_some_and(|it| it == selector)
        })?;
        Some(list(read.answer.as_deref()?, "/items").iter().collect())
    }
}
