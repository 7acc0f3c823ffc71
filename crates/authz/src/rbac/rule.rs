//! One rule of a role, and the decision whether it allows an access.

use std::sync::Arc;

use k8s_openapi::api::rbac::v1::PolicyRule;

use crate::pieces::{self, Pieces};
use crate::pool::TextPool;
use crate::rules::{NonResourceRule, ResourceRule};
use crate::{ResourceRequest, Target};

/// Stands for everything in verbs and API groups.
const ALL: &str = "*";

/// A rule with more pairs of resource and name than this is indexed by its resources alone, so that one
/// object cannot fill the index with the product of two lists.
const MOST_PAIRS: usize = 64;

/// A policy rule in compact form. An empty list matches nothing, except that an empty list of names matches
/// all names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Rule {
    shape: Arc<Shape>,
    resources: Pieces,
}

/// All of a rule but its resources. All grants of a connector share one.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    verbs: Vec<String>,
    groups: Vec<String>,
    names: Vec<String>,
    urls: Vec<String>,
}

/// The same, borrowed from a rule.
#[derive(Hash)]
struct ShapeOf<'a> {
    verbs: &'a [String],
    groups: &'a [String],
    names: &'a [String],
    urls: &'a [String],
}

impl PartialEq<Shape> for ShapeOf<'_> {
    fn eq(&self, other: &Shape) -> bool {
        let Shape {
            verbs,
            groups,
            names,
            urls,
        } = other;
        self.verbs == verbs && self.groups == groups && self.names == names && self.urls == urls
    }
}

impl From<ShapeOf<'_>> for Shape {
    fn from(shape: ShapeOf<'_>) -> Self {
        let ShapeOf {
            verbs,
            groups,
            names,
            urls,
        } = shape;
        Self {
            verbs: verbs.to_vec(),
            groups: groups.to_vec(),
            names: names.to_vec(),
            urls: urls.to_vec(),
        }
    }
}

impl Rule {
    pub(super) fn new(rule: &PolicyRule, shapes: &mut TextPool<Shape>) -> Self {
        let PolicyRule {
            api_groups,
            non_resource_urls,
            resource_names,
            resources,
            verbs,
        } = rule;
        let shape = ShapeOf {
            verbs,
            groups: api_groups.as_deref().unwrap_or_default(),
            names: resource_names.as_deref().unwrap_or_default(),
            urls: non_resource_urls.as_deref().unwrap_or_default(),
        };
        Self {
            shape: shapes.share(shape, Shape::from),
            resources: Pieces::from(resources.as_deref().unwrap_or_default()),
        }
    }

    pub(super) fn give_back(self, shapes: &mut TextPool<Shape>) {
        shapes.give_back(self.shape);
    }

    /// True when this rule alone allows the verb on the target.
    pub(super) fn allows(&self, verb: &str, target: Target<'_>) -> bool {
        match target {
            Target::Resource(request) => {
                self.covers_resource(&request) && self.allows_covered(verb, target)
            }
            Target::Path(_) => self.allows_covered(verb, target),
        }
    }

    /// [`Rule::allows`] for a rule that is known to cover the resource, because the index finds no others.
    pub(super) fn allows_covered(&self, verb: &str, target: Target<'_>) -> bool {
        let Shape {
            verbs,
            groups,
            names,
            urls,
        } = &*self.shape;
        let verb = has_or_all(verbs, verb);
        match target {
            Target::Resource(request) => {
                let name = names.is_empty() || has(names, request.name);
                verb && name && has_or_all(groups, request.group)
            }
            Target::Path(path) => verb && urls.iter().any(|url| matches_path(url, path)),
        }
    }

    fn covers_resource(&self, request: &ResourceRequest<'_>) -> bool {
        self.resources
            .iter()
            .any(|resource| request.is_covered_by(resource))
    }

    /// True when the rule is about objects of an API group.
    pub(super) fn is_about_group(&self, group: &str) -> bool {
        has_or_all(&self.shape.groups, group)
    }

    /// True when the rule is about paths.
    pub(super) fn has_urls(&self) -> bool {
        !self.shape.urls.is_empty()
    }

    /// The keys of the rule in the index: each resource, with each name if it has names. A pair without a
    /// name is found by every request for that resource.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (&str, Option<&str>)> {
        let names = self.indexed_names();
        self.resources.iter().flat_map(move |resource| {
            let all_names = names.is_empty().then_some(None);
            let each_name = names.iter().map(|name| Some(name.as_str()));
            let names = all_names.into_iter().chain(each_name);
            names.map(move |name| (resource, name))
        })
    }

    /// The pair at a place among [`Rule::pairs`].
    pub(super) fn pair(&self, at: u32) -> Option<(&str, Option<&str>)> {
        let (at, names) = (at as usize, self.indexed_names());
        let each = names.len().max(1);
        let mut resources: pieces::Iter<'_> = self.resources.iter();
        let resource = resources.nth(at / each)?;
        Some((resource, names.get(at % each).map(String::as_str)))
    }

    fn indexed_names(&self) -> &[String] {
        let names = &self.shape.names;
        if names.is_empty() || self.resources.iter().count() * names.len() > MOST_PAIRS {
            &[]
        } else {
            names
        }
    }

    /// The part about objects of the API, if there is one.
    pub(super) fn resource_rule(&self) -> Option<ResourceRule> {
        (!self.resources.is_empty()).then(|| ResourceRule {
            verbs: self.shape.verbs.clone(),
            api_groups: self.shape.groups.clone(),
            resources: self.resources.iter().map(str::to_owned).collect(),
            resource_names: self.shape.names.clone(),
        })
    }

    /// The part about paths, if there is one.
    pub(super) fn non_resource_rule(&self) -> Option<NonResourceRule> {
        self.has_urls().then(|| NonResourceRule {
            verbs: self.shape.verbs.clone(),
            urls: self.shape.urls.clone(),
        })
    }
}

