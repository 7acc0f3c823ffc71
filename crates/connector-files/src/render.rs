//! The whole set: built-in files, then those of the configurations that are asked for.

use std::collections::{BTreeMap, BTreeSet};

use connectors_api::{ConnectorClass, connector_class::Configuration, quoted};
use serde_json::{Map, Value, json};
use text_template::{MissingKey, TextTemplate};

use crate::{
    built_in::{self, BUILT_IN, full_name, proxy_address, proxy_certificates},
    error::{FileTemplateError, FilesError, listed},
    file_request::FileRequest,
    file_set::FileSet,
    limits::{MOST_FILES, MOST_STEPS, MOST_STEPS_OF_ONE, MOST_TEMPLATES, template_limits},
    tool::{FileConflict, FileContext, Tool},
};

/// The text in place of the token in the errors of templates.
const TOKEN: &str = "(token)";
/// Go's output for a missing value: as it is, by the functions that print, and within HTML, a URL and JavaScript.
const NO_VALUES: [&str; 8] = [
    "<no value>",
    "<nil>",
    "&lt;no value&gt;",
    "&lt;nil&gt;",
    "%3Cno+value%3E",
    "%3Cnil%3E",
    "\\u003Cno value\\u003E",
    "\\u003Cnil\\u003E",
];

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
    every_name_is_known(request, &classes).map_err(|error| unknown(error, request, tools))?;
    let steps = steps_of_one(request, &classes)?;
    let mut written_by: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    // Whatever the order of the configurations, a class replaces the files of the classes before it.
    for class in &classes {
        for configuration in asked(request, class) {
            let values = values(request, class, configuration)?;
            let with_token = |token: Option<&str>| variables(class, &values, token);
            let visible = with_token(context.token);
            for (file, text) in &configuration.data {
                if request.leaves_out(class.name, file) {
                    continue;
                }
                let writer = (class.name, configuration.name.as_str());
                let earlier = written_by.insert(file, writer);
                if let Some(earlier) = earlier
                    && context.conflict == FileConflict::Refuse
                {
                    return Err(conflict(file, earlier, writer));
                }
                let error = |kind| FilesError::Configuration {
                    class: class.name.to_owned(),
                    configuration: configuration.name.clone(),
                    error: kind,
                };
                let name = quoted(file);
                let rendered =
                    rendered((&name, text), &visible, with_token, context, steps).map_err(error)?;
                files.put(file, rendered)?;
            }
        }
    }
    Ok(files)
}

/// The classes of the tools, each once, in the order of the last tool of each. The tools of a class keep their order.
fn classes<'a>(tools: &[Tool<'a>]) -> Vec<ClassTools<'a>> {
    let mut classes: Vec<ClassTools<'a>> = Vec::new();
    for tool in tools {
        let Some(class) = tool.class else { continue };
        let name = class.metadata.name.as_deref().unwrap_or_default();
        let known = classes.iter().position(|it| it.name == name);
        let mut of_class = known.map_or_else(
            || ClassTools {
                name,
                class,
                tools: Vec::new(),
            },
            |known| classes.remove(known),
        );
        of_class.tools.push(*tool);
        classes.push(of_class);
    }
    classes
}

fn configuration<'a>(class: &'a ConnectorClass, name: &str) -> Option<&'a Configuration> {
    class.spec.configurations.iter().find(|it| it.name == name)
}

/// The configurations of a class that a pod asks for, in the order of the request.
fn asked<'a>(
    request: &'a FileRequest,
    class: &'a ClassTools<'_>,
) -> impl Iterator<Item = &'a Configuration> {
    let names = request.configurations.iter();
    names.filter_map(|name| configuration(class.class, name))
}

/// The error of an unknown name. A class that is missing might know it.
fn unknown(error: FilesError, request: &FileRequest, tools: &[Tool<'_>]) -> FilesError {
    let without_class = tools.iter().find(|it| it.class.is_none());
    match without_class.filter(|_| request.needs_classes()) {
        Some(tool) => FilesError::ClassMissing {
            unknown: Box::new(error),
            connector: full_name(tool.connector, "/"),
        },
        None => error,
    }
}

/// A name of a configuration, a parameter or a file that no class has is a misspelt one.
fn every_name_is_known(
    request: &FileRequest,
    classes: &[ClassTools<'_>],
) -> Result<(), FilesError> {
    for name in &request.configurations {
        let found = classes
            .iter()
            .filter_map(|class| configuration(class.class, name));
        let found: Vec<_> = found.collect();
        if found.is_empty() {
            return Err(no_configuration(name, classes));
        }
        no_other_params(request, name, &found)?;
    }
    everything_left_out_is_known(request, classes)
}

fn no_configuration(name: &str, classes: &[ClassTools<'_>]) -> FilesError {
    let all = classes.iter().flat_map(|it| &it.class.spec.configurations);
    FilesError::NoConfiguration {
        name: name.to_owned(),
        known: listed(all.map(|it| it.name.as_str())),
    }
}

/// A value that no class of the configuration declares is a misspelt one.
fn no_other_params(
    request: &FileRequest,
    name: &str,
    found: &[&Configuration],
) -> Result<(), FilesError> {
    let declared = || found.iter().flat_map(|it| &it.params);
    let given = request
        .params
        .get(name)
        .into_iter()
        .flat_map(BTreeMap::keys);
    let unknown = |param: &&String| !declared().any(|it| it.name == **param);
    match given.into_iter().find(unknown) {
        Some(param) => Err(FilesError::NoParam {
            configuration: name.to_owned(),
            param: quoted(param),
            known: listed(declared().map(|it| it.name.as_str())),
        }),
        None => Ok(()),
    }
}

/// The error of a file that is written twice. Each writer is a class and its configuration.
fn conflict(file: &str, first: (&str, &str), second: (&str, &str)) -> FilesError {
    let file = quoted(file);
    if first.0 == second.0 {
        return FilesError::Repeated {
            file,
            class: first.0.to_owned(),
            first: first.1.to_owned(),
            second: second.1.to_owned(),
        };
    }
    FilesError::Conflict {
        file,
        first: first.0.to_owned(),
        second: second.0.to_owned(),
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
            param: quoted(&param.name),
        })?;
        Ok((param.name.clone(), value.into()))
    });
    each.collect()
}

