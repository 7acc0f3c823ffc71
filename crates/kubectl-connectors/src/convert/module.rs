//! Rego modules of `package check` with `result`, as modules of `package approval` with `output`.
//!
//! The rules of a module stay as they are. Its package line is replaced, and one rule is added that says the answer in
//! this product's words. Nothing here parses Rego: parsing is left to the worker processes, which judge the converted
//! policy. So a module is refused as soon as its text has a word that could mean something else under the new package.
//! The form of its input is never guessed: under the wrong one every field is undefined, and `not` would hold.

use super::facts::ShippedVersion;
use super::module_reads::{ModuleReads, UnknownReads};

/// Reads the conditions that decide by default there. One that is True passes, one that is False rejects, and with
/// several all must be True.
pub(super) const CONDITIONS: &str = r#"package approval

# The state by the conditions Ready and Succeeded.
found := [condition.status |
  some condition in input.status.conditions
  condition.type in {"Ready", "Succeeded"}
]

default output := {"state": "pending"}

output := {"state": "rejected"} if {
  "False" in found
} else := {"state": "passed"} if {
  count(found) > 0
  every status in found { status == "True" }
}
"#;

/// The name of the added rule.
const ADDED: &str = "converted_answers";

/// The input of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModuleInput {
    /// It reads nothing, so every input is the same.
    Nothing,
    /// The check object, as it is here too.
    Object,
    /// The check object under `object`.
    Wrapped,
}

/// A module in this product's form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct AdaptedModule {
    pub(super) rego: String,
    pub(super) input: ModuleInput,
    /// The parts of the check object that it reads.
    pub(super) reads: ModuleReads,
}

/// Why a module cannot be adapted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ModuleProblem {
    /// Its package is another one. There, it is never asked.
    Package,
    /// It has no `result`.
    NoResult,
    /// It reads the check, whose form is not known here.
    ReadsCheck,
    /// It names something that is another thing under the new package.
    Ambiguous(&'static str),
    /// It reads its input in a way of which the form is not known.
    Input,
    /// It has a text without an end, or one that is put together from parts.
    OddText,
    /// Its input has another form in the version that the policies come from.
    OtherVersion(ShippedVersion),
}

impl ModuleProblem {
    pub(super) fn message(self) -> String {
        match self {
            Self::Package => "is not of package check, so its answer is undefined there and the check never passes".to_owned(),
            Self::NoResult => "defines no result, so its answer is undefined there and the check never passes".to_owned(),
            Self::ReadsCheck => "reads input.check, which modules here do not get".to_owned(),
            Self::Ambiguous(word) => format!("has the word `{word}`, which is another thing in the adapted module"),
            Self::Input => "does not name a field behind each `input`, or `object` behind some of them alone: the form of its input is not known".to_owned(),
            Self::OddText => "has a text without an end, or one with values in it".to_owned(),
            Self::OtherVersion(ShippedVersion::V1_12) => "reads input.object, which is undefined in version 1.12: it does not say there what it means".to_owned(),
            Self::OtherVersion(ShippedVersion::V1_14) => "reads other fields of input than object, which are undefined in version 1.14: it does not say there what it means".to_owned(),
        }
    }
}

