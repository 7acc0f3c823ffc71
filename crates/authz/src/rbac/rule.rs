//! One rule of a role, and what it allows.

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::rules::{NonResourceRule, ResourceRule};
use crate::{ResourceRequest, Target};

/// Stands for everything in verbs and API groups.
const ALL: &str = "*";

/// Above this many pairs of resource and name a rule is indexed by its resources alone, so that one
/// object cannot fill the index with the product of two lists.
const MOST_PAIRS: usize = 64;

type Words = Box<[Box<str>]>;

/// A policy rule, in the least space. An empty list matches nothing, but no names are all names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    verbs: Words,
    groups: Words,
    resources: Words,
    names: Words,
    urls: Words,
}

impl From<PolicyRule> for Rule {
    fn from(rule: PolicyRule) -> Self {
        let PolicyRule {
            api_groups,
            non_resource_urls,
            resource_names,
            resources,
            verbs,
        } = rule;
        Self {
            verbs: words(Some(verbs)),
            groups: words(api_groups),
            resources: words(resources),
            names: words(resource_names),
            urls: words(non_resource_urls),
        }
    }
}

impl Rule {
    /// True when this rule alone allows the verb on the target.
    pub(super) fn allows(&self, verb: &str, target: Target<'_>) -> bool {
        match target {
            Target::Resource(request) => {
                self.covers_resource(&request) && self.allows_covered(verb, target)
            }
            Target::Path(_) => self.allows_covered(verb, target),
        }
    }

    /// [`Rule::allows`] for a rule that is known to cover the resource, as the index finds only those.
    pub(super) fn allows_covered(&self, verb: &str, target: Target<'_>) -> bool {
        let verb = has_or_all(&self.verbs, verb);
        match target {
            Target::Resource(request) => {
                verb && has_or_all(&self.groups, request.group)
                    && (self.names.is_empty() || has(&self.names, request.name))
            }
            Target::Path(path) => verb && self.urls.iter().any(|url| matches_path(url, path)),
        }
    }

    fn covers_resource(&self, request: &ResourceRequest<'_>) -> bool {
        self.resources
            .iter()
            .any(|resource| request.is_covered_by(resource))
    }

    /// True when the rule speaks of paths.
    pub(super) fn has_urls(&self) -> bool {
        !self.urls.is_empty()
    }

    /// Under what the rule is found: each resource, with each name if it has names. A pair without a
    /// name is found by every request for that resource.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let pairs = self.resources.len().saturating_mul(self.names.len());
        let names = if pairs <= MOST_PAIRS {
            &*self.names
        } else {
            &[]
        };
        self.resources.iter().flat_map(move |resource| {
            let all_names = names.is_empty().then_some(None);
            let each_name = names.iter().map(|name| Some(&**name));
            all_names
                .into_iter()
                .chain(each_name)
                .map(move |name| (&**resource, name))
        })
    }

    /// The part about objects of the API, if there is one.
    pub(super) fn resource_rule(&self) -> Option<ResourceRule> {
        (!self.resources.is_empty()).then(|| ResourceRule {
            verbs: strings(&self.verbs),
            api_groups: strings(&self.groups),
            resources: strings(&self.resources),
            resource_names: strings(&self.names),
        })
    }

    /// The part about paths, if there is one.
    pub(super) fn non_resource_rule(&self) -> Option<NonResourceRule> {
        self.has_urls().then(|| NonResourceRule {
            verbs: strings(&self.verbs),
            urls: strings(&self.urls),
        })
    }
}

/// Every `*` at the end of a rule's path is dropped before the prefix is compared, as Kubernetes does.
fn matches_path(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

fn has(words: &Words, wanted: &str) -> bool {
    words.iter().any(|word| **word == *wanted)
}

fn has_or_all(words: &Words, wanted: &str) -> bool {
    words.iter().any(|word| **word == *ALL || **word == *wanted)
}

fn words(list: Option<Vec<String>>) -> Words {
    let list = list.unwrap_or_default();
    list.into_iter().map(String::into_boxed_str).collect()
}

fn strings(words: &Words) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}
