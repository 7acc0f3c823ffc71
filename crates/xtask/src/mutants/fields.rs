//! The part of TOML that fault files use: keys with a text or a list of texts. Anything else is refused, so
//! that a file means the same to every other reader of TOML.

use std::collections::BTreeMap;

use anyhow::{Context, bail, ensure};

/// The value of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Field {
    Text(String),
    List(Vec<String>),
}

/// All fields of a file.
pub(super) fn read(text: &str) -> anyhow::Result<BTreeMap<String, Field>> {
    let mut fields = BTreeMap::new();
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        if rest.starts_with('#') {
            rest = rest
                .split_once('\n')
                .map_or("", |(_, after)| after.trim_start());
            continue;
        }
        let (key, after) = rest.split_once('=').context("a line without `=`")?;
        let key = key.trim();
        let is_bare = !key.is_empty()
            && key
                .chars()
                .all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        ensure!(is_bare, "`{key}` is no key");
        let (field, after) = value(after.trim_start()).with_context(|| key.to_owned())?;
        let (end, after) = after.split_once('\n').unwrap_or((after, ""));
        ensure!(end.trim().is_empty(), "{key}: `{end}` follows the value");
        ensure!(
            fields.insert(key.to_owned(), field).is_none(),
            "{key} stands there twice"
        );
        rest = after.trim_start();
    }
    Ok(fields)
}

fn value(text: &str) -> anyhow::Result<(Field, &str)> {
    let Some(mut rest) = text.strip_prefix('[') else {
        let (text, rest) = string(text)?;
        return Ok((Field::Text(text), rest));
    };
    let mut list = Vec::new();
    loop {
        rest = rest.trim_start();
        if let Some(rest) = rest.strip_prefix(']') {
            return Ok((Field::List(list), rest));
        }
        let (text, after) = string(rest)?;
        list.push(text);
        let after = after.trim_start();
        rest = after.strip_prefix(',').unwrap_or(after);
        ensure!(after.starts_with([',', ']']), "a list without `]`");
    }
}

fn string(text: &str) -> anyhow::Result<(String, &str)> {
    if let Some(text) = text.strip_prefix("'''") {
        // The format leaves out the end of line behind the quotes.
        let text = text.strip_prefix('\n').unwrap_or(text);
        let (text, rest) = text.split_once("'''").context("a text without end")?;
        return Ok((text.to_owned(), rest));
    }
    for quote in ['\'', '"'] {
        if let Some(text) = text.strip_prefix(quote) {
            let (text, rest) = text.split_once(quote).context("a text without end")?;
            ensure!(!text.contains('\n'), "a text without end");
            ensure!(
                quote == '\'' || !text.contains('\\'),
                "`\\` needs single quotes"
            );
            return Ok((text.to_owned(), rest));
        }
    }
    bail!("neither a text nor a list")
}
