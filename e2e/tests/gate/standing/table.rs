//! Tables of policies as files: a small world, its changes, and the permissions at each moment.

use std::{collections::BTreeMap, fs};

use e2e::api::kinds::ResourceKind;
use serde::{Deserialize, Deserializer, de::Error as _};
use serde_json::Value;

/// One file under `e2e/cases/standing`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Table {
    #[serde(skip)]
    pub(super) file: String,
    /// Its changes are made while the controller is away.
    #[serde(default)]
    pub(super) away: bool,
    /// Namespaces beside the policies' own, which have the names of their keys with a dollar in front.
    #[serde(default)]
    pub(super) namespaces: BTreeMap<String, Namespace>,
    /// The connectors in each policy's namespace, with their labels, and perhaps their class.
    pub(super) connectors: BTreeMap<String, Labels>,
    /// Connectors that are asked about, too.
    #[serde(default)]
    pub(super) later: Vec<String>,
    /// The accounts in each policy's namespace, with their labels.
    #[serde(default)]
    pub(super) accounts: BTreeMap<String, Labels>,
    /// Users, and members of groups, that are reviewed, too.
    #[serde(default)]
    pub(super) people: Vec<String>,
    /// The verbs that are asked about.
    pub(super) verbs: Vec<String>,
    /// The changes, one after the other. Changes that name `$own` are made for each policy.
    #[serde(default)]
    pub(super) steps: Vec<Vec<Change>>,
    /// Each has a namespace of its own, `$own`.
    pub(super) policies: Vec<Row>,
}

pub(super) type Labels = BTreeMap<String, String>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Namespace {
    #[serde(default)]
    pub(super) labels: Labels,
    #[serde(default)]
    pub(super) accounts: BTreeMap<String, Labels>,
}

/// One write. Names with a dollar are put in everywhere.
#[derive(Deserialize)]
#[serde(untagged)]
pub(super) enum Change {
    /// An object that comes.
    Apply { apply: Value },
    /// Fields of an object that change.
    Patch { patch: Target, fields: Value },
    /// An object that goes, or all of the kind.
    Delete { delete: Target },
}

/// An object, or all of a kind in a namespace.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    #[serde(deserialize_with = "kind")]
    pub(super) kind: ResourceKind,
    #[serde(default)]
    pub(super) name: Option<String>,
    /// None for an object without a namespace.
    #[serde(default)]
    pub(super) namespace: Option<String>,
}

fn kind<'de, D: Deserializer<'de>>(deserializer: D) -> Result<ResourceKind, D::Error> {
    let name = String::deserialize(deserializer)?;
    ResourceKind::named(&name).ok_or_else(|| D::Error::custom(format!("no kind {name}")))
}

impl Change {
    /// Whether it is made for each policy.
    pub(super) fn is_of_each(&self) -> bool {
        let is_own = |text: &str| text.contains("$own");
        match self {
            Self::Apply { apply } => is_own(&apply.to_string()),
            Self::Patch { patch, fields } => {
                patch.namespace.as_deref().is_some_and(is_own) || is_own(&fields.to_string())
            }
            Self::Delete { delete } => delete.namespace.as_deref().is_some_and(is_own),
        }
    }
}

/// A policy, and the permissions that it gives.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Row {
    pub(super) name: String,
    /// The policy's spec; without one, it is in `example`.
    #[serde(default)]
    pub(super) spec: Value,
    /// A file in `e2e/examples/source`, whose namespace `devops-ns1` is `$own`.
    #[serde(default)]
    pub(super) example: Option<String>,
    /// The permissions: at first, then after each step. A missing moment equals the one before. All other
    /// permissions are refused.
    pub(super) holds: Vec<Vec<Held>>,
}

/// `namespace/account connector,connector`, or a person instead of the account; then perhaps the permission (else
/// `apis`), and then the verb (else each that is asked about).
#[derive(Clone, Debug, Deserialize)]
#[serde(try_from = "String")]
pub(super) struct Held {
    pub(super) who: String,
    pub(super) connectors: Vec<String>,
    pub(super) permission: String,
    pub(super) verb: Option<String>,
}

impl TryFrom<String> for Held {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let words: Vec<&str> = text.split_whitespace().collect();
        let (who, connectors, rest) = match words.as_slice() {
            [who, connectors, rest @ ..] if rest.len() < 3 => (who, connectors, rest),
            _ => return Err(format!("`{text}` does not say who holds what")),
        };
        Ok(Self {
            who: (*who).to_owned(),
            connectors: connectors.split(',').map(str::to_owned).collect(),
            permission: rest.first().unwrap_or(&"apis").to_string(),
            verb: rest.get(1).map(ToString::to_string),
        })
    }
}

impl Table {
    /// Every table.
    pub(super) fn all() -> Vec<Self> {
        let folder = e2e::repository().join("e2e/cases/standing");
        let files = fs::read_dir(folder).unwrap().map(|it| it.unwrap().path());
        let mut tables: Vec<Self> = files
            .map(|file| {
                let text = fs::read_to_string(&file).unwrap();
                let table: Self = serde_yaml::from_str(&text)
                    .unwrap_or_else(|error| panic!("{}: {error}", file.display()));
                let name = file.file_stem().unwrap().to_string_lossy().into_owned();
                Self {
                    file: name,
                    ..table
                }
            })
            .collect();
        tables.sort_by(|one, other| one.file.cmp(&other.file));
        for table in &tables {
            table.check();
        }
        tables
    }

    /// A name of no object is a mistake: it would have no permission, and would not be reviewed.
    fn check(&self) {
        let (who, connectors) = (self.everybody(), self.all_connectors());
        for row in &self.policies {
            let at = |what: &str| format!("{}, {}: {what}", self.file, row.name);
            assert!(
                row.spec.is_object() != row.example.is_some(),
                "{}",
                at("no policy")
            );
            assert!(
                (1..=self.steps.len() + 1).contains(&row.holds.len()),
                "{}",
                at("its moments")
            );
            for held in row.holds.iter().flatten() {
                assert!(who.contains(&held.who), "{}", at(&held.who));
                for connector in &held.connectors {
                    assert!(connectors.contains(connector), "{}", at(connector));
                }
                let verb = held.verb.iter().all(|verb| self.verbs.contains(verb));
                assert!(verb, "{}", at("no such verb"));
            }
        }
    }

    /// All reviewed users, as [`Held`] names them.
    pub(super) fn everybody(&self) -> Vec<String> {
        let own = self.accounts.keys().map(|name| format!("own/{name}"));
        let others = self.namespaces.iter().flat_map(|(namespace, it)| {
            let name = move |name| format!("{namespace}/{name}");
            it.accounts.keys().map(name)
        });
        own.chain(others)
            .chain(self.people.iter().cloned())
            .collect()
    }

    pub(super) fn all_connectors(&self) -> Vec<String> {
        self.connectors.keys().chain(&self.later).cloned().collect()
    }
}
