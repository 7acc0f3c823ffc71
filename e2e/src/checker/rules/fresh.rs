//! I1: every grant relies on reads just before.

use jiff::SignedDuration;
use serde_json::Value;

use super::{Case, Judgement, between};
use crate::checker::{
    facts::{Mark, Place, Read, Request, StatusWrite, list, text},
    grant::{Grant, Kind},
    report::Rule,
    wire,
};

/// The maximum age of reads when a grant is written.
const FRESH: SignedDuration = SignedDuration::from_secs(5);

pub(super) fn judge(case: &Case<'_>, judgement: &mut Judgement) {
    for grant in case.grants() {
        let mut say =
            |what: String, shown_by: &[_]| judgement.against(Rule::Fresh, grant, what, shown_by);
        if !case.settings.controllers.contains(&grant.user) {
            say(
                format!("written by {}, who decides nothing", grant.user),
                &[],
            );
            continue;
        }
        let Some(request) = case.request(grant) else {
            say("its request was not seen".to_owned(), &[]);
            continue;
        };
        if is_prepared(case, grant, request) {
            continue;
        }
        if binds_another_role(case, grant, request) {
            say("its Role has other rules than were decided".to_owned(), &[]);
        }
        let tuple = &request.tuple;
        let connectors = place(wire::GROUP, "connectors", &tuple.namespace);
        let policies = place(wire::GROUP, "accesspolicies", &tuple.namespace);

        match last_read(case, grant, |read| {
            by_name(read, "", "pods", &tuple.pod_namespace, &tuple.pod)
        }) {
            None => say(
                format!(
                    "pod {}/{} was not read before",
                    tuple.pod_namespace, tuple.pod
                ),
                &[],
            ),
            Some(read) => {
                let ended = case
                    .facts
                    .pod_ended(&tuple.pod_namespace, &tuple.pod, &request.seen);
                if let Some(mark) = ended.filter(|mark| mark.done < read.mark.begun) {
                    say(
                        "its pod was gone or replaced when it was read".to_owned(),
                        &[&read.mark, mark],
                    );
                }
                let deleted = request.deleted.as_ref();
                if let Some(mark) = deleted.filter(|mark| mark.done < read.mark.begun) {
                    say(
                        "its request was deleted when its pod was read".to_owned(),
                        &[&read.mark, mark],
                    );
                }
            }
        }
        match last_read(case, grant, |read| {
            finds(read, &connectors, &tuple.connector)
        }) {
            None => say(
                format!("connector {} was not read before", tuple.connector),
                &[],
            ),
            Some(read) => {
                if let Some(mark) = case
                    .facts
                    .gone(&connectors, &tuple.connector, read.mark.begun)
                {
                    say(
                        "its connector was gone when it was read".to_owned(),
                        &[&read.mark, mark],
                    );
                }
            }
        }
        let Some((entry, shown_by)) = evidence(case, grant, request) else {
            say(
                "no status with its evidence was written before".to_owned(),
                &[],
            );
            continue;
        };
        let policy = text(entry, "/policy/metadata/name");
        match last_read(case, grant, |read| finds(read, &policies, policy)) {
            None => say(format!("policy {policy} was not read before"), &[shown_by]),
            Some(read) => {
                if let Some(mark) = case.facts.gone(&policies, policy, read.mark.begun) {
                    say(
                        "its policy was gone when it was read".to_owned(),
                        &[&read.mark, mark],
                    );
                }
            }
        }
        for what in checks(case, grant, request, entry) {
            say(what, &[shown_by]);
        }
    }
}

/// True for a Role that was written while its approval was awaited, as a status before it says. It gives nothing before its
/// `RoleBinding`, which is judged.
fn is_prepared(case: &Case<'_>, grant: &Grant, request: &Request) -> bool {
    let entry = last_status(case, grant, request).and_then(|it| it.policy(grant.policy_uid()));
    let said = |it: &Value| has_rules(grant, list(it, "/preparedRules"));
    grant.kind == Kind::Role && entry.is_some_and(|it| it["grant"].is_null() && said(it))
}

/// True for a `RoleBinding` to a Role that was written in advance, and has other rules than the status before says.
fn binds_another_role(case: &Case<'_>, grant: &Grant, request: &Request) -> bool {
    let Some(entry) =
        last_status(case, grant, request).and_then(|it| it.policy(grant.policy_uid()))
    else {
        return false;
    };
    let is_gone = |it: &Grant| {
        let gone = it.gone.as_ref();
        gone.is_some_and(|gone| gone.done <= grant.mark.begun)
    };
    let mut roles = case.grants().filter(|it| {
        (&it.namespace, &it.name) == (&grant.namespace, &grant.name)
            && it.mark.begun <= grant.mark.begun
            && is_prepared(case, it, request)
            && !is_gone(it)
    });
    let decided = list(entry, "/grant/rules");
    grant.kind == Kind::RoleBinding && roles.any(|role| !has_rules(role, decided))
}

