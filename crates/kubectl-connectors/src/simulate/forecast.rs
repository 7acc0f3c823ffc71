//! The result of one request, before and afterwards. Pure.

use std::collections::BTreeSet;

use connectors_api::AccessRequest;
use connectors_api::AccessResource;
use connectors_api::names::CONNECTORS;
use connectors_api::pod_grant::RequestFacts as _;
use kube::ResourceExt as _;

use super::{ForecastAbout, ForecastWord, RequestForecast};
use crate::explain::report::{PolicyShown, RuleShown};
use crate::explain::under::{AccessUnder, UnderPolicies};
use crate::policy_test::cases::AccessExpected;
use crate::policy_test::compare::{self, MountQuestion};
use crate::terms::NamespacedName;

/// The fate of the grant of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantFate {
    /// It has none.
    None,
    /// It stays as it is.
    Stays,
    /// It ends, or a part of it does.
    Ends,
}

/// The forecast of a request; none if nothing changes for it. The second value is true if it is not known.
pub(super) fn of(
    request: &AccessRequest,
    under: &UnderPolicies,
    grant: GrantFate,
) -> (Option<RequestForecast>, bool) {
    let (before, _) = word(request, under, &under.before);
    let (after, because) = word(request, under, &under.after);
    let is_unknown = before == ForecastWord::Unknown || after == ForecastWord::Unknown;
    let rules = |word, of: &AccessUnder| {
        if word == ForecastWord::Granted {
            of.rules()
        } else {
            Vec::new()
        }
    };
    let (rules_before, rules_after) = (rules(before, &under.before), rules(after, &under.after));
    // A standing permission leaves nothing to other policies.
    let differences = match (before, after) {
        (ForecastWord::Standing, ForecastWord::Standing) => Vec::new(),
        (_, _) => under.differences(),
    };
    let has_same_result = before == after && rules_before == rules_after;
    if has_same_result && differences.is_empty() {
        return (None, is_unknown);
    }
    let because = if has_same_result && (under.is_replaced || !under.has_connector) {
        format!("{because}; {}", differences.join("; "))
    } else if has_same_result {
        differences.join("; ")
    } else {
        because
    };
    let spec = &request.spec;
    let object = &spec.context.object_ref;
    let phase = request.phase();
    let because = match grant {
        GrantFate::None => because,
        GrantFate::Stays => {
            format!("it keeps its grant, which is frozen; a new request of the pod: {because}")
        }
        GrantFate::Ends => format!("a new request of the pod: {because}"),
    };
    let forecast = RequestForecast {
        request: request.name_any(),
        pod: NamespacedName::new(&object.namespace, &object.name),
        account: NamespacedName::new(spec.subject_namespace(), &spec.subject.name),
        connector: under.connector().clone(),
        permission: spec.permission,
        about: match grant {
            GrantFate::None => ForecastAbout::Request,
            GrantFate::Stays | GrantFate::Ends => ForecastAbout::NewRequest,
        },
        phase,
        before,
        after,
        because,
        rules_before,
        rules_after,
    };
    (Some(forecast), is_unknown)
}

/// The forecast of a granted request. An edit leaves its grant as it is; the deletion of a policy ends its grant, and a
/// further policy adds to the access. None if neither is so. The second value is true if it is not known.
pub(super) fn of_granted(
    request: &AccessRequest,
    under: &UnderPolicies,
) -> (Option<RequestForecast>, bool) {
    let is_settled = !under.has_connector || under.is_replaced;
    let (more, ending) = (under.newly_passing(), &under.ending);
    let is_unsure =
        !more.is_empty() && under.unknown_switch.is_some() || under.after.unknown_default.is_some();
    let is_unknown = !is_settled && (is_unsure || under.after.is_doubtful());
    if more.is_empty() && ending.is_empty() {
        return (None, is_unknown);
    }
    let more_names = names(more.iter().copied());
    let is_over = more.is_empty() && !under.keeps_a_grant();
    let ends = format!("its grant by policy {} ends", names(ending));
    let because = match (ending.is_empty(), more.is_empty()) {
        (true, _) => format!(
            "it keeps its grant, and with the next sweep of the request-controller gets more by policy {more_names}"
        ),
        (false, false) => format!("{ends}, and it gets access by policy {more_names}"),
        (false, true) if is_over => format!("{ends}, and the request is revoked for good"),
        (false, true) => format!("{ends}, and it keeps its other grants"),
    };
    let spec = &request.spec;
    let object = &spec.context.object_ref;
    let forecast = RequestForecast {
        request: request.name_any(),
        pod: NamespacedName::new(&object.namespace, &object.name),
        account: NamespacedName::new(spec.subject_namespace(), &spec.subject.name),
        connector: under.connector().clone(),
        permission: spec.permission,
        about: ForecastAbout::Grant,
        phase: request.phase(),
        before: ForecastWord::Granted,
        after: if is_over {
            ForecastWord::Refused
        } else {
            ForecastWord::Granted
        },
        because,
        rules_before: rules(ending),
        rules_after: rules(more),
    };
    (Some(forecast), is_unknown)
}

