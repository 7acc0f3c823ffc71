//! The whole set: built-in files, then those of the configurations that are asked for.

use std::collections::BTreeMap;

use connectors_api::{ConnectorClass, connector_class::Configuration};
use serde_json::{Map, Value, json};
use text_template::{MissingKey, TemplateLimits, TextTemplate};

use crate::{
    built_in::{self, BUILT_IN, proxy_address, proxy_certificates},
    error::{FileTemplateError, FilesError},
    file_request::FileRequest,
    file_set::FileSet,
    limits::{MOST_BYTES, MOST_STEPS},
    tool::{FileConflict, FileContext, Tool},
};

/// What stands for the token in the errors of templates.
const TOKEN: &str = "(token)";
/// What Go prints for a value that is missing.
const NO_VALUE: &str = "<no value>";
/// Names in a message.
const MOST_NAMES: usize = 10;

/// A class, and the connectors of it.
struct ClassTools<'a> {
    name: &'a str,
    class: &'a ConnectorClass,
    tools: Vec<Tool<'a>>,
}

/// All files of a volume.
pub fn render(
    request: &FileRequest,
    tools: &[Tool<'_>],
    context: &FileContext<'_>,
) -> Result<FileSet, FilesError> {
    let mut files = built_in::files(request, tools, context)?;
    let classes = classes(tools);
    let mut written_by: BTreeMap<&str, &str> = BTreeMap::new();
    for name in &request.configurations {
        let mut found = Vec::new();
        for class in &classes {
            if let Some(configuration) = configuration(class.class, name) {
                found.push((class, configuration));
            }
        }
        if found.is_empty() {
            return Err(no_configuration(name, &classes));
        }
        no_other_params(request, name, &found)?;
        for (class, configuration) in found {
            let values = values(request, class, configuration)?;
            let visible = |token: Option<&str>| variables(class, &values, token);
            for (file, text) in &configuration.data {
                let pair = (class.name.to_owned(), file.clone());
                if request.left_out.contains(file) || request.left_out_of_class.contains(&pair) {
                    continue;
                }
                let first = written_by.insert(file, class.name);
                if let Some(first) = first.filter(|it| *it != class.name)
                    && context.conflict == FileConflict::Refuse
                {
                    return Err(FilesError::Conflict {
                        file: file.clone(),
                        first: first.to_owned(),
                        second: class.name.to_owned(),
                    });
                }
                let error = |kind| FilesError::Configuration {
                    class: class.name.to_owned(),
                    configuration: name.clone(),
                    error: kind,
                };
                let rendered = rendered((file, text), visible, context).map_err(error)?;
                files.put(file, rendered)?;
            }
        }
    }
    everything_left_out_is_known(request, &classes)?;
    Ok(files)
}

/// The classes of the tools, each once, in the order of the tools.
fn classes<'a>(tools: &[Tool<'a>]) -> Vec<ClassTools<'a>> {
    let mut classes: Vec<ClassTools<'a>> = Vec::new();
    for tool in tools {
        let Some(class) = tool.class else { continue };
        let name = class.metadata.name.as_deref().unwrap_or_default();
        match classes.iter_mut().find(|it| it.name == name) {
            Some(known) => known.tools.push(*tool),
            None => classes.push(ClassTools {
                name,
                class,
                tools: vec![*tool],
            }),
        }
    }
    classes
}

fn configuration<'a>(class: &'a ConnectorClass, name: &str) -> Option<&'a Configuration> {
    class.spec.configurations.iter().find(|it| it.name == name)
}

