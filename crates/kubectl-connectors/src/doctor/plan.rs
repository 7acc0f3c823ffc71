//! `doctor --fix-plan`: the remedies of the findings, in one YAML stream. Pure.
//!
//! Objects are documents that `kubectl apply --server-side` takes. Commands and decisions are comments: no pipe carries
//! them out.

use std::fmt::Write as _;

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::json;

use super::{Diagnosis, DoctorFinding, DoctorWord, FixObject};
use crate::exit::ExitWord;
use crate::output::{self, shown};

/// The remedies of the findings.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FixPlan {
    /// The worst findings first.
    pub steps: Vec<FixStep>,
    /// Whether everything was read. A plan of a part may lack steps.
    pub complete: bool,
}

/// The remedy of a finding.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct FixStep {
    /// How the finding is mended.
    pub remedy: FixWord,
    /// The finding.
    pub finding: DoctorFinding,
}

/// How a finding is mended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub enum FixWord {
    /// An object is applied.
    Apply,
    /// A command is run.
    Run,
    /// A user decides what to change, perhaps with an editor.
    Decide,
    /// The cause is not known: a command shows more.
    Look,
}

impl FixWord {
    const fn title(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Run => "run",
            Self::Decide => "decide",
            Self::Look => "look",
        }
    }
}

/// How a finding of this word is mended, if a command does it.
const fn of_command(word: DoctorWord) -> FixWord {
    match word {
        DoctorWord::SettingsMissing
        | DoctorWord::ApprovalsOff
        | DoctorWord::RequestersOpen
        | DoctorWord::ServiceMissing
        | DoctorWord::VersionsApart
        | DoctorWord::RuleNotInForce
        | DoctorWord::PipelinesUnguarded
        | DoctorWord::WebhookMissing
        | DoctorWord::DriverWrong
        | DoctorWord::RequestUnreadable
        | DoctorWord::GrantOrphaned
        | DoctorWord::ConnectorUnlabelled => FixWord::Run,
        DoctorWord::NotInstalled
        | DoctorWord::SettingInvalid
        | DoctorWord::PolicyUnreadable
        | DoctorWord::PolicyNotInForce
        | DoctorWord::PolicyQuestionable
        | DoctorWord::RightsTooWide => FixWord::Decide,
        DoctorWord::ServiceNotReady
        | DoctorWord::LeaderGone
        | DoctorWord::ClocksApart
        | DoctorWord::WebhookUntrusted
        | DoctorWord::CertificateOld
        | DoctorWord::NetworkOpen
        | DoctorWord::PolicyNotLookedAt
        | DoctorWord::RequestNotLookedAt
        | DoctorWord::GrantNotRemoved
        | DoctorWord::GrantNotInForce
        | DoctorWord::GrantOverdue => FixWord::Look,
    }
}

/// The plan for findings.
#[must_use]
pub fn plan(diagnosis: Diagnosis, complete: bool) -> FixPlan {
    let step = |finding: DoctorFinding| FixStep {
        remedy: match (&finding.manifest, &finding.command) {
            (Some(_), _) => FixWord::Apply,
            (None, Some(_)) => of_command(finding.word),
            (None, None) => FixWord::Decide,
        },
        finding,
    };
    FixPlan {
        steps: diagnosis.findings.into_iter().map(step).collect(),
        complete,
    }
}

/// No if there is something to mend.
#[must_use]
pub fn exit(plan: &FixPlan) -> ExitWord {
    super::exit_of(plan.steps.iter().map(|it| &it.finding), plan.complete)
}

/// The plan as a YAML stream. Everything but the objects is a comment.
#[must_use]
pub fn text(plan: &FixPlan) -> String {
    let mut text = String::new();
    for FixStep { remedy, finding } in &plan.steps {
        let DoctorFinding {
            severity,
            word,
            object,
            message,
            fix,
            command,
            manifest,
        } = finding;
        let title = format!("{}: {object}  {}", severity.as_str(), word.as_str());
        for line in [&title, message, &format!("{}: {fix}", remedy.title())] {
            let _ = writeln!(text, "# {}", shown(line));
        }
        if let Some(command) = command {
            let or = if manifest.is_some() { "or: " } else { "" };
            let _ = writeln!(text, "# {or}$ {}", shown(command));
        }
        if let Some(manifest) = manifest {
            document(&mut text, manifest);
        }
        text.push('\n');
    }
    let summary = match (plan.steps.is_empty(), plan.complete) {
        (true, true) => "nothing to mend",
        (true, false) => "nothing to mend in what you may read",
        (false, true) => {
            "kubectl apply --server-side --force-conflicts -f - takes the objects of this stream"
        }
        (false, false) => "not everything could be read: steps may be missing",
    };
    text + "# " + summary + "\n"
}

