//! The parsed HTTP request: method, path and query, before any lookup.

use std::collections::BTreeMap;

use http::{Method, request::Parts};

use crate::faults::Verb;

/// A parsed request.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) verb: Verb,
    pub(crate) target: Target,
    pub(crate) query: BTreeMap<String, String>,
    pub(crate) content_type: String,
    /// The field manager when the query names none; the server takes it from the header.
    pub(crate) agent: String,
}

/// The target of a request.
#[derive(Clone, Debug)]
pub(crate) enum Target {
    /// Objects.
    Resource(Resource),
    /// Anything else: discovery, the version.
    Path(String),
}

/// Objects of a kind that may not exist.
#[derive(Clone, Debug, Default)]
pub(crate) struct Resource {
    pub(crate) group: String,
    pub(crate) version: String,
    pub(crate) plural: String,
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) subresource: String,
}

impl Asked {
    /// None when the method is not supported there.
    pub(crate) fn of(parts: &Parts) -> Option<Self> {
        let query = query(parts.uri.query().unwrap_or_default());
        let header = |name: http::HeaderName| {
            let value = parts.headers.get(name).and_then(|it| it.to_str().ok());
            value.unwrap_or_default().to_owned()
        };
        let path = parts.uri.path();
        let target =
            Resource::of(path).map_or_else(|| Target::Path(path.to_owned()), Target::Resource);
        let verb = verb(&parts.method, &target, &query)?;
        let agent = header(http::header::USER_AGENT);
        Some(Self {
            verb,
            target,
            query,
            content_type: header(http::header::CONTENT_TYPE),
            agent: agent.split('/').next().unwrap_or_default().to_owned(),
        })
    }

    pub(crate) fn text(&self, parameter: &str) -> &str {
        self.query.get(parameter).map_or("", String::as_str)
    }

    pub(crate) fn is_set(&self, parameter: &str) -> bool {
        matches!(self.text(parameter), "true" | "1" | "True")
    }

    /// The manager of the fields that this request writes; empty when it names none.
    pub(crate) fn manager(&self) -> &str {
        match self.text("fieldManager") {
            "" => &self.agent,
            named => named,
        }
    }
}

impl Resource {
    fn of(path: &str) -> Option<Self> {
        let segments: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, rest) = match segments.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let (namespace, rest) = match rest {
            ["namespaces", namespace, rest @ ..]
                if rest
                    .first()
                    .is_some_and(|it| !matches!(*it, "status" | "finalize")) =>
            {
                (*namespace, rest)
            }
            _ => ("", rest),
        };
        let (plural, name, subresource) = match rest {
            [plural] => (*plural, "", String::new()),
            [plural, name] => (*plural, *name, String::new()),
            [plural, name, subresource @ ..] => (*plural, *name, subresource.join("/")),
            [] => return None,
        };
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespace: decoded(namespace),
            name: decoded(name),
            subresource,
        })
    }
}

fn verb(method: &Method, target: &Target, query: &BTreeMap<String, String>) -> Option<Verb> {
    let is_many = matches!(target, Target::Resource(resource) if resource.name.is_empty());
    let is_watch = matches!(query.get("watch").map(String::as_str), Some("true" | "1"));
    Some(match *method {
        Method::GET if is_many && is_watch => Verb::Watch,
        Method::GET if is_many => Verb::List,
        Method::GET => Verb::Get,
        Method::POST => Verb::Create,
        Method::PUT => Verb::Update,
        Method::PATCH => Verb::Patch,
        Method::DELETE if is_many => Verb::DeleteCollection,
        Method::DELETE => Verb::Delete,
        _ => return None,
    })
}

fn query(text: &str) -> BTreeMap<String, String> {
    let pairs = text.split('&').filter(|pair| !pair.is_empty());
    pairs
        .map(|pair| {
            let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
            (decoded(key), decoded(&value.replace('+', " ")))
        })
        .collect()
}

/// Percent-decoded; invalid escapes stay unchanged.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, after)) = rest.split_first() {
        let code = (first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|it| std::str::from_utf8(it).ok());
        if let Some(byte) = code.and_then(|it| u8::from_str_radix(it, 16).ok()) {
            bytes.push(byte);
            rest = &after[2..];
        } else {
            bytes.push(first);
            rest = after;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}
