//! Comments are plain technical English: a sentence about code names the part of the code that it is about.

use super::{Violation, modules::CrateModules};

const RULE: &str = "name the part of the code instead (docs/development.md, Words)";

/// The words that hide the subject of a sentence, in any case.
const HIDING: [&str; 4] = ["whoever", "nobody", "somebody", "everybody"];

/// The question words that begin a doc comment in place of its subject.
const BEGINNINGS: [&str; 4] = ["Who", "Whose", "Whom", "What"];

/// The text of a comment, without its marks.
struct SourceComment<'a> {
    line: usize,
    text: &'a str,
    begins_doc: bool,
}

/// The comments that do not keep the rule.
pub(super) fn check(modules: &CrateModules) -> Vec<Violation> {
    let mut violations = Vec::new();
    for (name, modules) in modules {
        for module in modules {
            let path = match module.path.as_str() {
                "" => "lib",
                path => path,
            };
            let lines = module
                .lines
                .iter()
                .map(|(line, text)| (*line, text.as_str()));
            for comment in comments(lines) {
                let from = format!("{name} ({path}, line {})", comment.line);
                let violation = |verb: &'static str, word: &str| Violation {
                    from: from.clone(),
                    verb,
                    to: format!("`{word}`"),
                    rule: RULE,
                };
                let hiding = hiding(comment.text).map(|word| violation("comments with", word));
                violations.extend(hiding);
                let beginning = BEGINNINGS.iter().find(|it| begins_with(&comment, it));
                violations.extend(beginning.map(|it| violation("begins a doc comment with", it)));
            }
        }
    }
    violations
}

fn hiding(text: &str) -> impl Iterator<Item = &'static str> {
    HIDING.into_iter().filter(|word| {
        let mut words = text.split(|it: char| !it.is_alphanumeric());
        words.any(|it| it.eq_ignore_ascii_case(word))
    })
}

fn begins_with(comment: &SourceComment<'_>, word: &str) -> bool {
    let rest = comment.text.strip_prefix(word);
    comment.begins_doc && rest.is_some_and(|rest| rest.starts_with(' '))
}

/// The comments in lines, one for each line.
fn comments<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
) -> impl Iterator<Item = SourceComment<'a>> {
    let mut last_doc = None;
    lines.filter_map(move |(line, text)| {
        let before = last_doc.take();
        let code = text.trim_start();
        for mark in ["///", "//!"] {
            if let Some(rest) = code.strip_prefix(mark) {
                let begins_doc = before != Some(mark);
                last_doc = Some(mark);
                return Some(SourceComment {
                    line,
                    text: rest.trim_start(),
                    begins_doc,
                });
            }
        }
        behind_code(code).map(|text| SourceComment {
            line,
            text,
            begins_doc: false,
        })
    })
}

/// The text behind `//`, which is no comment within a string.
fn behind_code(code: &str) -> Option<&str> {
    let mut places = code.match_indices("// ");
    let is_code = |at: usize| code[..at].matches('"').count().is_multiple_of(2);
    let (at, mark) = places.find(|(at, _)| is_code(*at))?;
    Some(code[at + mark.len()..].trim_start())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_are_found_on_lines_of_their_own_and_behind_code_but_not_in_strings() {
        let text = "//! a\n//! b\n\n/// c\nfn d() {} // e\nlet f = \"// g\";\nlet h = \"i\"; // j\n// k\n/// l\n";
        let found: Vec<_> = comments((1..).zip(text.lines()))
            .map(|it| (it.line, it.text, it.begins_doc))
            .collect();
        assert_eq!(
            found,
            [
                (1, "a", true),
                (2, "b", false),
                (4, "c", true),
                (5, "e", false),
                (7, "j", false),
                (8, "k", false),
                (9, "l", true),
            ]
        );
    }

    #[test]
    fn hiding_words_are_found_in_any_case_and_only_as_words() {
        let found = |text: &str| hiding(text).collect::<Vec<_>>();
        assert_eq!(found("Nobody's turn, WHOEVER asks"), ["whoever", "nobody"]);
        assert_eq!(found("`nobody_asks` somebodys"), ["nobody"]);
        assert_eq!(found("no task, each caller"), Vec::<&str>::new());
    }
}
