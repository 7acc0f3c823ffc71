//! Paths, by Go's package path; sprig's `os…` are the same on Linux.

use super::{Call, Function, Result, Takes, function};
use crate::value::Value;

const TEXT: &[Takes] = &[Takes::Text];

pub(super) const FUNCTIONS: &[Function] = &[
    function("base", TEXT, |call| call.make(base(&call.text(0)))),
    function("osBase", TEXT, |call| call.make(base(&call.text(0)))),
    function("dir", TEXT, dir),
    function("osDir", TEXT, dir),
    function("clean", TEXT, |call| call.make(clean(&call.text(0)))),
    function("osClean", TEXT, |call| call.make(clean(&call.text(0)))),
    function("ext", TEXT, |call| call.make(extension(&call.text(0)))),
    function("osExt", TEXT, |call| call.make(extension(&call.text(0)))),
    function("isAbs", TEXT, is_absolute),
    function("osIsAbs", TEXT, is_absolute),
];

fn is_absolute(call: &Call<'_>) -> Result {
    Ok(Value::Bool(call.text(0).starts_with('/')))
}

fn dir(call: &Call<'_>) -> Result {
    let text = call.text(0);
    let end = text.rfind('/').map_or(0, |at| at + 1);
    call.make(clean(text.get(..end).unwrap_or_default()))
}

fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let path = path.trim_end_matches('/');
    match path.rsplit('/').next() {
        Some("") | None => "/",
        Some(last) => last,
    }
}

fn extension(path: &str) -> &str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let at = name.rfind('.');
    at.and_then(|at| name.get(at..)).unwrap_or_default()
}

fn clean(path: &str) -> String {
    let is_rooted = path.starts_with('/');
    let mut kept: Vec<&str> = Vec::new();
    for piece in path.split('/') {
        match piece {
            "" | "." => {}
            ".." if kept.last().is_some_and(|it| *it != "..") => {
                kept.pop();
            }
            ".." if is_rooted => {}
            _ => kept.push(piece),
        }
    }
    let joined = kept.join("/");
    match (is_rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}
