//! `convert`: policies and volumes of the other product that has these kinds, in this product's form.
//!
//! It needs no cluster: files in, objects out. What changes in meaning is told by a note with one word, and what cannot be
//! said here is refused with its file, line and field. A refused object is left out; the others are printed.
//!
//! Invariant: no object gives more access than before, other than by a note whose effect is `Wider`. A part that cannot
//! be said is refused, and never left out.

mod checks;
mod connectors;
mod facts;
mod metadata;
mod module;
mod module_reads;
mod nested;
mod place;
mod policy;
mod shipped;
mod subjects;
mod templates;
mod volumes;
mod words;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use connectors_api::names::API_VERSION;

use crate::exit::ExitWord;
use crate::files::ObjectFile;
use crate::modules::Modules;
use crate::output::{self, Colours, Tone, shown};

pub use facts::{ShippedFacts, ShippedVersion};
pub use place::{ConvertNote, ConvertRefusal, FieldPlace};
pub use words::{NoteEffect, NoteWord, RefusalWord};

use place::{ConvertLog, ConvertSource};
use templates::Templates;
use volumes::ConvertedVolumes;

/// The converted objects, and what changed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Conversion {
    /// The converted objects, in the order of the files.
    pub objects: Vec<Value>,
    /// The changes in meaning.
    pub notes: Vec<ConvertNote>,
    /// The reasons why objects are left out.
    pub refusals: Vec<ConvertRefusal>,
}

/// The arguments about the files.
#[derive(Clone, Copy, Debug)]
pub struct ConvertPlace<'a> {
    /// The namespace of objects that name none.
    pub namespace: &'a str,
    /// The namespace of the ConfigMaps that are templates.
    pub templates: &'a str,
    /// Where the objects come from.
    pub facts: ShippedFacts,
}

/// Converts the objects of files.
pub async fn convert(
    files: &[ObjectFile],
    place: ConvertPlace<'_>,
    modules: &Modules,
) -> Conversion {
    let mut log = ConvertLog::default();
    let mut sources = Vec::new();
    for file in files {
        match &file.documents {
            Ok(documents) => sources.extend(documents.iter().map(|document| ConvertSource {
                file: &file.path,
                document,
            })),
            Err(problem) => {
                log.object.clone_from(&file.path);
                let place = FieldPlace {
                    file: file.path.clone(),
                    line: problem.line.unwrap_or(1),
                    column: 1,
                    path: String::new(),
                };
                let fix = "give files of YAML or JSON";
                log.refuse(place, RefusalWord::FileUnreadable, &problem.message, fix);
            }
        }
    }
    let templates = Templates::of(sources.iter().copied(), place.templates);
    let mut objects = Vec::new();
    for source in sources {
        log.object = source.name();
        let (notes, refusals) = (log.notes.len(), log.refusals.len());
        let converted = object(source, place, &templates, modules, &mut log).await;
        objects.extend(converted.filter(|it| is_named(it, source, &mut log)));
        // What would have changed in an object that is refused says nothing.
        if log.refusals.len() > refusals {
            log.notes.truncate(notes);
        }
    }
    let ConvertLog {
        object: _,
        mut notes,
        refusals,
    } = log;
    // A template is told once, however many policies refer to it.
    let mut told = BTreeSet::new();
    notes.retain(|it| told.insert(it.clone()));
    Conversion {
        objects,
        notes,
        refusals,
    }
}

