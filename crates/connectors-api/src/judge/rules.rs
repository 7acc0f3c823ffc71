//! What is granted once the checks pass: rules that name connectors, and the pod that asked.

use thiserror::Error;

use super::RulesReason;
use crate::access_policy::{GrantedPermissions, RoleRule};
use crate::names::GROUP;
use crate::template::{RenderResourceError, ResourceTemplate, ResourceTemplateError, TemplateData};
use crate::{AccessResource, Permission};

/// One rule of the Role that is to be written. Its API group and its resource name are not the policy's
/// to choose.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantedRule {
    /// Verbs, as the policy has them.
    pub verbs: Vec<String>,
    /// Each about the pod that asked.
    pub resources: Vec<AccessResource>,
}

/// Why nothing can be granted.
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
    /// A rule without verbs, or with one that is none.
    #[error("permissions: a rule names no verb")]
    NoVerb,
    /// Another permission.
    #[error("permissions: {resource} is not about the policy's permission {permission}")]
    Permission {
        /// What the rule names.
        resource: AccessResource,
        /// What the policy is about.
        permission: Permission,
    },
    /// Not a resource that could be granted.
    #[error("permissions: {0}")]
    Template(#[from] ResourceTemplateError),
    /// Not a resource of this pod.
    #[error("permissions: {0}")]
    Resource(#[from] RenderResourceError),
}

impl NoRules {
    /// The same as one word.
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

/// The rules of a policy, whatever pod asks.
#[derive(Debug)]
pub(super) struct Rules(Vec<Result<RuleTemplate, NoRules>>);

#[derive(Debug)]
struct RuleTemplate {
    verbs: Vec<String>,
    resources: Vec<Result<ResourceTemplate, ResourceTemplateError>>,
}

impl Rules {
    pub(super) fn of(permissions: GrantedPermissions) -> Self {
        let rules = permissions.role_template.rules;
        Self(rules.into_iter().map(read).collect())
    }

    /// One rule that cannot be granted leaves none: half a Role would look like a whole one.
    pub(super) fn render(
        &self,
        permission: Permission,
        data: &TemplateData,
    ) -> Result<Vec<GrantedRule>, NoRules> {
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
    fn render(&self, permission: Permission, data: &TemplateData) -> Result<GrantedRule, NoRules> {
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
        Ok(GrantedRule {
            verbs: self.verbs.clone(),
            resources: self
                .resources
                .iter()
                .map(render)
                .collect::<Result<_, _>>()?,
        })
    }
}
