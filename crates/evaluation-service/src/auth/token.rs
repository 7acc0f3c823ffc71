//! The claims of a token, before any review.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;
use serde::Deserialize;

pub(super) fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let value = values.next()?.to_str().ok()?;
    // Different readers could interpret two of them differently.
    if values.next().is_some() {
        return None;
    }
    let (scheme, token) = value.split_once(' ')?;
    let is_bearer = scheme.eq_ignore_ascii_case("bearer");
    (is_bearer && !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()))
        .then_some(token)
}

/// The claims' verdict on a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Looks {
    /// It may be good. Nothing was verified, so this admits no caller.
    Good,
    /// It is for another audience.
    WrongAudience,
    /// It is not a token, or it has expired.
    Bad,
}

/// Checks the claims of a token. A token that does not look good is not reviewed.
pub(super) fn looks(token: &str, audience: &str, now: Timestamp) -> Looks {
    let Some(Claims { aud, exp }) = claims(token) else {
        return Looks::Bad;
    };
    // The format allows fractions, which mean nothing here.
    #[allow(
        clippy::cast_precision_loss,
        reason = "seconds are exact for a long time"
    )]
    let now = now.as_second() as f64;
    if exp.is_nan() || exp <= now {
        Looks::Bad
    } else if aud.names(audience) {
        Looks::Good
    } else {
        Looks::WrongAudience
    }
}

fn claims(token: &str) -> Option<Claims> {
    let mut parts = token.split('.');
    let (Some(_), Some(payload), Some(_), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return None;
    };
    let payload = URL_SAFE_NO_PAD.decode(payload).ok()?;
    serde_json::from_slice(&payload).ok()
}

#[derive(Deserialize)]
struct Claims {
    aud: Audiences,
    exp: f64,
}

/// One audience or several: the format allows both.
#[derive(Deserialize)]
#[serde(untagged)]
enum Audiences {
    One(String),
    Several(Vec<String>),
}

impl Audiences {
    fn names(&self, audience: &str) -> bool {
        match self {
            Self::One(one) => one == audience,
            Self::Several(several) => several.iter().any(|one| one == audience),
        }
    }
}

#[cfg(test)]
mod tests {
    use evaluation_api::TOKEN_AUDIENCE;
    use serde_json::{Value, json};

    use super::*;

    fn headers(values: &[&str]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append(AUTHORIZATION, value.parse().unwrap());
        }
        headers
    }

    #[test]
    fn exactly_one_bearer_token_is_one() {
        assert_eq!(bearer(&headers(&["Bearer a.b"])), Some("a.b"));
        assert_eq!(bearer(&headers(&["bearer a.b"])), Some("a.b"));
        for wrong in [
            &[][..],
            &[""],
            &["Bearer"],
            &["Bearer "],
            &["Basic a.b"],
            &["Bearer a b"],
            &["Bearer a", "Bearer b"],
        ] {
            assert_eq!(bearer(&headers(wrong)), None, "{wrong:?}");
        }
    }

    fn token(payload: &Value) -> String {
        format!("e30.{}.c2ln", URL_SAFE_NO_PAD.encode(payload.to_string()))
    }

    #[test]
    fn only_what_says_that_it_is_for_us_and_not_over_is_looked_at_further() {
        let now = Timestamp::from_second(1000).unwrap();
        let us = TOKEN_AUDIENCE;
        let (good, bad, other) = (Looks::Good, Looks::Bad, Looks::WrongAudience);
        for (payload, expected) in [
            (json!({"aud": [us], "exp": 1001}), good),
            (json!({"aud": us, "exp": 1001, "sub": "x"}), good),
            (json!({"aud": ["other", us], "exp": 1000.5}), good),
            (json!({"aud": [us], "exp": 1000}), bad),
            (json!({"aud": [us], "exp": -1}), bad),
            (json!({"aud": [us], "exp": "1001"}), bad),
            (json!({"aud": [us], "exp": null}), bad),
            (json!({"aud": [us]}), bad),
            (json!({"aud": ["other"], "exp": 1001}), other),
            (json!({"aud": [], "exp": 1001}), other),
            (json!({"aud": "", "exp": 1001}), other),
            (json!({"aud": null, "exp": 1001}), bad),
            (json!({"exp": 1001}), bad),
            (json!([us]), bad),
            (json!(null), bad),
        ] {
            assert_eq!(looks(&token(&payload), us, now), expected, "{payload}");
        }
    }

    #[test]
    fn what_has_not_the_shape_of_a_token_is_none() {
        let now = Timestamp::from_second(1000).unwrap();
        let good = token(&json!({"aud": [TOKEN_AUDIENCE], "exp": 1001}));
        assert_eq!(looks(&good, TOKEN_AUDIENCE, now), Looks::Good);
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
            assert_eq!(looks(&wrong, TOKEN_AUDIENCE, now), Looks::Bad, "{wrong}");
        }
    }
}
