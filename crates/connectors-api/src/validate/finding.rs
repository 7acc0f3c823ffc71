//! One finding about a policy.

use super::{Module, Validated};
use crate::parse::ParseError;
use crate::template::Warning;
use crate::words::words;

words! {
    /// The severity of a finding.
    Severity {
        /// The policy is refused, or a part of it grants nothing.
        Error,
        /// The policy is accepted, but probably not as its author intended.
        Warning,
    }
}

words! {
    /// The problem, as one word.
    FindingCode {
        /// The object is no AccessPolicy of a known version.
        NotAPolicy,
        /// An unknown field.
        UnknownField,
        /// A field is missing.
        MissingField,
        /// A field has an invalid value.
        InvalidField,
        /// A list has too few or too many entries.
        InvalidLength,
        /// Two entries have the same name.
        DuplicateName,
        /// A selector without a requirement.
        EmptySelector,
        /// A selector that no object can satisfy.
        ImpossibleSelector,
        /// A selector that finds the same objects for every pod.
        FixedSelector,
        /// A subject that cannot be parsed.
        InvalidSubject,
        /// A subject that includes nearly every user.
        BroadSubject,
        /// A requester that no pod runs as.
        NoPod,
        /// The policy grants nothing.
        GrantsNothing,
        /// A rule names another API group than the connectors'.
        WrongApiGroup,
        /// A rule names another permission than the policy.
        WrongPermission,
        /// A resource that is not allowed in a rule here.
        InvalidResource,
        /// A template where none is allowed, or one that cannot be parsed.
        InvalidTemplate,
        /// A template in a spelling that should be avoided.
        AliasTemplate,
        /// No rule covers the request of a mount.
        NoMountRule,
        /// A rule that only a pod with a fixed name could use.
        FixedResource,
        /// A kind that cannot be an approval.
        KindRefused,
        /// Approvers on a kind that does not record its approvers.
        ApproversUnsupported,
        /// The policy does not restrict the approvers.
        ApproversOpen,
        /// More approvals are wanted than there are approvers.
        ApproversTooFew,
        /// The policy trusts labels that the pod's author can write.
        LabelsBelieved,
        /// The policy needs a proof that this version cannot give.
        ProofUnavailable,
        /// A Rego module that cannot decide a check.
        RegoInvalid,
        /// A Rego module that exceeds a limit.
        RegoLimit,
        /// A Rego module that never reads the object that it judges.
        ObjectIgnored,
    }
}

/// One finding about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The field, as in `kubectl explain`, with list positions in brackets.
    pub path: String,
    /// The problem.
    pub code: FindingCode,
    /// The severity.
    pub severity: Severity,
    /// The problem as a sentence.
    pub message: String,
    /// The remedy.
    pub fix: String,
}

const GRANTED: &str = "spec.checkGrantedPermission";
/// The parents of fields that are valid in one place only and are often written elsewhere.
const PLACES: [(&str, &str); 17] = [
    ("names", "spec.connector"),
    ("bindingTemplate", "spec.defaultPermission"),
    ("subjects", "spec.defaultPermission.bindingTemplate"),
    ("requesters", GRANTED),
    ("checks", "spec.checkGrantedPermission.spec"),
    ("permissions", "spec.checkGrantedPermission.spec"),
    ("limits", "spec.checkGrantedPermission.spec"),
    ("maxDuration", "spec.checkGrantedPermission.spec.limits"),
    ("pendingTimeout", "spec.checkGrantedPermission.spec.limits"),
    (
        "objectRef",
        "spec.checkGrantedPermission.spec.checks[].selector",
    ),
    (
        "fieldSelector",
        "spec.checkGrantedPermission.spec.checks[].selector",
    ),
    ("match", "spec.checkGrantedPermission.spec.checks[]"),
    ("latch", "spec.checkGrantedPermission.spec.checks[]"),
    ("provenance", "spec.checkGrantedPermission.spec.checks[]"),
    ("approvers", "spec.checkGrantedPermission.spec.checks[]"),
    ("state", "spec.checkGrantedPermission.spec.checks[]"),
    ("rego", "spec.checkGrantedPermission.spec.checks[].state"),
];

/// The remedy for an unknown field. A field that is known elsewhere is misplaced, not misspelt.
fn instead(field: &str, likely: Option<&str>) -> String {
    let place = PLACES.iter().find(|(known, _)| *known == field);
    match (place, likely) {
        (Some((_, place)), _) => format!("`{field}` belongs under {place}"),
        (None, Some(word)) => format!("write `{word}`"),
        (None, None) => "remove it".to_owned(),
    }
}

