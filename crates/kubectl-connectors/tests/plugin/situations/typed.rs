//! The commands that `explain` names, typed: those of the plugin run, those of kubectl find their objects, or change them.

use std::collections::BTreeMap;

use serde_json::Value;
use testkit::Caller;

use crate::answers::person;
use crate::cluster::Cluster;

/// The effect of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TypedEffect {
    /// It shows objects that are there, or opens them in an editor.
    Shows,
    /// It lists objects, and there are none.
    ShowsNothing,
    /// It changes something.
    Changes,
}

type TypedResult = Result<TypedEffect, String>;
type TypedVerb = fn(&Cluster, &TypedCommand) -> TypedResult;

/// The verbs of kubectl. Another one is an error.
const VERBS: &[(&str, TypedVerb)] = &[
    ("get", get),
    ("describe", show),
    ("edit", show),
    ("logs", show),
    ("label", label),
    ("delete", delete),
    ("patch", patch),
];

/// Flags with a value of their own.
const WITH_VALUE: [&str; 4] = ["-n", "-l", "-p", "--field-selector"];

/// The names of kinds that are no plurals.
const NAMES: &[(&str, &str)] = &[
    ("areq", "accessrequests"),
    ("accessrequest", "accessrequests"),
    ("accesspolicy", "accesspolicies"),
    ("configmap", "configmaps"),
    ("deployment", "deployments"),
    ("pod", "pods"),
];

/// A command of kubectl.
#[derive(Debug, Default)]
struct TypedCommand {
    /// The words that are no flags, behind the verb.
    words: Vec<String>,
    flags: BTreeMap<String, String>,
}

/// Types a command. The first user that it names does it, otherwise an administrator.
pub(super) async fn carry_out(cluster: &Cluster, command: &str, who: &str) -> TypedResult {
    let words = split(command);
    let Some(("kubectl", rest)) = words.split_first().map(|(first, rest)| (&**first, rest)) else {
        return Err("it does not begin with kubectl".to_owned());
    };
    if let Some(("connectors", rest)) = rest.split_first().map(|(first, rest)| (&**first, rest)) {
        return plugin(cluster, rest, who).await;
    }
    let mut typed = TypedCommand::default();
    let mut words = rest.iter();
    while let Some(word) = words.next() {
        if WITH_VALUE.contains(&word.as_str()) {
            let value = words.next().ok_or("a flag lacks its value")?;
            typed.flags.insert(word.clone(), value.clone());
        } else if word.starts_with('-') {
            let (flag, value) = word.split_once('=').ok_or("a flag that is not known")?;
            typed.flags.insert(flag.to_owned(), value.to_owned());
        } else {
            typed.words.push(word.clone());
        }
    }
    if typed.words.is_empty() {
        return Err("no verb".to_owned());
    }
    let verb = typed.words.remove(0);
    let known = VERBS.iter().find(|(name, _)| *name == verb);
    let (_, carry_out) = known.ok_or(format!("the verb {verb} is not known"))?;
    carry_out(cluster, &typed)
}

/// The words of a command, as a shell divides them. Quotes are single ones.
fn split(command: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut is_quoted = false;
    for letter in command.chars() {
        match letter {
            '\'' => is_quoted = !is_quoted,
            ' ' if !is_quoted => words.push(String::new()),
            letter => words.last_mut().unwrap().push(letter),
        }
    }
    words.retain(|it| !it.is_empty());
    words
}

async fn plugin(cluster: &Cluster, words: &[String], who: &str) -> TypedResult {
    let mut words: Vec<_> = words.iter().map(String::as_str).collect();
    let effect = match words.first() {
        Some(&"approve") => {
            words.push("--yes");
            TypedEffect::Changes
        }
        Some(&"top") => TypedEffect::Shows,
        other => return Err(format!("the command {other:?} is not known")),
    };
    let outcome = cluster.run_as(&user(who), &words).await;
    match outcome.exit.code() {
        0 => Ok(effect),
        _ => Err(outcome.output + &outcome.errors),
    }
}

/// The first user of a list of approvers; an administrator for any other sentence.
fn user(who: &str) -> Caller {
    let first = who.split(", ").next().unwrap_or_default();
    match first.strip_prefix("a member of group ") {
        Some(group) => person("bob", &[group, "system:masters"]),
        None if first.is_empty() || first.contains(' ') => Caller::admin(),
        None => person(first, &["system:masters"]),
    }
}

