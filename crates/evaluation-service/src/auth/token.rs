//! What can be seen of a token without asking anybody.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use evaluation_api::TOKEN_AUDIENCE;
use jiff::Timestamp;
use serde::Deserialize;
use tonic::metadata::MetadataMap;

pub(super) fn bearer(metadata: &MetadataMap) -> Option<&str> {
    let mut values = metadata.get_all("authorization").iter();
    let value = values.next()?.to_str().ok()?;
    // Two of them could mean different things to different readers.
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    (is_bearer && !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()))
        .then_some(token)
}

/// Whether a token says of itself that it is for us and not over. Nothing is verified here, so a yes
/// lets nobody in; but what says no need not be reviewed.
pub(super) fn may_be_for_us(token: &str, now: Timestamp) -> bool {
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return false;
    };
    let Ok(payload) = URL_SAFE_NO_PAD.decode(payload) else {
        return false;
    };
    serde_json::from_slice(&payload).is_ok_and(|Claims { aud, exp }| {
        // Fractions are allowed by the format and mean nothing here.
        #[allow(
            clippy::cast_precision_loss,
            reason = "seconds are exact for a long time"
        )]
        let now = now.as_second() as f64;
        aud.names_us() && exp > now
    })
}

#[derive(Deserialize)]
struct Claims {
    aud: Audiences,
    exp: f64,
}

/// One or several: the format allows both.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl Audiences {
    fn names_us(&self) -> bool {
        match self {
            Self::One(one) => one == TOKEN_AUDIENCE,
            Self::Several(several) => several.iter().any(|one| one == TOKEN_AUDIENCE),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn metadata(values: &[&str]) -> MetadataMap {
        let mut metadata = MetadataMap::new();
        for value in values {
            metadata.append("authorization", value.parse().unwrap());
        }
        metadata
    }

    #[test]
    fn exactly_one_bearer_token_is_one() {
        assert_eq!(bearer(&metadata(&["Bearer a.b"])), Some("a.b"));
        assert_eq!(bearer(&metadata(&["bearer a.b"])), Some("a.b"));
        for wrong in [
            &[][..],
            &[""],
            &["Bearer"],
            &["Bearer "],
            &["Basic a.b"],
            &["Bearer a b"],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(bearer(&metadata(wrong)), None, "{wrong:?}");
        }
    }

    fn token(payload: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload.to_string()))
    }

    #[test]
    fn only_what_says_that_it_is_for_us_and_not_over_is_looked_at_further() {
        let now = Timestamp::from_second(1000).unwrap();
        let us = TOKEN_AUDIENCE;
        for (payload, expected) in [
            (json!({"aud": [us], "exp": 1001}), true),
            (json!({"aud": us, "exp": 1001, "sub": "x"}), true),
            (json!({"aud": ["other", us], "exp": 1000.5}), true),
            (json!({"aud": [us], "exp": 1000}), false),
            (json!({"aud": [us], "exp": -1}), false),
            (json!({"aud": [us], "exp": "1001"}), false),
            (json!({"aud": [us], "exp": null}), false),
            (json!({"aud": [us]}), false),
            (json!({"aud": ["other"], "exp": 1001}), false),
            (json!({"aud": [], "exp": 1001}), false),
            (json!({"aud": "", "exp": 1001}), false),
            (json!({"aud": null, "exp": 1001}), false),
            (json!({"exp": 1001}), false),
            (json!([us]), false),
            (json!(null), false),
        ] {
            assert_eq!(may_be_for_us(&token(&payload), now), expected, "{payload}");
        }
    }

    #[test]
    fn what_has_not_the_shape_of_a_token_is_none() {
        let now = Timestamp::from_second(1000).unwrap();
        let good = token(&json!({"aud": [TOKEN_AUDIENCE], "exp": 1001}));
        assert!(may_be_for_us(&good, now));
        let payload = good.split('.').nth(1).unwrap();
        for wrong in [
            String::new(),
            "a".to_owned(),
            payload.to_owned(),
            format!("a.{payload}"),
            format!("a.{payload}.b.c"),
            format!("a.{payload}=.b"),
            "a..b".to_owned(),
            "a.!.b".to_owned(),
        ] {
            assert!(!may_be_for_us(&wrong, now), "{wrong}");
        }
    }
}