/// The data for a template.
fn variables(class: &ClassTools<'_>, values: &Map<String, Value>, token: Option<&str>) -> Value {
    let connectors: Vec<_> = class.tools.iter().map(connector).collect();
    let certificates = class
        .tools
        .iter()
        .find_map(|it| proxy_certificates(it.connector.status.as_ref()));
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
            "proxyAddress": proxy_address(class.class.status.as_ref()).unwrap_or_default(),
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
        "status": {"proxyAddress": proxy_address(connector.status.as_ref()).unwrap_or_default()},
    })
}

/// The steps of each template, so that all of them together are bounded. More files than a volume takes are refused before
/// any is made. A file that is left out is no file, and one that replaces another takes its place.
fn steps_of_one(request: &FileRequest, classes: &[ClassTools<'_>]) -> Result<u64, FilesError> {
    let (mut files, mut templates) = (BTreeSet::new(), 0_u64);
    for class in classes {
        for file in asked(request, class).flat_map(|it| it.data.keys()) {
            if !request.leaves_out(class.name, file) {
                files.insert(file);
                templates += 1;
            }
        }
    }
    if files.len() > MOST_FILES || templates > MOST_TEMPLATES {
        return Err(FilesError::TooMuch);
    }
    Ok((MOST_STEPS / templates.max(1)).min(MOST_STEPS_OF_ONE))
}

/// A file. Its template sees `visible`; `with_token` makes the same with another text in the token's place.
fn rendered(
    (file, text): (&str, &str),
    visible: &Value,
    with_token: impl Fn(Option<&str>) -> Value,
    context: &FileContext<'_>,
    steps: u64,
) -> Result<String, FileTemplateError> {
    let limits = template_limits(steps);
    let template = TextTemplate::parse(file, text, &limits)?.with_missing_key(MissingKey::NoValue);
    let render = |variables: &Value| template.render(variables, &limits, context.now);
    // Errors about a file come from a rendering with another text in the token's place. Errors quote values,
    // and even the number of a line can depend on them.
    let with_this_token = || FileTemplateError::WithThisToken(file.to_owned());
    let shown = || render(&with_token(context.token.map(|_| TOKEN)));
    let Ok(rendered) = render(visible) else {
        return Err(match shown() {
            Err(error) => error.into(),
            Ok(_) => with_this_token(),
        });
    };
    if missing_value(&rendered).is_some() {
        let line = shown().ok().and_then(|shown| missing_value(&shown));
        return Err(
            line.map_or_else(with_this_token, |line| FileTemplateError::MissingValue {
                file: file.to_owned(),
                line,
            }),
        );
    }
    // A template may print the place of a token that is missing in more ways than can be found in its output.
    let with_any_token = || render(&with_token(Some(TOKEN))).ok();
    if context.token.is_none() && with_any_token().as_ref() != Some(&rendered) {
        return Err(FileTemplateError::NoToken(file.to_owned()));
    }
    Ok(rendered)
}

/// The line in which a missing value is printed, counted from 1. Templates test with `if` whether a value
/// exists, so a missing one is no error by itself. Printed, it would be a wrong credential.
fn missing_value(text: &str) -> Option<usize> {
    let is_missing = |line: &str| NO_VALUES.iter().any(|it| line.contains(it));
    text.lines().position(is_missing).map(|line| line + 1)
}

/// A name that leaves nothing out is misspelt: the file that was meant would be there.
fn everything_left_out_is_known(
    request: &FileRequest,
    classes: &[ClassTools<'_>],
) -> Result<(), FilesError> {
    let mut written = BTreeSet::new();
    for class in classes {
        let configurations = class.class.spec.configurations.iter();
        let asked = configurations.filter(|it| request.configurations.contains(&it.name));
        written.extend(asked.flat_map(|it| it.data.keys().map(|file| (class.name, file.as_str()))));
    }
    let of_any = |file: &str| written.iter().any(|(_, it)| *it == file);
    let left_out = &mut request.left_out.iter();
    if let Some(file) = left_out.find(|it| !BUILT_IN.contains(&it.as_str()) && !of_any(it)) {
        let names: BTreeSet<_> = written.iter().map(|(_, file)| *file).collect();
        return Err(FilesError::NothingLeftOut {
            name: format!("!{file}"),
            known: listed(names.into_iter().chain(BUILT_IN)),
        });
    }
    let left_out = &mut request.left_out_of_class.iter();
    if let Some((class, file)) =
        left_out.find(|(class, file)| !written.contains(&(class.as_str(), file.as_str())))
    {
        let names = written
            .iter()
            .map(|(class, file)| format!("{class}/{file}"));
        let names: Vec<_> = names.collect();
        return Err(FilesError::NothingLeftOut {
            name: format!("!{class}/{file}"),
            known: listed(names.iter().map(String::as_str)),
        });
    }
    Ok(())
}

#[cfg(test)]
mod tests;
