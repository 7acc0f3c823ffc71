//! The API server's answer to the creation of a request.

use kube::core::Status;

/// The result of a creation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Created {
    /// It is there.
    Made,
    /// Something of that name was there before.
    Exists,
    /// There is no such namespace, or not for long, and so no such connector.
    NoNamespace,
    /// The quota of the namespace takes no more at the moment.
    QuotaFull,
    /// The API server or one of its webhooks does not accept it.
    Refused,
}

impl Created {
    /// The word in metrics.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Made => "made",
            Self::Exists => "exists",
            Self::NoNamespace => "no_namespace",
            Self::QuotaFull => "quota_full",
            Self::Refused => "refused",
        }
    }
}

/// The words of a quota about an object that it does not let in, after the words of every refusal: it is used up, it was not
/// counted yet, or there has to be one first. All of it can change without the object.
const QUOTA: [&str; 3] = [
    "exceeded quota: ",
    "status unknown for quota: ",
    "insufficient quota to consume: ",
];
const FORBIDDEN: &str = " is forbidden: ";
/// The cause in a refusal of a namespace that is being deleted.
const TERMINATING: &str = "NamespaceTerminating";

/// The meaning of a refusal; none if it is no answer, and the creation may be tried again.
#[must_use]
pub fn refusal(answer: &Status) -> Option<Created> {
    let Status {
        code,
        message,
        details,
        ..
    } = answer;
    let causes = details.iter().flat_map(|details| &details.causes);
    let is_terminating = || causes.clone().any(|cause| cause.reason == TERMINATING);
    let is_quota = || {
        let why = message.split_once(FORBIDDEN);
        why.is_some_and(|(_, why)| QUOTA.iter().any(|words| why.starts_with(words)))
    };
    match code {
        409 => Some(Created::Exists),
        404 => Some(Created::NoNamespace),
        403 if is_terminating() => Some(Created::NoNamespace),
        403 if is_quota() => Some(Created::QuotaFull),
        400 | 403 | 422 => Some(Created::Refused),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_refusal_has_one_meaning_and_what_may_pass_has_none() {
        let of_server = |why: &str| format!("accessrequests \"areq-1\" is forbidden: {why}");
        let quota = "exceeded quota: q, requested: count/accessrequests=1";
        for (code, message, reason, expected) in [
            (409, String::new(), "", Some(Created::Exists)),
            (404, String::new(), "", Some(Created::NoNamespace)),
            (
                403,
                of_server("no"),
                "NamespaceTerminating",
                Some(Created::NoNamespace),
            ),
            (403, of_server(quota), "", Some(Created::QuotaFull)),
            (403, of_server("no"), "", Some(Created::Refused)),
            // The webhooks of others say no quota.
            (
                403,
                format!("admission webhook \"w\" denied the request: {quota}"),
                "",
                Some(Created::Refused),
            ),
            (400, String::new(), "", Some(Created::Refused)),
            (422, String::new(), "", Some(Created::Refused)),
            (401, String::new(), "", None),
            (429, String::new(), "", None),
            (500, String::new(), "", None),
            (503, String::new(), "", None),
        ] {
            let answer = json!({
                "code": code, "message": message, "details": {"causes": [{"reason": reason, "message": ""}]},
            });
            let answer: Status = serde_json::from_value(answer).unwrap();
            assert_eq!(refusal(&answer), expected, "{code} {message}");
        }
    }
}