/// The converted object, if there is one.
async fn object(
    source: ConvertSource<'_>,
    place: ConvertPlace<'_>,
    templates: &Templates<'_>,
    modules: &Modules,
    log: &mut ConvertLog,
) -> Option<Value> {
    let kind = source.text("/kind");
    // Templates are read where a policy refers to them. Other ConfigMaps have no volumes.
    if kind == Some("ConfigMap") {
        return None;
    }
    if source
        .value()
        .pointer("/metadata/deletionTimestamp")
        .is_some()
    {
        let at = source.at("metadata.deletionTimestamp");
        let message = "the object was being deleted: written again, it would come back";
        log.refuse(
            at,
            RefusalWord::BeingDeleted,
            message,
            "export it again, or leave it out",
        );
        return None;
    }
    let is_ours = source.text("/apiVersion") == Some(API_VERSION);
    match kind.filter(|_| is_ours) {
        Some("AccessPolicy") => {
            return policy::policy(source, place.facts, templates, modules, log).await;
        }
        Some("AccessRequest") => {
            let message = "a request of one pod; pods ask anew";
            log.note(source.at("kind"), NoteWord::RequestLeftOut, message);
            return None;
        }
        Some(_) | None => {}
    }
    if nested::refuses(source, log) {
        return None;
    }
    match volumes::volumes(source, place.namespace, log) {
        ConvertedVolumes::Object(object) => Some(object),
        ConvertedVolumes::Refused => None,
        ConvertedVolumes::None => {
            let message = "no policy, and no volume of the driver";
            log.note(source.at("kind"), NoteWord::NothingToConvert, message);
            None
        }
    }
}

/// The API server refuses an object without a name.
fn is_named(object: &Value, source: ConvertSource<'_>, log: &mut ConvertLog) -> bool {
    let metadata = object.get("metadata");
    let mut names = ["name", "generateName"].into_iter();
    let is_there = |field| metadata?.get(field)?.as_str().filter(|it| !it.is_empty());
    let is_named = names.any(|field| is_there(field).is_some());
    if !is_named {
        let place = source.at("metadata.name");
        let message = "the object has no name";
        let fix = "give metadata.name";
        log.refuse(place, RefusalWord::FieldUnreadable, message, fix);
    }
    is_named
}

/// How a program should interpret it. A refusal is a no. An unreadable file, and files without anything to convert, are a
/// mistake of the command line.
#[must_use]
pub fn exit(conversion: &Conversion) -> ExitWord {
    let is_unread = |it: &ConvertRefusal| it.word == RefusalWord::FileUnreadable;
    if conversion.refusals.iter().any(is_unread) {
        ExitWord::Usage
    } else if !conversion.refusals.is_empty() {
        ExitWord::No
    } else if conversion.objects.is_empty() {
        ExitWord::Usage
    } else {
        ExitWord::Yes
    }
}

/// The converted objects as documents of one YAML text.
pub fn manifests(conversion: &Conversion) -> Result<String, serde_yaml::Error> {
    let texts = conversion.objects.iter().map(output::yaml);
    let texts: Result<Vec<_>, _> = texts.collect();
    Ok(texts?.join("---\n"))
}

/// The notes and refusals for people and editors: `file:line:column: effect: field: message [Word]`.
#[must_use]
pub fn text(conversion: &Conversion, colours: Colours) -> String {
    let mut lines = Vec::new();
    let line = |place: &FieldPlace, head: &str, message: &str, word: &str| {
        let FieldPlace {
            file,
            line,
            column,
            path,
        } = place;
        let field = if path.is_empty() {
            String::new()
        } else {
            format!("{}: ", shown(path))
        };
        format!(
            "{}:{line}:{column}: {head}: {field}{} [{word}]",
            shown(file),
            shown(message)
        )
    };
    for ConvertNote {
        place,
        word,
        effect,
        message,
    } in &conversion.notes
    {
        let tone = match effect {
            NoteEffect::Wider => Tone::Bad,
            NoteEffect::Narrower => Tone::Open,
            NoteEffect::Other => Tone::Plain,
        };
        let head = colours.paint(tone, effect.as_str());
        lines.push(line(place, &head, message, word.as_str()));
    }
    for ConvertRefusal {
        object,
        place,
        word,
        message,
        fix,
    } in &conversion.refusals
    {
        let head = colours.paint(Tone::Bad, "error");
        lines.push(line(place, &head, message, word.as_str()));
        let fix = format!("  {object} is left out; {fix}");
        lines.push(colours.paint(Tone::Dim, &fix));
    }
    lines.push(format!(
        "{} objects converted, {} notes, {} refusals",
        conversion.objects.len(),
        conversion.notes.len(),
        conversion.refusals.len()
    ));
    lines.join("\n") + "\n"
}
