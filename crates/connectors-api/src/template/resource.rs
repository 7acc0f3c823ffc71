//! Resources to grant: `connectors/<permission>/<apiVersion>/<kind>/<namespace>/<name>`. The last two may be
//! taken from the context object, and can only be its own.

use serde_json::Value;
use thiserror::Error;

use super::{
    Expression, RenderError, RenderProblem, Template, TemplateData, TemplateError, TemplatePart,
    Warning,
};
use crate::Permission;
use crate::access_resource::{AccessResource, AccessResourceError, POD};
use crate::check_state::kind;

/// A resource as a policy with checks spells it.
#[derive(Clone, Debug)]
pub struct ResourceTemplate {
    /// Each path is replaced by a placeholder.
    shape: AccessResource,
    own_namespace: bool,
    own_name: bool,
    warnings: Vec<Warning>,
}

/// The reason why a resource cannot be granted to any object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ResourceTemplateError {
    /// Not a template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// A path to another field, or in another place.
    #[error(
        "{0}: only {{.object.metadata.namespace}} and {{.object.metadata.name}} may stand here, each alone in its place"
    )]
    Place(String),
    /// Not an access resource.
    #[error(transparent)]
    Resource(#[from] AccessResourceError),
    /// All pods of the account would hold it, without an approval of their own.
    #[error(
        "must end in /{{.object.metadata.namespace}}/{{.object.metadata.name}}: without it, one approval would open every pod of the ServiceAccount"
    )]
    Standing,
}

/// The reason why a resource cannot be granted to this object.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum RenderResourceError {
    /// The object has no namespace or no name.
    #[error(transparent)]
    Render(#[from] RenderError),
    /// The namespace or the name of the object is invalid.
    #[error(transparent)]
    Resource(#[from] AccessResourceError),
    /// The resource is about another object.
    #[error("{0}: names another object than the one that asks")]
    Foreign(AccessResource),
}

/// A name that is valid in every place where a template may have a path.
const PLACEHOLDER: &str = "x";

impl ResourceTemplate {
    /// Parses a resource.
    pub fn parse(text: &str) -> Result<Self, ResourceTemplateError> {
        let template = Template::parse(text)?;
        let mut shape = String::new();
        let mut places = Vec::new();
        let mut behind_path = None;
        for part in &template.parts {
            match part {
                TemplatePart::Text(text) => {
                    if let Some(path) = behind_path.take()
                        && !text.starts_with('/')
                    {
                        return Err(out_of_place(path));
                    }
                    shape.push_str(text);
                }
                TemplatePart::Path(path) => {
                    if !shape.ends_with('/') {
                        return Err(out_of_place(path));
                    }
                    behind_path = Some(path);
                    places.push((slashes(&shape), path));
                    shape.push_str(PLACEHOLDER);
                }
            }
        }
        let last = slashes(&shape);
        let (mut own_namespace, mut own_name) = (false, false);
        for (place, path) in places {
            if place == last && path.path.is_metadata("name") {
                own_name = true;
            } else if place + 1 == last && path.path.is_metadata("namespace") {
                own_namespace = true;
            } else {
                return Err(out_of_place(path));
            }
        }
        let shape: AccessResource = shape.parse()?;
        if shape.context.is_none() {
            return Err(ResourceTemplateError::Standing);
        }
        Ok(Self {
            shape,
            own_namespace,
            own_name,
            warnings: template.warnings(),
        })
    }

    /// The permission of the resource.
    pub(crate) const fn permission(&self) -> Permission {
        self.shape.permission
    }

    /// True when a mount requests resources of this form: those of pods.
    pub(crate) fn is_of_pods(&self) -> bool {
        let context = self.shape.context.as_ref();
        context.is_some_and(|it| (it.api_version.as_str(), it.kind.as_str()) == POD)
    }

    /// True when the resource is always that of the asker.
    pub(crate) const fn is_own(&self) -> bool {
        self.own_namespace && self.own_name
    }

    /// The spellings that should be avoided.
    #[must_use]
    pub fn warnings(&self) -> &[Warning] {
        &self.warnings
    }

    /// The resource for one object. It is about this object, regardless of the template.
    pub fn render(&self, data: &TemplateData) -> Result<AccessResource, RenderResourceError> {
        let (namespace, name) = (own(data, "namespace")?, own(data, "name")?);
        let resource = self.shape.with_object(
            self.own_namespace.then_some(namespace),
            self.own_name.then_some(name),
        )?;
        if resource.is_of(namespace, name) {
            Ok(resource)
        } else {
            Err(RenderResourceError::Foreign(resource))
        }
    }
}

fn out_of_place(path: &Expression) -> ResourceTemplateError {
    ResourceTemplateError::Place(path.written.clone())
}

fn slashes(text: &str) -> usize {
    text.matches('/').count()
}

fn own<'a>(data: &'a TemplateData, field: &str) -> Result<&'a str, RenderError> {
    let problem = match data
        .object()
        .get("metadata")
        .and_then(|metadata| metadata.get(field))
    {
        Some(Value::String(text)) if !text.is_empty() => return Ok(text),
        Some(Value::String(_)) => RenderProblem::Empty,
        Some(other) => RenderProblem::NotText(kind(other)),
        None => RenderProblem::Nothing,
    };
    Err(RenderError {
        path: format!("{{.object.metadata.{field}}}"),
        problem,
    })
}

#[cfg(test)]
mod tests;