/// An object as a document of the stream, without empty metadata. Names of objects have no character that a terminal obeys.
fn document(text: &mut String, manifest: &FixObject) {
    let mut manifest = json!(manifest);
    if let Some(metadata) = manifest["metadata"].as_object_mut() {
        metadata.retain(|_, it| *it != "" && *it != json!({}));
    }
    if let Ok(manifest) = output::yaml(&manifest) {
        text.push_str("---\n");
        text.push_str(&manifest);
        text.push_str("---\n");
    }
}

#[cfg(test)]
mod tests {
    use serde::Deserialize as _;
    use serde_json::Value;

    use super::*;
    use crate::doctor::DoctorSeverity;
    use crate::terms::NamespacedName;

    fn finding(word: DoctorWord, message: &str) -> DoctorFinding {
        let object = "Connector payments/prod-harbor";
        DoctorFinding::new(DoctorSeverity::Warning, word, object, message, "write it")
    }

    #[test]
    fn only_objects_are_outside_of_comments_whatever_a_tenant_wrote() {
        let label = ("class".to_owned(), "oci".to_owned());
        let name = NamespacedName::new("payments", "prod-harbor");
        let manifest = FixObject::new("v1", "Connector", name).with_labels([label]);
        let role = FixObject::of_cluster("v1", "ClusterRole", "x").with_field("rules", json!([]));
        let attack = "x\nkind: ClusterRoleBinding\n---\n";
        let diagnosis = Diagnosis {
            findings: vec![
                finding(DoctorWord::GrantOrphaned, attack)
                    .with_command("kubectl delete\nx: y".to_owned()),
                finding(DoctorWord::ConnectorUnlabelled, attack).with_object(manifest.clone()),
                finding(DoctorWord::ClocksApart, attack),
                finding(DoctorWord::RightsTooWide, attack)
                    .with_command("kubectl edit\nx: y".to_owned())
                    .with_object(role),
            ],
        };
        let plan = plan(diagnosis, true);
        let remedies: Vec<_> = plan.steps.iter().map(|it| it.remedy).collect();
        let expected = [
            FixWord::Run,
            FixWord::Apply,
            FixWord::Decide,
            FixWord::Apply,
        ];
        assert_eq!(remedies, expected);
        let text = text(&plan);
        let documents = serde_yaml::Deserializer::from_str(&text);
        let documents = documents.map(|it| Value::deserialize(it).unwrap());
        let objects: Vec<_> = documents.filter(|it| !it.is_null()).collect();
        // Neither a namespace nor labels that are not there.
        let role = json!({
            "apiVersion": "v1", "kind": "ClusterRole", "metadata": {"name": "x"}, "rules": [],
        });
        assert_eq!(objects, [json!(manifest), role], "{text}");
        assert_eq!(exit(&plan), ExitWord::No);
    }

    #[test]
    fn a_plan_of_a_part_is_no_yes() {
        let plan = |complete| super::plan(Diagnosis::default(), complete);
        assert_eq!(exit(&plan(true)), ExitWord::Yes);
        assert_eq!(exit(&plan(false)), ExitWord::Unknown);
        assert!(text(&plan(false)).contains("in what you may read"));
    }

    /// YAML ends a line at each of these, and a terminal obeys some of them. Tenants write conditions, names of fields and
    /// states, which findings quote.
    #[test]
    fn a_comment_goes_on_to_the_end_of_its_line_whatever_ends_lines() {
        for end in [
            "\n",
            "\r",
            "\r\n",
            "\u{85}",
            "\u{2028}",
            "\u{2029}",
            "\u{b}",
            "\u{c}",
            "\u{1b}[2K",
            "\u{202e}",
        ] {
            let attack = format!("x{end}kind: ClusterRoleBinding{end}---{end}kind: Role");
            let mut attacked = finding(DoctorWord::GrantOrphaned, &attack);
            attacked.object.clone_from(&attack);
            attacked.fix.clone_from(&attack);
            let diagnosis = Diagnosis {
                findings: vec![attacked.with_command(attack.clone())],
            };
            let text = text(&plan(diagnosis, true));
            let lines: Vec<_> = text.split('\n').filter(|it| !it.is_empty()).collect();
            assert!(lines.iter().all(|it| it.starts_with("# ")), "{text:?}");
            assert_eq!(lines.len(), 5, "{text:?}");
            let is_told = |it: char| it == '\n' || it == ' ' || shown(&it.to_string()) != " ";
            assert!(text.chars().all(is_told), "{text:?}");
            let documents = serde_yaml::Deserializer::from_str(&text);
            let mut documents = documents.map(|it| Value::deserialize(it).unwrap());
            assert!(documents.all(|it| it.is_null()), "{text:?}");
        }
    }
}
