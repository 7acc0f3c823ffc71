//! What the webhook says, read as its authors read it.

use std::{collections::BTreeSet, time::Duration};

use json_patch::Patch;
use k8s_openapi::ByteString;
use serde_json::Value;

use super::{
    generate::Case,
    reference::{Expected, Why},
};

/// An answer and how long it took.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Value,
    pub(super) took: Duration,
}

/// The words by which a reason is known.
const WORDS: [(Why, &str); 25] = [
    (Why::Misrouted, "are admitted here"),
    (Why::Misrouted, "without an object"),
    (Why::Misrouted, "without a namespace"),
    (Why::LargeUser, "userInfo"),
    (Why::BadName, "not the name of an object"),
    (
        Why::ConnectorNamespace,
        "spec.connectorRef.namespace: must be",
    ),
    (Why::SubjectNamespace, "spec.subject.namespace: must be"),
    (Why::Hidden, "there is no such pod, or you may not get it"),
    (Why::Missing, "there is no pod "),
    (Why::NoUid, "objectRef.uid: required"),
    (Why::OtherUid, "has another UID"),
    (Why::OtherAccount, " runs as "),
    (Why::Finished, "has finished"),
    (Why::Deleting, "is being deleted"),
    (Why::NoNode, "does not prove which node it is on"),
    (Why::OtherNode, "is not on the node of this node plugin"),
    (Why::ManyRequests, "has 16 requests in this namespace"),
    (
        Why::NotAll,
        "you may not update every connector of the namespace",
    ),
    (Why::NotNamed, "spec.connector.names: you may not update "),
    (Why::ManyPolicies, "has 256 access policies"),
    (
        Why::PodUnknown,
        "the pod cannot be looked up now; try again",
    ),
    (Why::RequestsUnknown, "cannot be counted now; try again"),
    (
        Why::RightsUnknown,
        "what you may do cannot be looked up now; try again",
    ),
    (Why::RegoUnknown, "the evaluation service"),
    (Why::Late, "cannot be judged in time; try again"),
];

impl Why {
    pub(super) fn all() -> BTreeSet<Self> {
        let by_words = WORDS.iter().map(|(why, _)| *why);
        by_words
            .chain([Self::Content, Self::PoliciesUnknown])
            .collect()
    }
}

impl Answer {
    pub(super) fn is_allowed(&self) -> bool {
        self.body["response"]["allowed"] == true
    }

    fn message(&self) -> &str {
        self.body["response"]["status"]["message"]
            .as_str()
            .unwrap_or_default()
    }

    fn code(&self) -> u64 {
        self.body["response"]["status"]["code"]
            .as_u64()
            .unwrap_or_default()
    }

    fn warnings(&self) -> String {
        self.body["response"]["warnings"].to_string()
    }

    /// The object of the review with the patch.
    pub(super) fn patched(&self, object: &Value) -> Value {
        let mut object = object.clone();
        let response = &self.body["response"];
        if !response["patch"].is_null() {
            assert_eq!(response["patchType"], "JSONPatch");
            let patch: ByteString = serde_json::from_value(response["patch"].clone()).unwrap();
            let patch: Patch = serde_json::from_slice(&patch.0).unwrap();
            json_patch::patch(&mut object, &patch).unwrap();
        }
        object
    }

    /// The reasons that are told. Of what is wrong with the object itself any words are enough, of policies the words of a
    /// flaw that they have.
    fn reasons(&self, case: &Case) -> BTreeSet<Why> {
        let message = self.message();
        let is_policy = case.page == "/validate/accesspolicies";
        let told = WORDS.iter().filter(|(_, words)| message.contains(words));
        let mut reasons: BTreeSet<Why> = told.map(|(why, _)| *why).collect();
        // Of a policy, policies are counted.
        if is_policy && reasons.remove(&Why::RequestsUnknown) {
            reasons.insert(Why::PoliciesUnknown);
        }
        let rego = ["spec.rego: is odd"];
        let mut flaws = case.flaws.iter().chain(&rego);
        if is_policy && flaws.any(|it| message.contains(it)) || !is_policy && reasons.is_empty() {
            reasons.insert(Why::Content);
        }
        reasons
    }

    /// Complains where this is not what was expected.
    pub(super) fn complaint(&self, case: &Case, expected: &Expected) -> Option<String> {
        let response = &self.body["response"];
        if self.status != 200 || response["uid"] != case.review["request"]["uid"] {
            return Some("it is no answer to this review".to_owned());
        }
        // The API server waits five seconds, for a connector one.
        let limit = if case.page == "/mutate/connectors" {
            1000
        } else {
            4500
        };
        if self.took > Duration::from_millis(limit) {
            return Some(format!("it took {:?}", self.took));
        }
        let told = self.reasons(case);
        let code = told.iter().map(|it| it.code()).collect::<BTreeSet<_>>();
        match expected {
            Expected::Passes { object, warned } => {
                let patched = self.patched(&case.review["request"]["object"]);
                let warnings = self.warnings();
                let missing = warned.with.iter().find(|it| !warnings.contains(*it));
                let surplus = warned.without.iter().find(|it| warnings.contains(*it));
                if !self.is_allowed() {
                    Some("it is refused".to_owned())
                } else if object
                    .as_ref()
                    .is_some_and(|it| plain(it) != plain(&patched))
                {
                    Some(format!("it becomes {patched}"))
                } else if let Some(missing) = missing {
                    Some(format!("no warning says {missing:?}"))
                } else {
                    surplus.map(|it| format!("a warning says {it:?}"))
                }
            }
            _ if self.is_allowed() || !response["patch"].is_null() => Some("it passes".to_owned()),
            Expected::Refused(why) if told != *why => Some(format!("it is refused for {told:?}")),
            Expected::RefusedForSome(why) if told.is_empty() || !told.is_subset(why) => {
                Some(format!("it is refused for {told:?}"))
            }
            _ if Some(self.code()) != heaviest(&code) => {
                Some(format!("the code is {}", self.code()))
            }
            Expected::Refused(_) | Expected::RefusedForSome(_) => None,
        }
    }
}

/// What will not change outweighs what may, and what cannot be outweighs what is not for this author.
fn heaviest(codes: &BTreeSet<u16>) -> Option<u64> {
    let order = [400, 422, 403, 503];
    order
        .into_iter()
        .find(|it| codes.contains(it))
        .map(u64::from)
}

/// Without labels where there are none.
fn plain(object: &Value) -> Value {
    let mut object = object.clone();
    let metadata = object["metadata"].as_object_mut();
    if let Some(metadata) = metadata {
        let labels = metadata.get("labels");
        if labels
            .is_some_and(|it| it.is_null() || it.as_object().is_some_and(serde_json::Map::is_empty))
        {
            metadata.remove("labels");
        }
    }
    object
}
