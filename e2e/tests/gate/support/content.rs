//! What a pod prints of its volume, read.

use std::collections::BTreeMap;

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use serde_json::Value;

/// The files of a pod's output by name, each with its text.
pub(crate) fn printed(output: &str) -> BTreeMap<&str, &str> {
    let files = output.split("== ").skip(1);
    files.filter_map(|file| file.split_once('\n')).collect()
}

/// The claims of a token.
pub(crate) fn claims(token: &str) -> Value {
    let claims = token.split('.').nth(1).unwrap();
    let claims = URL_SAFE_NO_PAD.decode(claims).unwrap();
    serde_json::from_slice(&claims).unwrap()
}