/// A module with the same rules and an answer in this product's words. `from` is the version that it comes from, if that is
/// known.
pub(super) fn adapted(
    module: &str,
    from: Option<ShippedVersion>,
) -> Result<AdaptedModule, ModuleProblem> {
    let (before, body) = split(module).ok_or(ModuleProblem::Package)?;
    // The first is a way to the rules of the package by its old name, under which `not` would always hold.
    for word in ["data", "output", ADDED] {
        if mentions(body, word) {
            return Err(ModuleProblem::Ambiguous(word));
        }
    }
    if !mentions(body, "result") {
        return Err(ModuleProblem::NoResult);
    }
    let reads = ModuleReads::of(body).map_err(|unknown| match unknown {
        UnknownReads::WholeInput => ModuleProblem::Input,
        UnknownReads::OddText => ModuleProblem::OddText,
        UnknownReads::Word(word) => ModuleProblem::Ambiguous(word),
    })?;
    if reads_check(body) {
        return Err(ModuleProblem::ReadsCheck);
    }
    let (input, reads) = match reads.beginning_with("object") {
        (_, 0) => (ModuleInput::Nothing, reads),
        (0, _) => (ModuleInput::Object, reads),
        (wrapped, all) if wrapped == all => (ModuleInput::Wrapped, reads.below()),
        (_, _) => return Err(ModuleProblem::Input),
    };
    match (input, from) {
        (ModuleInput::Object, Some(version @ ShippedVersion::V1_14))
        | (ModuleInput::Wrapped, Some(version @ ShippedVersion::V1_12)) => {
            return Err(ModuleProblem::OtherVersion(version));
        }
        _ => {}
    }
    let result = match input {
        ModuleInput::Nothing | ModuleInput::Object => "result",
        ModuleInput::Wrapped => "result with input as {\"object\": input}",
    };
    let body = body.trim_end();
    let rego = format!(
        r#"{before}package approval
{body}

# The answer in the words of package approval. Added by `kubectl connectors convert`.
{ADDED} := [answer |
  verdict := {result}
  words := {{"True": "passed", "False": "rejected"}}
  state := object.get(words, object.get(verdict, "status", ""), "pending")
  message := object.get(verdict, "message", object.get(verdict, "reason", ""))
  answer := {{"state": state, "message": message}}
]

output := {ADDED}[0]
"#
    );
    Ok(AdaptedModule { rego, input, reads })
}

/// The comments before the package line, and what follows it. None if the package is another one than `check`.
fn split(module: &str) -> Option<(&str, &str)> {
    let mut start = 0;
    for line in module.split_inclusive('\n') {
        let text = line.trim();
        if text.is_empty() || text.starts_with('#') {
            start += line.len();
            continue;
        }
        let mut words = text.split_whitespace();
        let is_check = words.next() == Some("package") && words.next() == Some("check");
        let is_all = words.next().is_none_or(|it| it.starts_with('#'));
        let before = module.get(..start)?;
        let body = module.get(start + line.len()..)?;
        return (is_check && is_all).then_some((before, body));
    }
    None
}

/// True when the text may read `input.check`, in any spelling.
pub(super) fn reads_check(text: &str) -> bool {
    mentions(text, "check") || mentions_behind_dot(text, "check")
}

const fn is_part_of_word(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_'
}

/// True when a word stands somewhere, alone and not behind a dot. Comments and texts count too.
fn mentions(text: &str, word: &str) -> bool {
    found(text, word, |before| before != Some(b'.'))
}

fn mentions_behind_dot(text: &str, word: &str) -> bool {
    found(text, word, |before| before == Some(b'.'))
}

