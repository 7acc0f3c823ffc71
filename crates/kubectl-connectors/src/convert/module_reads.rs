//! The parts of its input that a Rego module reads, by the words of its text.
//!
//! Comments and texts are passed over; nothing else of Rego is understood. So each use of `input` must have a field right
//! behind it. Any other use could read everything, and is a problem.

use std::collections::BTreeMap;

use connectors_api::shared_fields::is_shared;

/// A piece of a module's text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct ModuleToken<'a> {
    kind: ModuleTokenKind,
    /// The word, or the content of the text.
    text: &'a str,
    start: usize,
    end: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ModuleTokenKind {
    Word,
    Text,
    Sign,
}

/// The fields that a module reads of its input, each as the names that lead to it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ModuleReads(Vec<Vec<String>>);

/// Why it is not known what a module reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownReads {
    /// `input` stands without a field behind it.
    WholeInput,
    /// A text has no end, or is put together from parts.
    OddText,
    /// The word gives `input` another meaning or another name.
    Word(&'static str),
}

impl ModuleReads {
    /// Reads the text of a module.
    pub(super) fn of(module: &str) -> Result<Self, UnknownReads> {
        let tokens = tokens(module).ok_or(UnknownReads::OddText)?;
        let mut reads = Self::default();
        for (place, token) in tokens.iter().enumerate() {
            let before = place.checked_sub(1).and_then(|it| tokens.get(it));
            let is_field = before.is_some_and(|it| it.is_sign(".") && it.end == token.start);
            if token.kind != ModuleTokenKind::Word || is_field {
                continue;
            }
            let rest = tokens.get(place + 1..).unwrap_or_default();
            match token.text {
                "with" => return Err(UnknownReads::Word("with")),
                // `import rego.v1` and `import future.keywords` name no values.
                "import" if !rest.first().is_some_and(is_keyword_package) => {
                    return Err(UnknownReads::Word("import"));
                }
                "input" => match path(token.end, rest) {
                    path if path.is_empty() => return Err(UnknownReads::WholeInput),
                    path => reads.0.push(path),
                },
                _ => {}
            }
        }
        Ok(reads)
    }

    /// How many of the reads begin with this field, and how many there are.
    pub(super) fn beginning_with(&self, field: &str) -> (usize, usize) {
        let begins = |it: &&Vec<String>| it.first().is_some_and(|first| first == field);
        (self.0.iter().filter(begins).count(), self.0.len())
    }

    /// The reads below a field, without it.
    pub(super) fn below(self) -> Self {
        let rest = self
            .0
            .into_iter()
            .map(|it| it.into_iter().skip(1).collect());
        Self(rest.collect())
    }

    /// The fields that a policy of another namespace does not see, when it selects by these labels.
    pub(super) fn hidden(&self, labels: &BTreeMap<String, String>) -> Vec<String> {
        let is_selected_by = |path: &[String]| match path {
            [metadata, all, label, ..] => {
                metadata == "metadata" && all == "labels" && labels.contains_key(label)
            }
            _ => false,
        };
        let hidden = self
            .0
            .iter()
            .filter(|it| !is_shared(it, &[]) && !is_selected_by(it));
        let mut hidden: Vec<_> = hidden
            .map(|it| match it.as_slice() {
                [] => "the whole object".to_owned(),
                path => path.join("."),
            })
            .collect();
        hidden.sort();
        hidden.dedup();
        hidden
    }
}

fn is_keyword_package(token: &ModuleToken<'_>) -> bool {
    token.kind == ModuleTokenKind::Word && matches!(token.text, "rego" | "future")
}

/// The fields that stand right behind the end of a word. A field that is computed ends the path: all below it may be read.
fn path(mut end: usize, mut rest: &[ModuleToken<'_>]) -> Vec<String> {
    let mut path = Vec::new();
    loop {
        match rest {
            [dot, name, after @ ..]
                if dot.is_sign(".")
                    && dot.start == end
                    && name.kind == ModuleTokenKind::Word
                    && name.start == dot.end =>
            {
                path.push(name.text.to_owned());
                (end, rest) = (name.end, after);
            }
            [open, name, close, after @ ..]
                if open.is_sign("[")
                    && open.start == end
                    && name.kind == ModuleTokenKind::Text
                    && !name.text.contains('\\')
                    && close.is_sign("]") =>
            {
                path.push(name.text.to_owned());
                (end, rest) = (close.end, after);
            }
            _ => return path,
        }
    }
}

impl ModuleToken<'_> {
    fn is_sign(&self, sign: &str) -> bool {
        self.kind == ModuleTokenKind::Sign && self.text == sign
    }
}

