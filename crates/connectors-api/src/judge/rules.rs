//! The rules that are granted once the checks pass: they name connectors, and the asking pod.

use serde_json::json;
use thiserror::Error;

use super::RulesReason;
use crate::access_policy::{GrantedPermissions, RoleRule};
use crate::access_request::GrantedRule;
use crate::names::GROUP;
use crate::template::{RenderResourceError, ResourceTemplate, ResourceTemplateError, TemplateData};
use crate::{AccessResource, Permission};

/// One rule of the Role to be written. The policy cannot choose its API group and its resource name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RenderedRule {
    /// Verbs, as in the policy.
    pub verbs: Vec<String>,
    /// Each is about the asking pod.
    pub resources: Vec<AccessResource>,
}

/// The reason why nothing can be granted.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NoRules {
    /// There is no rule.
    #[error("permissions: the role template has no rule")]
    Empty,
    /// Another group.
    #[error("permissions: apiGroups must be exactly [{GROUP}]")]
    ApiGroup,
    /// A rule without resources.
    #[error("permissions: a rule names no resource")]
    NoResource,
    /// A rule without verbs, or with an invalid one.
    #[error("permissions: a rule names no verb")]
    NoVerb,
    /// Another permission.
    #[error("permissions: {resource} is not about the policy's permission {permission}")]
    Permission {
        /// The resource of the rule.
        resource: AccessResource,
        /// The permission of the policy.
        permission: Permission,
    },
    /// A resource that cannot be granted.
    #[error("permissions: {0}")]
    Template(#[from] ResourceTemplateError),
    /// A resource that is not about this pod.
    #[error("permissions: {0}")]
    Resource(#[from] RenderResourceError),
}

impl NoRules {
    /// The reason as one word.
    #[must_use]
    pub const fn reason(&self) -> RulesReason {
        match self {
            Self::Empty => RulesReason::NoRules,
            Self::ApiGroup => RulesReason::WrongApiGroup,
            Self::NoVerb => RulesReason::NoVerbs,
            Self::Permission { .. } => RulesReason::WrongPermission,
            Self::NoResource | Self::Template(_) | Self::Resource(_) => RulesReason::WrongResource,
        }
    }
}

impl From<RenderedRule> for GrantedRule {
    fn from(RenderedRule { verbs, resources }: RenderedRule) -> Self {
        let resources = resources.iter().map(ToString::to_string).collect();
        Self { resources, verbs }
    }
}

/// The rules of a policy, independent of the asking pod.
#[derive(Debug)]
pub(crate) struct RuleTemplates(Vec<Result<RuleTemplate, NoRules>>);

#[derive(Debug)]
struct RuleTemplate {
    verbs: Vec<String>,
    resources: Vec<Result<ResourceTemplate, ResourceTemplateError>>,
}

impl RuleTemplates {
    pub(crate) fn of(permissions: GrantedPermissions) -> Self {
        let rules = permissions.role_template.rules;
        Self(rules.into_iter().map(read).collect())
    }

    /// The rules for a pod as a status has them, if there are any. They depend on no check object.
    pub(crate) fn of_pod(
        &self,
        permission: Permission,
        namespace: &str,
        name: &str,
    ) -> Option<Vec<GrantedRule>> {
        let pod = json!({"metadata": {"namespace": namespace, "name": name}});
        let rules = self.render(permission, &TemplateData::of(pod)).ok()?;
        Some(rules.into_iter().map(GrantedRule::from).collect())
    }

    /// One rule that cannot be granted discards all: a partial Role would look like a complete one.
    pub(super) fn render(
        &self,
        permission: Permission,
        data: &TemplateData,
    ) -> Result<Vec<RenderedRule>, NoRules> {
        let Self(rules) = self;
        if rules.is_empty() {
            return Err(NoRules::Empty);
        }
        let render = |rule: &Result<RuleTemplate, NoRules>| match rule {
            Ok(rule) => rule.render(permission, data),
            Err(problem) => Err(problem.clone()),
        };
        rules.iter().map(render).collect()
    }
}

fn read(rule: RoleRule) -> Result<RuleTemplate, NoRules> {
    let RoleRule {
        api_groups,
        resources,
        verbs,
    } = rule;
    if api_groups != [GROUP] {
        return Err(NoRules::ApiGroup);
    }
    if resources.is_empty() {
        return Err(NoRules::NoResource);
    }
    if verbs.is_empty() || verbs.iter().any(String::is_empty) {
        return Err(NoRules::NoVerb);
    }
    let parse = |text: &String| ResourceTemplate::parse(text);
    Ok(RuleTemplate {
        verbs,
        resources: resources.iter().map(parse).collect(),
    })
}

impl RuleTemplate {
    fn render(&self, permission: Permission, data: &TemplateData) -> Result<RenderedRule, NoRules> {
        let render = |template: &Result<ResourceTemplate, ResourceTemplateError>| {
            let resource = template.as_ref().map_err(Clone::clone)?.render(data)?;
            if resource.permission == permission {
                Ok(resource)
            } else {
                Err(NoRules::Permission {
                    resource,
                    permission,
                })
            }
        };
        Ok(RenderedRule {
            verbs: self.verbs.clone(),
            resources: self
                .resources
                .iter()
                .map(render)
                .collect::<Result<_, _>>()?,
        })
    }
}
