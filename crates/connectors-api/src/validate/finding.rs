//! One thing to say about a policy.

use super::{Module, Validated};
use crate::parse::ParseError;
use crate::template::Warning;
use crate::words::words;

words! {
    /// How bad it is.
    Severity {
        /// The policy is refused, or grants nothing where it says so.
        Error,
        /// The policy is accepted, and probably not what its author means.
        Warning,
    }
}

words! {
    /// What is wrong, as one word.
    FindingCode {
        /// The object is no AccessPolicy of a known version.
        NotAPolicy,
        /// A field that is not known.
        UnknownField,
        /// A field is missing.
        MissingField,
        /// A field holds what it cannot hold.
        InvalidField,
        /// A list has too few or too many entries.
        InvalidLength,
        /// Two entries have one name.
        DuplicateName,
        /// A selector without a requirement.
        EmptySelector,
        /// A selector that no object can satisfy.
        ImpossibleSelector,
        /// A selector that finds the same objects for every pod.
        FixedSelector,
        /// A subject that cannot be understood.
        InvalidSubject,
        /// A subject that is nearly everybody.
        BroadSubject,
        /// A requester that no pod runs as.
        NoPod,
        /// The policy hands out nothing.
        GrantsNothing,
        /// A rule is about another API group than the connectors'.
        WrongApiGroup,
        /// A rule is about another capability than the policy.
        WrongPermission,
        /// A resource that no rule here may have.
        InvalidResource,
        /// A template where none is allowed, or one that cannot be read.
        InvalidTemplate,
        /// A template in a spelling that should not be used.
        AliasTemplate,
        /// No rule covers what a mount asks for.
        NoMountRule,
        /// A rule that only a pod of a fixed name could use.
        FixedResource,
        /// A kind whose objects are no approvals.
        KindRefused,
        /// Approvers on a kind that does not record its approvers.
        ApproversUnsupported,
        /// The policy does not say whose approvals count.
        ApproversOpen,
        /// More approvals are wanted than there are approvers.
        ApproversTooFew,
        /// Labels are believed that the pod's author can write.
        LabelsBelieved,
        /// A proof is wanted that this version cannot give.
        ProofUnavailable,
        /// A Rego module is none that could decide.
        RegoInvalid,
        /// A Rego module goes beyond what it may use.
        RegoLimit,
        /// A Rego module never looks at the object that it judges.
        ObjectIgnored,
    }
}

/// One thing to say about a policy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The field, as `kubectl explain` would be asked for it, with list positions in brackets.
    pub path: String,
    /// What is wrong.
    pub code: FindingCode,
    /// How bad it is.
    pub severity: Severity,
    /// The same as a sentence.
    pub message: String,
    /// What would help.
    pub fix: String,
}

const GRANTED: &str = "spec.checkGrantedPermission";
/// Where the fields belong that stand in one place only, and are written in others.
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

/// What to do about a field that is not known in its place. A field that is known elsewhere is misplaced, not
/// misspelt.
fn instead(field: &str, likely: Option<&str>) -> String {
    let place = PLACES.iter().find(|(known, _)| *known == field);
    match (place, likely) {
        (Some((_, place)), _) => format!("`{field}` belongs under {place}"),
        (None, Some(word)) => format!("write `{word}`"),
        (None, None) => "remove it".to_owned(),
    }
}

/// More findings help no reader.
const MOST: usize = 256;
/// A message may quote the policy, but not all of it.
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
            // An error must not be crowded out by warnings.
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