fn rules<'a>(policies: impl IntoIterator<Item = &'a PolicyShown>) -> Vec<RuleShown> {
    let rules = policies.into_iter().flat_map(|it| &it.rules);
    let mut rules: Vec<_> = rules.cloned().collect();
    rules.sort();
    rules
}

fn names<'a>(policies: impl IntoIterator<Item = &'a PolicyShown>) -> String {
    let names = policies.into_iter().map(|it| it.name.as_str());
    names.collect::<Vec<_>>().join(", ")
}

/// The result as a word, by the rule of `policy test`, and why.
fn word(
    request: &AccessRequest,
    both: &UnderPolicies,
    under: &AccessUnder,
) -> (ForecastWord, String) {
    let spec = &request.spec;
    let object = &spec.context.object_ref;
    let of_pod =
        AccessResource::subresource_of_pod(spec.permission, &object.namespace, &object.name);
    let forms = [spec.permission.as_str(), of_pod.as_str()].map(|it| format!("{CONNECTORS}/{it}"));
    let [standing_form, _] = &forms;
    let standing: BTreeSet<String> = under
        .standing
        .iter()
        .filter(|(_, rules)| {
            rules.iter().any(|rule| {
                let verbs = rule.verbs.iter().map(String::as_str);
                let resources = rule.resources.iter().map(String::as_str);
                compare::covers_mount(verbs, resources, std::slice::from_ref(standing_form))
            })
        })
        .map(|(name, _)| name.clone())
        .collect();
    let mount = MountQuestion {
        has_connector: both.has_connector,
        forms,
        standing,
    };
    let (access, because) = compare::access_of(&under.shown.policies, &mount);
    if both.is_replaced && access != AccessExpected::Standing {
        return (ForecastWord::Waits, under.shown.because.clone());
    }
    if let (AccessExpected::Granted, Some(barred)) = (access, &both.barred) {
        return (ForecastWord::Waits, barred.clone());
    }
    let unknown = match access {
        _ if !both.has_connector => None,
        AccessExpected::Standing => None,
        AccessExpected::Granted => under
            .unknown_default
            .as_ref()
            .or(both.unknown_switch.as_ref()),
        AccessExpected::Waits | AccessExpected::Refused | AccessExpected::NoPolicy => {
            under.unknown_default.as_ref()
        }
    };
    if let Some(unknown) = unknown {
        return (ForecastWord::Unknown, unknown.message.clone());
    }
    let word = match access {
        AccessExpected::Standing => ForecastWord::Standing,
        AccessExpected::Granted => ForecastWord::Granted,
        AccessExpected::Waits | AccessExpected::Refused if under.is_doubtful() => {
            ForecastWord::Unknown
        }
        AccessExpected::Waits => ForecastWord::Waits,
        AccessExpected::Refused => ForecastWord::Refused,
        AccessExpected::NoPolicy => ForecastWord::NoPolicy,
    };
    let because = match word {
        ForecastWord::Granted => "every check of a policy passes".to_owned(),
        ForecastWord::Standing => "a standing permission covers the account".to_owned(),
        ForecastWord::Waits
        | ForecastWord::Refused
        | ForecastWord::NoPolicy
        | ForecastWord::Unknown => because.unwrap_or_else(|| under.shown.because.clone()),
    };
    (word, because)
}