/// The limit of findings; more would not help a reader.
const MOST: usize = 256;
/// The limit of a message, which may quote parts of the policy.
const LONGEST: usize = 1024;

#[derive(Default)]
pub(super) struct Findings(Vec<Finding>);

impl Findings {
    pub(super) fn error(
        &mut self,
        path: &str,
        code: FindingCode,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.push(path, code, Severity::Error, message.into(), fix.into());
    }

    pub(super) fn warning(
        &mut self,
        path: &str,
        code: FindingCode,
        message: impl Into<String>,
        fix: impl Into<String>,
    ) {
        self.push(path, code, Severity::Warning, message.into(), fix.into());
    }

    pub(super) fn missing(&mut self, path: &str, fix: &str) {
        self.error(path, FindingCode::MissingField, "is missing", fix);
    }

    pub(super) fn invalid(&mut self, path: &str, message: impl Into<String>, fix: &str) {
        self.error(path, FindingCode::InvalidField, message, fix);
    }

    pub(super) fn length(&mut self, path: &str, length: usize, least: usize, most: usize) {
        if (least..=most).contains(&length) {
            return;
        }
        let message = format!("has {length} entries");
        let fix = format!("give {least} to {most}");
        self.error(path, FindingCode::InvalidLength, message, fix);
    }

    pub(super) fn alias(&mut self, path: &str, Warning { written, canonical }: &Warning) {
        let message = format!("{written} works and should not be used");
        let fix = format!("write {canonical}");
        self.warning(path, FindingCode::AliasTemplate, message, fix);
    }

    pub(super) fn parse(&mut self, error: &ParseError) {
        let (code, fix) = match (error.unknown_field(), error.suggestion()) {
            (Some(field), word) => (FindingCode::UnknownField, instead(field, word)),
            (None, _) => match error.missing_field() {
                Some(field) => (FindingCode::MissingField, format!("give `{field}`")),
                None => (
                    FindingCode::InvalidField,
                    "see `kubectl explain`".to_owned(),
                ),
            },
        };
        self.error(&error.path, code, error.problem(), fix);
    }

    pub(super) fn has_error(&self) -> bool {
        let mut severities = self.0.iter().map(|finding| finding.severity);
        severities.any(|severity| severity == Severity::Error)
    }

    pub(super) fn done(self, modules: Vec<Module>) -> Validated {
        Validated {
            findings: self.0,
            modules,
        }
    }

    fn push(
        &mut self,
        path: &str,
        code: FindingCode,
        severity: Severity,
        mut message: String,
        fix: String,
    ) {
        if self.0.len() >= MOST {
            // Warnings must not displace an error.
            let warning = self
                .0
                .iter()
                .rposition(|it| it.severity == Severity::Warning);
            match warning.filter(|_| severity == Severity::Error) {
                Some(place) => self.0.remove(place),
                None => return,
            };
        }
        message.truncate(message.floor_char_boundary(LONGEST));
        self.0.push(Finding {
            path: path.to_owned(),
            code,
            severity,
            message,
            fix,
        });
    }
}

#[cfg(test)]
mod tests {
    use kube::CustomResourceExt;

    use super::*;
    use crate::AccessPolicy;

    #[test]
    fn where_there_is_no_room_an_error_takes_the_place_of_the_last_warning() {
        let mut findings = Findings::default();
        let code = FindingCode::InvalidField;
        findings.error("first", code, "", "");
        let warnings: Vec<_> = (1..MOST).map(|number| format!("w{number}")).collect();
        for path in &warnings {
            findings.warning(path, code, "", "");
        }
        findings.warning("late warning", code, "", "");
        findings.error("late error", code, "", "");
        let kept = warnings.iter().take(MOST - 2).map(String::as_str);
        let expected: Vec<_> = ["first"].into_iter().chain(kept).collect();
        let paths: Vec<_> = findings.0.iter().map(|it| it.path.as_str()).collect();
        assert_eq!(paths, [&expected[..], &["late error"]].concat());
    }

    #[test]
    fn a_field_is_known_where_it_is_said_to_belong() {
        let crd = serde_json::to_value(AccessPolicy::crd()).unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        for (field, place) in PLACES {
            let found = place.split('.').fold(schema, |at, step| {
                let inner = &at["properties"][step.trim_end_matches("[]")];
                if step.ends_with("[]") {
                    &inner["items"]
                } else {
                    inner
                }
            });
            assert!(found["properties"][field].is_object(), "{field} in {place}");
        }
    }
}
