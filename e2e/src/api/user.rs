//! Users that calls are made as, and that reviews ask about.

use http::{HeaderMap, HeaderName, HeaderValue};
use serde_json::{Value, json};

/// A user as an authenticator would name it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiUser {
    name: String,
    groups: Vec<String>,
    extra: Vec<(String, String)>,
}

/// Every user that is not anonymous is in it.
const AUTHENTICATED: &str = "system:authenticated";

impl ApiUser {
    /// A user in no group of its own.
    #[must_use]
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            groups: Vec::new(),
            extra: Vec::new(),
        }
    }

    /// A service account with its groups.
    #[must_use]
    pub fn service_account(namespace: &str, name: &str) -> Self {
        Self::named(&format!("system:serviceaccount:{namespace}:{name}"))
            .in_group("system:serviceaccounts")
            .in_group(&format!("system:serviceaccounts:{namespace}"))
    }

    /// The same user in one more group.
    #[must_use]
    pub fn in_group(mut self, group: &str) -> Self {
        self.groups.push(group.to_owned());
        self
    }

    /// The same user with one more fact that an authenticator adds.
    #[must_use]
    pub fn with_extra(mut self, key: &str, value: &str) -> Self {
        self.extra.push((key.to_owned(), value.to_owned()));
        self
    }

    /// The headers of a call that is made as this user.
    pub(super) fn headers(&self) -> Result<HeaderMap, http::Error> {
        let mut headers = HeaderMap::new();
        let user = HeaderName::from_static("impersonate-user");
        headers.append(user, HeaderValue::from_str(&self.name)?);
        for group in &self.groups {
            let name = HeaderName::from_static("impersonate-group");
            headers.append(name, HeaderValue::from_str(group)?);
        }
        for (key, value) in &self.extra {
            // Of the letters that such keys have, this one alone may not be in a header's name.
            let name = format!("impersonate-extra-{}", key.replace('/', "%2f"));
            headers.append(HeaderName::try_from(name)?, HeaderValue::from_str(value)?);
        }
        Ok(headers)
    }

    /// The review that asks whether this user has the right of these `resourceAttributes`.
    pub(super) fn review(&self, attributes: &Value) -> Value {
        let groups = self.groups.iter().map(String::as_str);
        let groups: Vec<&str> = groups.chain([AUTHENTICATED]).collect();
        let extra: serde_json::Map<String, Value> = self
            .extra
            .iter()
            .map(|(key, value)| (key.clone(), json!([value])))
            .collect();
        json!({
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": self.name, "groups": groups, "extra": extra, "resourceAttributes": attributes,
            },
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_impersonated_with_its_groups_and_facts() {
        let user = ApiUser::service_account("a", "b").with_extra("x.io/node-name", "n");
        let headers = user.headers().unwrap();
        assert_eq!(headers["impersonate-user"], "system:serviceaccount:a:b");
        let groups: Vec<_> = headers.get_all("impersonate-group").iter().collect();
        assert_eq!(
            groups,
            ["system:serviceaccounts", "system:serviceaccounts:a"]
        );
        assert_eq!(headers["impersonate-extra-x.io%2fnode-name"], "n");
    }

    #[test]
    fn a_user_without_groups_is_reviewed_as_authenticated() {
        let review = ApiUser::named("ada").review(&json!({"verb": "get"}));
        let spec = json!({
            "user": "ada", "groups": ["system:authenticated"], "extra": {},
            "resourceAttributes": {"verb": "get"},
        });
        assert_eq!(review["spec"], spec);
    }

    #[test]
    fn a_name_that_no_header_can_have_is_an_error() {
        ApiUser::named("a\nb").headers().unwrap_err();
    }
}