fn no_configuration(name: &str, classes: &[ClassTools<'_>]) -> FilesError {
    let all = classes.iter().flat_map(|it| &it.class.spec.configurations);
    FilesError::NoConfiguration {
        name: name.to_owned(),
        known: listed(all.map(|it| it.name.as_str())),
    }
}

fn listed<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.collect();
    if names.is_empty() {
        return "none".to_owned();
    }
    let shown = names.iter().take(MOST_NAMES).copied();
    let shown = shown.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(MOST_NAMES) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

/// A value that no class of the configuration declares is a misspelt one.
fn no_other_params(
    request: &FileRequest,
    name: &str,
    found: &[(&ClassTools<'_>, &Configuration)],
) -> Result<(), FilesError> {
    let declared = || found.iter().flat_map(|(_, it)| &it.params);
    let given = request
        .params
        .get(name)
        .into_iter()
        .flat_map(BTreeMap::keys);
    let unknown = |param: &&String| !declared().any(|it| it.name == **param);
    match given.into_iter().find(unknown) {
        Some(param) => Err(FilesError::NoParam {
            configuration: name.to_owned(),
            param: param.chars().take(64).collect(),
            known: listed(declared().map(|it| it.name.as_str())),
        }),
        None => Ok(()),
    }
}

/// The values of a configuration's parameters: those of the pod, else the defaults.
fn values(
    request: &FileRequest,
    class: &ClassTools<'_>,
    configuration: &Configuration,
) -> Result<Map<String, Value>, FilesError> {
    let each = configuration.params.iter().map(|param| {
        let given = request.value(&configuration.name, &param.name);
        let value = given.or(param.default.as_deref());
        let value = value.ok_or_else(|| FilesError::NoValue {
            class: class.name.to_owned(),
            configuration: configuration.name.clone(),
            param: param.name.clone(),
        })?;
        Ok((param.name.clone(), value.into()))
    });
    each.collect()
}

/// What a template sees.
fn variables(class: &ClassTools<'_>, values: &Map<String, Value>, token: Option<&str>) -> Value {
    let connectors: Vec<_> = class.tools.iter().map(connector).collect();
    let certificates = class
        .tools
        .iter()
        .find_map(|it| proxy_certificates(it.connector));
    let proxy_address = class.class.status.as_ref().and_then(|status| {
        let url = status.0.get("proxy")?.get("httpAddress")?.get("url")?;
        url.as_str()
    });
    let mut context = json!({"proxy": {"caCert": certificates.unwrap_or_default()}});
    // Without a token the key is missing, so that no file has an empty one.
    if let Some(token) = token {
        context["token"] = token.into();
    }
    json!({
        "connector": connectors.first(),
        "connectors": connectors,
        "connectorclass": {
            "metadata": {"name": class.name},
            "spec": class.class.spec,
            "proxyAddress": proxy_address.unwrap_or_default(),
        },
        "configurations": values,
        "context": context,
    })
}

fn connector(tool: &Tool<'_>) -> Value {
    let Tool {
        connector, address, ..
    } = tool;
    let metadata = &connector.metadata;
    let mut spec = json!(connector.spec);
    spec["address"] = (*address).into();
    json!({
        "metadata": {
            "name": metadata.name,
            "namespace": metadata.namespace,
            "labels": metadata.labels.clone().unwrap_or_default(),
            "annotations": metadata.annotations.clone().unwrap_or_default(),
        },
        "spec": spec,
        "status": {"proxyAddress": proxy_address(connector).unwrap_or_default()},
    })
}

fn rendered(
    (file, text): (&str, &str),
    visible: impl Fn(Option<&str>) -> Value,
    context: &FileContext<'_>,
) -> Result<String, FileTemplateError> {
    let limits = TemplateLimits {
        text: MOST_BYTES,
        output: MOST_BYTES,
        value: MOST_BYTES,
        steps: MOST_STEPS,
        ..TemplateLimits::default()
    };
    let template = TextTemplate::parse(file, text, &limits)?.with_missing_key(MissingKey::NoValue);
    let Ok(rendered) = template.render(&visible(context.token), &limits, context.now) else {
        // An error may quote values, and is shown to people. So it is that of a text in the token's place.
        let shown = visible(context.token.map(|_| TOKEN));
        return Err(match template.render(&shown, &limits, context.now) {
            Err(error) => error.into(),
            Ok(_) => FileTemplateError::WithThisToken(file.to_owned()),
        });
    };
    // Templates ask with `if` whether a value is there, so a missing one is no error by itself. Printed, it would be a
    // wrong credential.
    match rendered.lines().position(|line| line.contains(NO_VALUE)) {
        Some(line) => Err(FileTemplateError::MissingValue {
            file: file.to_owned(),
            line: line + 1,
        }),
        None => Ok(rendered),
    }
}

/// A name that leaves nothing out is misspelt: the file that was meant would be there.
fn everything_left_out_is_known(
    request: &FileRequest,
    classes: &[ClassTools<'_>],
) -> Result<(), FilesError> {
    let writes = |class: &ClassTools<'_>, file: &str| {
        let configurations = class.class.spec.configurations.iter();
        let mut asked = configurations.filter(|it| request.configurations.contains(&it.name));
        asked.any(|it| it.data.contains_key(file))
    };
    let unknown = request.left_out.iter().find(|file| {
        !BUILT_IN.contains(&file.as_str()) && !classes.iter().any(|class| writes(class, file))
    });
    if let Some(file) = unknown {
        return Err(FilesError::NothingLeftOut(format!("!{file}")));
    }
    let unknown = request.left_out_of_class.iter().find(|(class, file)| {
        !classes
            .iter()
            .any(|it| it.name == class && writes(it, file))
    });
    match unknown {
        Some((class, file)) => Err(FilesError::NothingLeftOut(format!("!{class}/{file}"))),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
