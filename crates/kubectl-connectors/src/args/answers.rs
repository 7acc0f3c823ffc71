//! The arguments of `approve` and `reject`.

use std::fmt;
use std::time::Duration;

use connectors_api::names::is_dns_subdomain;

use super::CommonFlags;
use super::words::{ExplainTarget, explain_target, seconds};
use crate::terms::shell;

/// The longest message, in characters. The status of a request shows the first 256.
const LONGEST_MESSAGE: usize = 1024;

/// The arguments of `approve` and `reject`.
#[derive(Debug, clap::Args)]
pub struct AnswerArgs {
    /// KIND/NAME of the approval, or pod/NAME or areq/NAME for the approval that it waits for
    #[arg(value_name = "TARGET", value_parser = answer_target)]
    pub target: AnswerTarget,

    /// Of several approvals that a pod or a request waits for, this one
    #[arg(long, value_name = "KIND/NAME", value_parser = object_word)]
    pub only: Option<ObjectWord>,

    /// Answer for this group, where several groups of yours are approvers
    #[arg(long, value_name = "GROUP")]
    pub group: Option<String>,

    /// A message beside the answer, for kinds that have one
    #[arg(short, long, value_name = "TEXT", value_parser = message)]
    pub message: Option<String>,

    /// Write it without a question. It needs KIND/NAME or --only, and all effects have to be known
    #[arg(short, long)]
    pub yes: bool,

    /// Wait until the requests are decided: 60 seconds, or as many as are given
    #[arg(
        long,
        value_name = "SECONDS",
        value_parser = seconds,
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "60"
    )]
    pub wait: Option<Duration>,
}

impl CommonFlags {
    /// The flags by which the same command asks the same cluster as the same user, each with a space before it.
    #[must_use]
    pub fn typed_again(&self) -> String {
        let kubeconfig = self.kubeconfig.as_ref();
        let kubeconfig = kubeconfig.map(|it| it.display().to_string());
        let one = |flag: &str, value: Option<&String>| {
            value.map_or_else(String::new, |it| format!(" --{flag} {}", shell(it)))
        };
        let groups = self.as_groups.iter().map(|it| one("as-group", Some(it)));
        let groups: String = groups.collect();
        [
            one("kubeconfig", kubeconfig.as_ref()),
            one("context", self.context.as_ref()),
            one("cluster", self.cluster.as_ref()),
            one("user", self.user.as_ref()),
            one("as", self.as_user.as_ref()),
            groups,
            one("system-namespace", Some(&self.system_namespace)),
        ]
        .concat()
    }
}

/// The target of an answer. Its namespace is that of the command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AnswerTarget {
    /// The approval that a pod waits for.
    Pod(String),
    /// The approval that a request waits for.
    Request(String),
    /// An approval object.
    Object(ObjectWord),
}

/// An object as it is written: KIND/NAME.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectWord {
    /// The kind, its plural, or either with its group.
    pub kind: String,
    /// The name.
    pub name: String,
}

impl fmt::Display for ObjectWord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind, self.name)
    }
}

fn answer_target(text: &str) -> Result<AnswerTarget, String> {
    if !text.contains('/') {
        return Err("write KIND/NAME of an approval, pod/NAME or areq/NAME".to_owned());
    }
    match explain_target(text) {
        Ok(ExplainTarget::Pod(name)) => Ok(AnswerTarget::Pod(name)),
        Ok(ExplainTarget::Request(name)) => Ok(AnswerTarget::Request(name)),
        Ok(ExplainTarget::Connector(_)) => Err("a connector is no approval".to_owned()),
        Err(_) => object_word(text).map(AnswerTarget::Object),
    }
}

fn object_word(text: &str) -> Result<ObjectWord, String> {
    let (kind, name) = text.split_once('/').unwrap_or_default();
    if is_dns_subdomain(&kind.to_ascii_lowercase()) && is_dns_subdomain(name) {
        Ok(ObjectWord {
            kind: kind.to_owned(),
            name: name.to_owned(),
        })
    } else {
        Err("write KIND/NAME of an object".to_owned())
    }
}

fn message(text: &str) -> Result<String, String> {
    let is_plain = !text.chars().any(char::is_control);
    if !text.is_empty() && is_plain && text.chars().count() <= LONGEST_MESSAGE {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "write one line of at most {LONGEST_MESSAGE} characters"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_about_an_object_a_pod_or_a_request() {
        assert_eq!(
            answer_target("pod/a"),
            Ok(AnswerTarget::Pod("a".to_owned()))
        );
        let request = AnswerTarget::Request("a".to_owned());
        assert_eq!(answer_target("areq/a"), Ok(request));
        for kind in ["ApprovalTask", "changerequests.itsm.example.com"] {
            let object = AnswerTarget::Object(ObjectWord {
                kind: kind.to_owned(),
                name: "chg-42".to_owned(),
            });
            assert_eq!(answer_target(&format!("{kind}/chg-42")), Ok(object));
        }
        for wrong in [
            "chg-42",
            "connector/a",
            "pod/",
            "a b/c",
            "/a",
            "a/b/c",
            "kind/A",
        ] {
            assert!(answer_target(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_message_is_one_line_of_bounded_length() {
        assert_eq!(message("looks good"), Ok("looks good".to_owned()));
        for wrong in ["", "a\nb", "a\u{1b}[2J", &"x".repeat(LONGEST_MESSAGE + 1)] {
            assert!(message(wrong).is_err(), "{wrong:?}");
        }
    }
}
