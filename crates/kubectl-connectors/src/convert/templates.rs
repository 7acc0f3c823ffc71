//! The ConfigMaps that policies refer to.

use std::collections::BTreeMap;

use connectors_api::access_policy::RoleRule;
use connectors_api::parse::{self, ParseError};
use connectors_api::quoted;
use serde::de::DeserializeOwned;

use crate::yaml;

use super::place::{ConvertLog, ConvertSource, FieldPlace};
use super::shipped::{ShippedCheckSpec, TemplateReference};
use super::words::{NoteWord, RefusalWord};

/// The ConfigMaps among the files, and the namespace in which they count.
pub(super) struct Templates<'a> {
    /// By name.
    maps: BTreeMap<&'a str, Vec<ConvertSource<'a>>>,
    namespace: &'a str,
}

/// The key of the rules of a role template.
const RULES: &str = "rules";
/// The key of a check template.
const SPEC: &str = "spec";

/// A text of a ConfigMap, read.
pub(super) struct TemplateText<'a, T> {
    pub(super) content: T,
    /// The ConfigMap.
    pub(super) source: ConvertSource<'a>,
    /// The path of the text in it.
    pub(super) path: String,
}

impl<'a> Templates<'a> {
    pub(super) fn of(
        documents: impl Iterator<Item = ConvertSource<'a>>,
        namespace: &'a str,
    ) -> Self {
        let mut maps: BTreeMap<&str, Vec<ConvertSource<'a>>> = BTreeMap::new();
        for map in documents.filter(is_map) {
            let name = map.text("/metadata/name").unwrap_or_default();
            maps.entry(name).or_default().push(map);
        }
        Self { maps, namespace }
    }

    /// The rules of a role template that a policy refers to.
    pub(super) fn rules(
        &self,
        reference: &TemplateReference,
        from: FieldPlace,
        log: &mut ConvertLog,
    ) -> Option<TemplateText<'a, Vec<RoleRule>>> {
        self.read(reference, RULES, from, log)
    }

    /// The check of a template that a policy refers to.
    pub(super) fn check(
        &self,
        reference: &TemplateReference,
        from: FieldPlace,
        log: &mut ConvertLog,
    ) -> Option<TemplateText<'a, ShippedCheckSpec>> {
        self.read(reference, SPEC, from, log)
    }

    fn read<T: DeserializeOwned>(
        &self,
        reference: &TemplateReference,
        key: &str,
        from: FieldPlace,
        log: &mut ConvertLog,
    ) -> Option<TemplateText<'a, T>> {
        let name = &reference.config_map.name;
        let source = self.find(name, &from, log)?;
        let path = format!("data.{key}");
        let word = RefusalWord::TemplateUnreadable;
        let refuse = |log: &mut ConvertLog, path: &str, message: String| {
            let fix = format!("write under {key} of the ConfigMap what the policy means");
            log.refuse(source.at(path), word, message, fix);
        };
        let Some(text) = source.text(&format!("/data/{key}")) else {
            let message = format!("ConfigMap {} has no text under {key}", quoted(name));
            refuse(log, "data", message);
            return None;
        };
        let documents = match yaml::documents(text) {
            Ok(documents) => documents,
            Err(error) => {
                refuse(log, &path, format!("is no YAML: in the text, {error}"));
                return None;
            }
        };
        let [document] = documents.as_slice() else {
            refuse(log, &path, "is not one YAML document".to_owned());
            return None;
        };
        match parse::spec(&document.value) {
            Ok(content) => {
                let message = format!("copied from {path} of ConfigMap {}/{name}", self.namespace);
                log.note(from, NoteWord::TemplateCopied, message);
                Some(TemplateText {
                    content,
                    source,
                    path,
                })
            }
            Err(error) => {
                let (within, problem) = problem(&error);
                refuse(log, &format!("{path}{within}"), problem);
                None
            }
        }
    }

    /// Only the ConfigMap of exactly this name and namespace is the one that the policy means.
    fn find(
        &self,
        name: &str,
        from: &FieldPlace,
        log: &mut ConvertLog,
    ) -> Option<ConvertSource<'a>> {
        let mut named = self.maps.get(name).into_iter().flatten();
        let is_at_home =
            |it: &&ConvertSource<'_>| it.text("/metadata/namespace") == Some(self.namespace);
        let mut found = named.clone().filter(is_at_home);
        let export = format!(
            "kubectl -n {} get configmap {} -o yaml, and give the file too",
            self.namespace,
            quoted(name)
        );
        match (found.next(), found.next()) {
            (Some(map), None) => Some(*map),
            (Some(_), Some(second)) => {
                let message = format!(
                    "two ConfigMaps {}/{} are among the files; the second is at {}:{}",
                    self.namespace,
                    quoted(name),
                    second.file,
                    second.at("metadata.name").line
                );
                let word = RefusalWord::TemplateAmbiguous;
                log.refuse(from.clone(), word, message, "give one of them");
                None
            }
            (None, _) => {
                let elsewhere = named.next().map(|it| {
                    let namespace = it.text("/metadata/namespace");
                    let place = namespace.map_or("without a namespace".to_owned(), |it| {
                        format!("in namespace {}", quoted(it))
                    });
                    format!("; the one {place} does not count")
                });
                let message = format!(
                    "ConfigMap {} of namespace {} is not among the files{}",
                    quoted(name),
                    self.namespace,
                    elsewhere.unwrap_or_default()
                );
                log.refuse(from.clone(), RefusalWord::TemplateMissing, message, export);
                None
            }
        }
    }
}

fn is_map(source: &ConvertSource<'_>) -> bool {
    source.text("/kind") == Some("ConfigMap") && source.text("/apiVersion") == Some("v1")
}

/// The path below `spec`, and the problem there.
pub(super) fn problem(error: &ParseError) -> (&str, String) {
    let within = error.path.strip_prefix(SPEC).unwrap_or(&error.path);
    let text = error.to_string();
    let problem = text.strip_prefix(&format!("{}: ", error.path));
    (within, problem.unwrap_or(&text).to_owned())
}