impl TypedCommand {
    fn flag(&self, flag: &str) -> &str {
        self.flags.get(flag).map_or("", String::as_str)
    }

    /// Kind and name of the object: two words, or one with a slash.
    fn object(&self) -> Result<(&str, &str), String> {
        let first = self.words.first().ok_or("no object")?;
        let pair = first.split_once('/');
        let pair = pair.or_else(|| Some((first.as_str(), self.words.get(1)?.as_str())));
        let (kind, name) = pair.ok_or("no name of an object")?;
        Ok((plural(kind), name))
    }

    /// The object that it names.
    fn there(&self, cluster: &Cluster) -> Result<(&str, &str), String> {
        let (kind, name) = self.object()?;
        let found = cluster.server.get(kind, self.flag("-n"), name);
        found.ok_or(format!("there is no {kind} {name}"))?;
        Ok((kind, name))
    }
}

fn plural(kind: &str) -> &str {
    let known = NAMES.iter().find(|(name, _)| *name == kind);
    known.map_or(kind, |(_, plural)| plural)
}

fn show(cluster: &Cluster, typed: &TypedCommand) -> TypedResult {
    typed.there(cluster)?;
    Ok(TypedEffect::Shows)
}

fn get(cluster: &Cluster, typed: &TypedCommand) -> TypedResult {
    let [kind] = typed.words.as_slice() else {
        return show(cluster, typed);
    };
    let text = |it: &Value, path: &[&str]| {
        let value = path.iter().try_fold(it, |it, step| it.get(*step));
        value.and_then(Value::as_str).map(str::to_owned)
    };
    let has = |object: &Value| {
        let labels = conditions(typed.flag("-l"));
        let fields = conditions(typed.flag("--field-selector"));
        let has_label = |(key, value): &(&str, &str)| {
            text(object, &["metadata", "labels", key]).as_deref() == Some(value)
        };
        let has_field = |(path, value): &(&str, &str)| {
            // The server keeps events in the form of events.k8s.io.
            let path = path.replace("involvedObject", "regarding");
            text(object, &path.split('.').collect::<Vec<_>>()).as_deref() == Some(value)
        };
        object["metadata"]["namespace"] == typed.flag("-n")
            && labels.iter().all(has_label)
            && fields.iter().all(has_field)
    };
    let listed = cluster.server.list(plural(kind));
    Ok(if listed.iter().any(has) {
        TypedEffect::Shows
    } else {
        TypedEffect::ShowsNothing
    })
}

/// The conditions `key=value` of a selector.
fn conditions(selector: &str) -> Vec<(&str, &str)> {
    let parts = selector.split(',').filter(|it| !it.is_empty());
    parts.map(|it| it.split_once('=').unwrap()).collect()
}

fn label(cluster: &Cluster, typed: &TypedCommand) -> TypedResult {
    let (kind, name) = typed.there(cluster)?;
    let label = typed.words.last().and_then(|it| it.split_once('='));
    let (key, value) = label.ok_or("no label")?;
    cluster.server.change(kind, typed.flag("-n"), name, |it| {
        it["metadata"]["labels"][key] = value.into();
    });
    Ok(TypedEffect::Changes)
}

fn delete(cluster: &Cluster, typed: &TypedCommand) -> TypedResult {
    let (kind, name) = typed.there(cluster)?;
    cluster.server.delete(kind, typed.flag("-n"), name);
    Ok(TypedEffect::Changes)
}

/// A merge patch of the first level below `data`, which is what a setting takes.
fn patch(cluster: &Cluster, typed: &TypedCommand) -> TypedResult {
    let (kind, name) = typed.there(cluster)?;
    if typed.flag("--type") != "merge" {
        return Err("no merge patch".to_owned());
    }
    let patch: Value = serde_json::from_str(typed.flag("-p")).map_err(|it| it.to_string())?;
    let data = patch["data"].as_object().ok_or("no data")?;
    cluster.server.change(kind, typed.flag("-n"), name, |it| {
        for (key, value) in data {
            it["data"][key] = value.clone();
        }
    });
    Ok(TypedEffect::Changes)
}
