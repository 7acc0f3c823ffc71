//! `policy lint`: errors and warnings about policies in files, as the webhook judges them.
//!
//! It needs no cluster. The API server checks the rest: the rights of the author, whether connectors and kinds exist,
//! and the rules of the schema that are stated in CEL alone.

use connectors_api::validate::{self, Finding, FindingCode, Severity};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::Value;

use crate::exit::ExitWord;
use crate::files::ObjectFile;
use crate::modules::Modules;
use crate::output::{Colours, Tone, shown};
use crate::terms::NamespacedName;
use crate::yaml::YamlDocument;

/// The findings in files.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LintReport {
    /// The files, in the order in which they were given.
    pub files: Vec<LintedFile>,
    /// How many policies were looked at.
    pub policies: usize,
    /// How many errors were found: the webhook refuses these policies.
    pub errors: usize,
    /// How many warnings were found.
    pub warnings: usize,
}

/// A file.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LintedFile {
    /// The path.
    pub file: String,
    /// Why it could not be looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub problem: Option<String>,
    /// The policies.
    pub policies: Vec<LintedPolicy>,
}

/// A policy.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LintedPolicy {
    /// Namespace and name.
    #[serde(flatten)]
    pub name: NamespacedName,
    /// The findings, in the order of the policy's fields.
    pub findings: Vec<LintFinding>,
}

/// Something that is wrong or suspicious.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct LintFinding {
    /// The line of the file.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// The field.
    pub path: String,
    /// Error or Warning.
    pub severity: Severity,
    /// The problem as one word.
    pub code: FindingCode,
    /// The problem as a sentence.
    pub message: String,
    /// The remedy.
    pub fix: String,
}

/// Examines the policies of files.
pub async fn lint(files: &[ObjectFile], modules: &Modules) -> LintReport {
    let mut report = LintReport::default();
    for file in files {
        let mut linted = LintedFile {
            file: file.path.clone(),
            problem: None,
            policies: Vec::new(),
        };
        match &file.documents {
            Ok(documents) => {
                for document in documents.iter().filter(|it| is_policy(&it.value)) {
                    linted.policies.push(policy(document, modules).await);
                }
            }
            Err(problem) => {
                let line = problem.line.map(|it| format!("line {it}: "));
                let line = line.unwrap_or_default();
                linted.problem = Some(format!("{line}{}", problem.message));
            }
        }
        report.files.push(linted);
    }
    // A directory of manifests has other objects too.
    if report.files.iter().all(|it| it.policies.is_empty()) {
        for file in report.files.iter_mut().filter(|it| it.problem.is_none()) {
            file.problem = Some("has no AccessPolicy".to_owned());
        }
    }
    let policies = || report.files.iter().flat_map(|it| &it.policies);
    let count = |wanted: Severity| {
        let findings = policies().flat_map(|it| &it.findings);
        findings.filter(|it| it.severity == wanted).count()
    };
    let counts = (
        policies().count(),
        count(Severity::Error),
        count(Severity::Warning),
    );
    (report.policies, report.errors, report.warnings) = counts;
    report
}

/// True for an object of the kind.
pub(crate) fn is_policy(object: &Value) -> bool {
    object.get("kind").and_then(Value::as_str) == Some("AccessPolicy")
}

/// The findings about a policy, with those about its modules.
pub(crate) async fn findings(policy: &Value, modules: &Modules) -> Vec<Finding> {
    let validated = validate::policy(policy);
    let mut findings = validated.findings;
    for module in &validated.modules {
        match modules.validate(&module.source).await {
            Ok(sound) if sound.reads_object => {}
            Ok(_) => findings.push(module.ignores_object()),
            // The caller reports it: it is no fault of the policy.
            Err(_) if modules.not_run().is_some() => {}
            Err(failure) => findings.push(module.finding(&failure)),
        }
    }
    findings
}

async fn policy(document: &YamlDocument, modules: &Modules) -> LintedPolicy {
    let text = |pointer: &str| {
        let text = document.value.pointer(pointer).and_then(Value::as_str);
        text.unwrap_or_default()
    };
    let findings = findings(&document.value, modules).await;
    LintedPolicy {
        name: NamespacedName::new(text("/metadata/namespace"), text("/metadata/name")),
        findings: findings.into_iter().map(|it| told(it, document)).collect(),
    }
}

fn told(finding: Finding, document: &YamlDocument) -> LintFinding {
    let Finding {
        path,
        code,
        severity,
        message,
        fix,
    } = finding;
    let position = document.position(&path);
    LintFinding {
        line: position.line,
        column: position.column,
        path,
        severity,
        code,
        message,
        fix,
    }
}

/// How a program should interpret it. Errors are a no. An unusable file is a mistake of the command line.
#[must_use]
pub fn exit(report: &LintReport, strict: bool) -> ExitWord {
    if report.files.iter().any(|it| it.problem.is_some()) {
        ExitWord::Usage
    } else if report.errors > 0 || strict && report.warnings > 0 {
        ExitWord::No
    } else {
        ExitWord::Yes
    }
}

/// The same for people and editors: `file:line:column: severity: field: message`.
#[must_use]
pub fn text(report: &LintReport, colours: Colours) -> String {
    let mut lines = Vec::new();
    for file in &report.files {
        if let Some(problem) = &file.problem {
            let word = colours.paint(Tone::Bad, "error");
            lines.push(format!("{}: {word}: {}", shown(&file.file), shown(problem)));
        }
        for finding in file.policies.iter().flat_map(|it| &it.findings) {
            let word = match finding.severity {
                Severity::Error => colours.paint(Tone::Bad, "error"),
                Severity::Warning => colours.paint(Tone::Open, "warning"),
            };
            lines.push(format!(
                "{}:{}:{}: {word}: {}: {} [{}]",
                shown(&file.file),
                finding.line,
                finding.column,
                shown(&finding.path),
                shown(&finding.message),
                finding.code
            ));
            if !finding.fix.is_empty() {
                lines.push(colours.paint(Tone::Dim, &format!("  {}", finding.fix)));
            }
        }
    }
    lines.push(format!(
        "{} policies: {} errors, {} warnings",
        report.policies, report.errors, report.warnings
    ));
    lines.join("\n") + "\n"
}