fn found(text: &str, word: &str, accepts: impl Fn(Option<u8>) -> bool) -> bool {
    let bytes = text.as_bytes();
    text.match_indices(word).any(|(at, _)| {
        let before = at.checked_sub(1).and_then(|it| bytes.get(it)).copied();
        let after = bytes.get(at + word.len()).copied();
        !before.is_some_and(is_part_of_word)
            && !after.is_some_and(is_part_of_word)
            && accepts(before)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OF_THE_OBJECT: &str = "\
# Comment.
package check

default result = {\"status\": \"Unknown\"}
result = {\"status\": \"True\"} { input.status.state == \"approved\" }
";

    #[test]
    fn a_module_keeps_its_rules_and_gets_the_answer_of_this_product() {
        let AdaptedModule { rego, input, .. } = adapted(OF_THE_OBJECT, None).unwrap();
        assert!(
            rego.starts_with("# Comment.\npackage approval\n\ndefault result"),
            "{rego}"
        );
        assert!(rego.contains("verdict := result\n"), "{rego}");
        assert!(rego.ends_with("output := converted_answers[0]\n"), "{rego}");
        assert_eq!(input, ModuleInput::Object);
        for wrapped in ["input.object.status", "input[\"object\"].status"] {
            let wrapped = OF_THE_OBJECT.replace("input.status", wrapped);
            let AdaptedModule { rego, input, .. } = adapted(&wrapped, None).unwrap();
            assert!(
                rego.contains("result with input as {\"object\": input}"),
                "{rego}"
            );
            assert_eq!(input, ModuleInput::Wrapped);
        }
    }

    /// Under the wrong form every field is undefined, so that `not` holds.
    #[test]
    fn the_form_of_the_input_is_read_from_its_uses_alone() {
        let with = |line: &str| format!("{OF_THE_OBJECT}{line}\n");
        for (line, input) in [
            ("# the object", Ok(ModuleInput::Object)),
            ("x := \"input.object\"", Ok(ModuleInput::Object)),
            (
                "x := object.get(input.spec, \"frozen\", false)",
                Ok(ModuleInput::Object),
            ),
            ("x := input.spec.object", Ok(ModuleInput::Object)),
            ("x := input.object.spec", Err(ModuleProblem::Input)),
            ("x := input", Err(ModuleProblem::Input)),
            ("x := input[key]", Err(ModuleProblem::Input)),
            (
                "x := result with input as {}",
                Err(ModuleProblem::Ambiguous("with")),
            ),
            (
                "import input.object as o",
                Err(ModuleProblem::Ambiguous("import")),
            ),
            ("x := \"open", Err(ModuleProblem::OddText)),
        ] {
            let found = adapted(&with(line), None).map(|it| it.input);
            assert_eq!(found, input, "{line}");
        }
        let nothing = "package check\nresult = {\"status\": \"True\"}\n";
        for from in [
            None,
            Some(ShippedVersion::V1_12),
            Some(ShippedVersion::V1_14),
        ] {
            let found = adapted(nothing, from).map(|it| it.input);
            assert_eq!(found, Ok(ModuleInput::Nothing));
        }
    }

    #[test]
    fn a_module_of_the_other_version_is_not_adapted() {
        let wrapped = OF_THE_OBJECT.replace("input.status", "input.object.status");
        let (old, new) = (ShippedVersion::V1_12, ShippedVersion::V1_14);
        assert!(adapted(OF_THE_OBJECT, Some(old)).is_ok());
        assert!(adapted(&wrapped, Some(new)).is_ok());
        for (module, from) in [(OF_THE_OBJECT, new), (&wrapped, old)] {
            let found = adapted(module, Some(from));
            assert_eq!(found, Err(ModuleProblem::OtherVersion(from)));
        }
    }

    #[test]
    fn a_module_that_could_mean_something_else_is_not_adapted() {
        let with = |line: &str| format!("{OF_THE_OBJECT}{line}\n");
        for (module, problem) in [
            (
                OF_THE_OBJECT.replace("package check", "package approval"),
                ModuleProblem::Package,
            ),
            (
                OF_THE_OBJECT.replace("package check", "package check.sub"),
                ModuleProblem::Package,
            ),
            (
                OF_THE_OBJECT.replace("package check", "package"),
                ModuleProblem::Package,
            ),
            (String::new(), ModuleProblem::Package),
            (
                OF_THE_OBJECT.replace("result", "output"),
                ModuleProblem::Ambiguous("output"),
            ),
            (
                OF_THE_OBJECT.replace("result", "answer"),
                ModuleProblem::NoResult,
            ),
            (
                with("ok { not data.check.bad }"),
                ModuleProblem::Ambiguous("data"),
            ),
            (with("output = 1"), ModuleProblem::Ambiguous("output")),
            (
                with("converted_answers = 1"),
                ModuleProblem::Ambiguous("converted_answers"),
            ),
            (with("ok { input.check.params }"), ModuleProblem::ReadsCheck),
            (
                with("ok { input[\"check\"].params }"),
                ModuleProblem::ReadsCheck,
            ),
        ] {
            assert_eq!(adapted(&module, None), Err(problem), "{module}");
        }
        for harmless in [
            "checks := 1",
            "x := input.metadata",
            "y := input.output",
            "# package check",
            "z := input.data",
        ] {
            let module = with(harmless);
            let adapted = adapted(&module, None);
            // A comment with the word is taken for a use of it: that costs a conversion, and never access.
            assert_eq!(
                adapted.is_ok(),
                !harmless.contains("package"),
                "{harmless}: {adapted:?}"
            );
        }
    }
}