/// True when a Role has the resources and verbs of these rules, in their order.
fn has_rules(role: &Grant, rules: &[Value]) -> bool {
    let own = list(&role.object, "/rules");
    let same = |(own, said): (&Value, &Value)| {
        own["resources"] == said["resources"] && own["verbs"] == said["verbs"]
    };
    !rules.is_empty() && own.len() == rules.len() && own.iter().zip(rules).all(same)
}

/// The grant's policy in the last status that a controller wrote before, and that write.
fn evidence<'a>(
    case: &Case<'a>,
    grant: &Grant,
    request: &'a Request,
) -> Option<(&'a Value, &'a Mark)> {
    let last = last_status(case, grant, request)?;
    if text(&last.status, "/evidence").is_empty() {
        return None;
    }
    Some((last.policy(grant.policy_uid())?, &last.mark))
}

fn last_status<'a>(
    case: &Case<'a>,
    grant: &Grant,
    request: &'a Request,
) -> Option<&'a StatusWrite> {
    let mut writes = request.statuses.iter().filter(|write| {
        write.mark.begun < grant.mark.begun && case.settings.controllers.contains(&write.user)
    });
    writes.next_back()
}

/// The faults of a policy's checks.
fn checks(case: &Case<'_>, grant: &Grant, request: &Request, entry: &Value) -> Vec<String> {
    const CHECKS: &str = "/checkGrantedPermission/spec/checks";
    let recorded = entry.pointer("/policy/spec").unwrap_or(&Value::Null);
    let seen = case.facts.policies.get(grant.policy_uid());
    let seen = seen
        .and_then(|policy| policy.specs.last())
        .unwrap_or(&Value::Null);
    let checks = [recorded, seen].map(|spec| list(spec, CHECKS));
    let Some(checks) = checks.into_iter().find(|checks| !checks.is_empty()) else {
        return vec!["its policy has no checks".to_owned()];
    };
    checks
        .iter()
        .flat_map(|check| one_check(case, grant, request, entry, check))
        .collect()
}

fn one_check(
    case: &Case<'_>,
    grant: &Grant,
    request: &Request,
    entry: &Value,
    check: &Value,
) -> Vec<String> {
    let namespace = &request.tuple.pod_namespace;
    let name = text(check, "/name");
    let refs = list(entry, "/checkRefs").iter();
    let refs: Vec<&Value> = refs
        .filter(|one| text(one, "/name") == name && one.get("ref").is_some())
        .collect();
    let passes = |one: &&&Value| wire::PASSING.contains(&text(one, "/status/state"));
    let passing: Vec<&&Value> = refs.iter().filter(passes).collect();
    let any = text(check, "/match") == "Any";
    let mut wrong = Vec::new();
    if passing.is_empty() || (!any && passing.len() < refs.len()) {
        wrong.push(format!("check {name} had not passed in its evidence"));
    }
    let elsewhere = |one: &&&Value| !["", namespace].contains(&text(one, "/ref/namespace"));
    if refs.iter().any(|one| elsewhere(&one)) {
        wrong.push(format!(
            "check {name} was decided by an object of another namespace"
        ));
    }
    let kind = text(check, "/selector/objectRef/kind");
    let (group, _) = text(check, "/selector/objectRef/apiVersion")
        .split_once('/')
        .unwrap_or_default();
    let found = last_read(case, grant, |read| {
        read.verb == "list"
            && read.group == group
            && wire::is_plural(&read.resource, kind)
            && read.namespace == *namespace
    });
    let Some(read) = found else {
        wrong.push(format!(
            "the objects of check {name} ({kind}) were not listed in {namespace} before"
        ));
        return wrong;
    };
    let objects = place(group, &read.resource, namespace);
    let names = passing.iter().map(|one| text(one, "/ref/name"));
    let gone = names.filter(|name| case.facts.gone(&objects, name, read.mark.begun).is_some());
    wrong.extend(
        gone.map(|object| {
            format!("{kind} {object} of check {name} was gone when they were listed")
        }),
    );
    wrong
}

fn place(group: &str, resource: &str, namespace: &str) -> Place {
    (group.to_owned(), resource.to_owned(), namespace.to_owned())
}

/// The last read before a grant that the grant may rest on.
fn last_read<'a>(
    case: &Case<'a>,
    grant: &Grant,
    is_it: impl Fn(&Read) -> bool,
) -> Option<&'a Read> {
    let reads = case.facts.reads.iter().filter(|read| {
        read.live
            && read.process == grant.process
            && read.mark.begun <= grant.mark.begun
            && between(read.mark.begun, grant.mark.begun) <= FRESH
            && is_it(read)
    });
    reads.last()
}

fn by_name(read: &Read, group: &str, resource: &str, namespace: &str, name: &str) -> bool {
    let of = (
        read.group.as_str(),
        read.resource.as_str(),
        read.namespace.as_str(),
    );
    read.verb == "get" && of == (group, resource, namespace) && read.name == name
}

/// By its name, or among the others.
fn finds(read: &Read, (group, resource, namespace): &Place, name: &str) -> bool {
    let listed = read.verb == "list"
        && (&read.group, &read.resource, &read.namespace) == (group, resource, namespace);
    listed || by_name(read, group, resource, namespace, name)
}