/// Every `*` at the end of a rule's path is dropped before the prefix is compared, as Kubernetes does.
fn matches_path(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

fn has(words: &[String], wanted: &str) -> bool {
    words.iter().any(|word| *word == *wanted)
}

fn has_or_all(words: &[String], wanted: &str) -> bool {
    words.iter().any(|word| *word == *ALL || *word == *wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(rule: PolicyRule) -> Rule {
        let verbs = vec!["get".to_owned()];
        Rule::new(&PolicyRule { verbs, ..rule }, &mut TextPool::default())
    }

    fn words(words: &[&str]) -> Vec<String> {
        words.iter().map(|word| (*word).to_owned()).collect()
    }

    #[test]
    fn a_rule_that_names_objects_is_about_no_others() {
        let of = |names: &[&str]| {
            rule(PolicyRule {
                api_groups: Some(words(&[""])),
                resources: Some(words(&["pods"])),
                resource_names: Some(words(names)),
                ..PolicyRule::default()
            })
        };
        for (names, allowed) in [
            (&[][..], [true, true, true]),
            (&["a"], [true, false, false]),
            (&["a", "b"], [true, true, false]),
            // In names, it stands for nothing but itself.
            (&["*"], [false, false, false]),
        ] {
            let rule = of(names);
            let allows = ["a", "b", ""].map(|name| {
                let request = ResourceRequest {
                    resource: "pods",
                    name,
                    ..ResourceRequest::default()
                };
                rule.allows("get", Target::Resource(request))
            });
            assert_eq!(allows, allowed, "{names:?}");
        }
    }

    /// Asks the rule itself, without the index that finds it by its resources.
    #[test]
    fn a_rule_covers_its_resources_whole_or_by_their_subresource() {
        for (resources, resource, subresource, covered) in [
            (&["pods"][..], "pods", "", true),
            (&["services", "pods"], "pods", "", true),
            (&["pods"], "services", "", false),
            (&["pods"], "pods", "log", false),
            (&["pods/log"], "pods", "log", true),
            (&["pods/log"], "pods/log", "", true),
            (&["pods/log"], "pods", "exec", false),
            (&["pods/log"], "pods", "", false),
            (&["*/log"], "pods", "log", true),
            (&["*/log"], "pods", "exec", false),
            (&["*"], "pods", "log", true),
            (&[], "pods", "", false),
        ] {
            let rule = rule(PolicyRule {
                api_groups: Some(words(&[""])),
                resources: Some(words(resources)),
                ..PolicyRule::default()
            });
            let request = ResourceRequest {
                resource,
                subresource,
                ..ResourceRequest::default()
            };
            let allows = rule.allows("get", Target::Resource(request));
            assert_eq!(allows, covered, "{resources:?} {resource} {subresource}");
        }
    }

    #[test]
    fn rules_share_all_but_their_resources_if_all_of_it_is_the_same() {
        let base = PolicyRule {
            verbs: words(&["get"]),
            api_groups: Some(words(&["g"])),
            resources: Some(words(&["pods"])),
            resource_names: Some(words(&["n"])),
            non_resource_urls: Some(words(&["/u"])),
        };
        let mut others = [(); 5].map(|()| base.clone());
        let [resources, verbs, groups, names, urls] = &mut others;
        resources.resources = Some(words(&["other"]));
        verbs.verbs = words(&["other"]);
        groups.api_groups = Some(words(&["other"]));
        names.resource_names = Some(words(&["other"]));
        urls.non_resource_urls = Some(words(&["other"]));

        let mut shapes = TextPool::default();
        let first = Rule::new(&base, &mut shapes);
        let shared = others.map(|other| {
            let other = Rule::new(&other, &mut shapes);
            Arc::ptr_eq(&first.shape, &other.shape)
        });
        assert_eq!(shared, [true, false, false, false, false]);
    }

    #[test]
    fn a_rule_is_listed_for_what_it_is_about() {
        for (resources, urls) in [
            (&[][..], &[][..]),
            (&["pods"], &[]),
            (&[], &["/healthz"]),
            (&["pods"], &["/healthz"]),
        ] {
            let rule = rule(PolicyRule {
                resources: Some(words(resources)),
                non_resource_urls: Some(words(urls)),
                ..PolicyRule::default()
            });
            let resource = rule.resource_rule().map(|it| it.resources);
            let path = rule.non_resource_rule().map(|it| it.urls);
            assert_eq!(resource.unwrap_or_default(), resources);
            assert_eq!(path.is_some(), !urls.is_empty(), "{urls:?}");
            assert_eq!(path.unwrap_or_default(), urls);
        }
    }
}
