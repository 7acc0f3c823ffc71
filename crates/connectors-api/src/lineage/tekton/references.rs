//! References to results, and other variables, within the texts of a pipeline task.

use serde_json::Value;

/// A reference to a result, within a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reference<'a> {
    pub(super) task: &'a str,
    pub(super) result: &'a str,
    pub(super) part: ResultPart<'a>,
    /// The reference as it is written.
    pub(super) written: &'a str,
}

/// The part of a result that a reference means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultPart<'a> {
    Whole,
    All,
    At(usize),
    Key(&'a str),
}

/// A piece of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    Reference(Reference<'a>),
    Retries,
    /// Only Tekton's controller knows the value. The text is the reference as written.
    Unknown(&'a str),
}

/// The number of retries of a pipeline task.
pub(super) const RETRIES: &str = "context.pipelineTask.retries";

/// The pieces of a text.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut from = 0;
    let mut rest = 0;
    while let Some((begin, inner, end)) = variable(text, from) {
        let piece = match inner {
            RETRIES => Piece::Retries,
            it if it.starts_with("tasks.") || it.starts_with("finally.") => {
                let written = text.get(begin..end).unwrap_or_default();
                let reference = Reference::parse(it, written);
                reference.map_or(Piece::Unknown(written), Piece::Reference)
            }
            // Another variable is Tekton's to fill in later, or none at all.
            _ => {
                from = begin + 2;
                continue;
            }
        };
        let before = text.get(rest..begin).unwrap_or_default();
        if !before.is_empty() {
            pieces.push(Piece::Text(before));
        }
        pieces.push(piece);
        (from, rest) = (end, end);
    }
    let after = text.get(rest..).unwrap_or_default();
    if !after.is_empty() || pieces.is_empty() {
        pieces.push(Piece::Text(after));
    }
    pieces
}

/// The next `$(…)`: its begin, its content, and its end.
fn variable(text: &str, from: usize) -> Option<(usize, &str, usize)> {
    let begin = from + text.get(from..)?.find("$(")?;
    let inner = text.get(begin + 2..)?;
    let inner = inner.get(..inner.find(')')?)?;
    Some((begin, inner, begin + 2 + inner.len() + 1))
}

impl<'a> Reference<'a> {
    /// `tasks.<task>.results.<result>`, perhaps with `[*]`, `[0]` or `.key`.
    fn parse(inner: &'a str, written: &'a str) -> Option<Self> {
        let mut parts = inner.split('.');
        let (Some("tasks"), Some(task), Some("results"), Some(result), key, None) = (
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
            parts.next(),
        ) else {
            return None;
        };
        let (result, part) = match (result.strip_suffix(']'), key) {
            (None, None) => (result, ResultPart::Whole),
            (None, Some(key)) => (result, ResultPart::Key(key)),
            (Some(indexed), None) => match indexed.split_once('[')? {
                (result, "*") => (result, ResultPart::All),
                (result, index) => (result, ResultPart::At(index.parse().ok()?)),
            },
            (Some(_), Some(_)) => return None,
        };
        let is_name = |it: &str| {
            let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
            !it.is_empty() && it.bytes().all(allowed)
        };
        let names = [task, result, key.unwrap_or("key")];
        names.into_iter().all(is_name).then_some(Self {
            task,
            result,
            part,
            written,
        })
    }
}

/// True when a list has an item that may stand for several.
pub(super) fn has_lists(items: &[Value]) -> bool {
    let is_reference = |it: &Value| {
        let text = it.as_str().unwrap_or_default();
        matches!(pieces(text).as_slice(), [Piece::Reference(_)])
    };
    items.iter().any(is_reference)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn references_are_found_in_texts_and_other_variables_stay_text() {
        let b = |part, written| {
            Piece::Reference(Reference {
                task: "a",
                result: "b",
                part,
                written,
            })
        };
        let whole = || b(ResultPart::Whole, "$(tasks.a.results.b)");
        for (text, expected) in [
            ("", vec![Piece::Text("")]),
            ("plain", vec![Piece::Text("plain")]),
            (
                "$(date) $(params.x)",
                vec![Piece::Text("$(date) $(params.x)")],
            ),
            ("$(tasks.a.results.b)", vec![whole()]),
            (
                "$(tasks.a.results.b[*])",
                vec![b(ResultPart::All, "$(tasks.a.results.b[*])")],
            ),
            (
                "$(tasks.a.results.b[12])",
                vec![b(ResultPart::At(12), "$(tasks.a.results.b[12])")],
            ),
            (
                "$(tasks.a.results.b.c)",
                vec![b(ResultPart::Key("c"), "$(tasks.a.results.b.c)")],
            ),
            (
                "x$(tasks.a.results.b)$(context.pipelineTask.retries)y",
                vec![Piece::Text("x"), whole(), Piece::Retries, Piece::Text("y")],
            ),
            ("$($(tasks.a.results.b)", vec![Piece::Text("$("), whole()]),
            (
                "$(tasks.a.results.b",
                vec![Piece::Text("$(tasks.a.results.b")],
            ),
            (
                "€$(tasks.a.results.b)€",
                vec![Piece::Text("€"), whole(), Piece::Text("€")],
            ),
        ] {
            assert_eq!(pieces(text), expected, "{text}");
        }
        for unknown in [
            "$(tasks.a.status)",
            "$(tasks.status)",
            "$(tasks.a.results['b'])",
            "$(tasks.a.results.b[x])",
            "$(tasks.a.results.b[*].c)",
            "$(tasks.a.results.b.c.d)",
            "$(tasks.a b.results.c)",
            "$(tasks..results.c)",
            "$(tasks.a.matrix.length)",
        ] {
            assert_eq!(pieces(unknown), [Piece::Unknown(unknown)]);
        }
    }
}