/// The pieces of a text, without its comments. None for a text without an end, and for one with values in it.
fn tokens(module: &str) -> Option<Vec<ModuleToken<'_>>> {
    let mut found = Vec::new();
    let mut letters = module.char_indices().peekable();
    while let Some((start, letter)) = letters.next() {
        let first = start + letter.len_utf8();
        let (kind, from, to, end) = match letter {
            '#' => {
                while letters.next_if(|(_, it)| *it != '\n').is_some() {}
                continue;
            }
            '$' => return None,
            '"' | '`' => {
                let mut close = None;
                while let Some((at, it)) = letters.next() {
                    if it == letter {
                        close = Some(at);
                        break;
                    }
                    if letter == '"' && it == '\\' {
                        letters.next();
                    }
                }
                let close = close?;
                (ModuleTokenKind::Text, first, close, close + 1)
            }
            _ if letter.is_alphanumeric() || letter == '_' => {
                let mut end = first;
                while let Some((at, it)) =
                    letters.next_if(|(_, it)| it.is_alphanumeric() || *it == '_')
                {
                    end = at + it.len_utf8();
                }
                (ModuleTokenKind::Word, start, end, end)
            }
            _ if letter.is_whitespace() => continue,
            _ => (ModuleTokenKind::Sign, start, first, first),
        };
        found.push(ModuleToken {
            kind,
            text: module.get(from..to)?,
            start,
            end,
        });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reads(module: &str) -> Result<Vec<String>, UnknownReads> {
        let reads = ModuleReads::of(module)?;
        Ok(reads.0.iter().map(|it| it.join("/")).collect())
    }

    #[test]
    fn the_fields_right_behind_input_are_read() {
        for (module, paths) in [
            ("x := input.a.b", &["a/b"][..]),
            ("x := input[\"a\"].b[\"c.d\"]", &["a/b/c.d"]),
            ("x := input[`a`]", &["a"]),
            ("x := input.a[i].b", &["a"]),
            ("x := input.a\n.b", &["a"]),
            ("x := input.a[\"b\\u0063\"]", &["a"]),
            ("x := y.input.a", &[]),
            ("# input.a \"\nx := input.b", &["b"]),
            ("x := \"input.a \\\" input\" # y\ny := input.b", &["b"]),
            ("x := `\\`\ny := input.b", &["b"]),
            ("inputs := my_input.a", &[]),
            ("x := object.get(input.a, \"object\", {})", &["a"]),
            (
                "import rego.v1\nimport future.keywords.if\nx := input.a",
                &["a"],
            ),
        ] {
            let paths: Vec<_> = paths.iter().map(|it| (*it).to_owned()).collect();
            assert_eq!(reads(module), Ok(paths), "{module}");
        }
    }

    #[test]
    fn a_module_that_may_read_everything_is_a_problem() {
        for (module, problem) in [
            ("x := input", UnknownReads::WholeInput),
            ("x := input[key]", UnknownReads::WholeInput),
            ("x := input[\"obj\\u0065ct\"]", UnknownReads::WholeInput),
            ("x := input .a", UnknownReads::WholeInput),
            ("x := f(input)", UnknownReads::WholeInput),
            ("x := \"open", UnknownReads::OddText),
            ("x := `open", UnknownReads::OddText),
            ("x := $\"{input.a}\"", UnknownReads::OddText),
            ("x := y with z as 1", UnknownReads::Word("with")),
            ("import input.object as o", UnknownReads::Word("import")),
            ("import data.a", UnknownReads::Word("import")),
        ] {
            assert_eq!(reads(module), Err(problem), "{module}");
        }
    }

    #[test]
    fn what_a_policy_of_another_namespace_does_not_see_is_hidden() {
        let module = "x := [input.status.a, input.metadata.name, input.metadata.labels.run, input.spec.b, \
                      input.metadata.labels, input.spec.b, input.metadata.labels.other]";
        let labels = BTreeMap::from([("run".to_owned(), String::new())]);
        let reads = ModuleReads::of(module).unwrap();
        assert_eq!(
            reads.hidden(&labels),
            ["metadata.labels", "metadata.labels.other", "spec.b"]
        );
        let whole = ModuleReads::of("x := input.object").unwrap().below();
        assert_eq!(whole.hidden(&labels), ["the whole object"]);
    }
}
