//! The parser of the kubectl dialect. It accepts a subset: refused texts give an error with a position, and
//! accepted texts mean the same in kubectl (except for double-quoted keys).

mod brackets;

use super::path::{Path, PathStep, begins_descendants, breaks_key, is_plain};
use super::{Expression, LONGEST, TemplateError, TemplatePart, TemplateProblem, root};

type Parsed<T> = Result<T, TemplateError>;

/// Splits a template into texts and paths.
pub(super) fn parts(text: &str) -> Parsed<Vec<TemplatePart>> {
    let mut cursor = Cursor { text, at: 0 };
    if text.is_empty() {
        return Err(cursor.error(TemplateProblem::Empty));
    }
    if text.len() > LONGEST {
        return Err(cursor.error(TemplateProblem::TooLong));
    }
    if let Some(at) = text.find(char::is_control) {
        return Err(Cursor { text, at }.error(TemplateProblem::Control));
    }
    let mut parts = Vec::new();
    loop {
        let plain = cursor.take_until('{');
        if !plain.is_empty() {
            parts.push(TemplatePart::Text(plain.to_owned()));
        }
        if cursor.peek().is_none() {
            return Ok(parts);
        }
        parts.push(cursor.action()?);
    }
}

/// A position in a template.
#[derive(Clone, Copy)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    fn rest(self) -> &'a str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(self) -> Option<char> {
        self.rest().chars().next()
    }

    /// The next character, which must exist because the brace is open.
    fn expect(self) -> Parsed<char> {
        self.peek()
            .ok_or_else(|| self.error(TemplateProblem::Unclosed))
    }

    fn advance(&mut self, letter: char) {
        self.at += letter.len_utf8();
    }

    fn eat(&mut self, expected: &str) -> bool {
        let eaten = self.rest().starts_with(expected);
        if eaten {
            self.at += expected.len();
        }
        eaten
    }

    fn require(&mut self, expected: &str) -> Parsed<()> {
        if self.eat(expected) {
            return Ok(());
        }
        let letter = self.expect()?;
        Err(self.error(TemplateProblem::Unexpected(letter)))
    }

    fn skip_spaces(&mut self) {
        while self.eat(" ") {}
    }

    fn take_until(&mut self, end: char) -> &'a str {
        let rest = self.rest();
        let taken = rest.split(end).next().unwrap_or_default();
        self.at += taken.len();
        taken
    }

    fn error(self, problem: TemplateProblem) -> TemplateError {
        let before = self.text.get(..self.at).unwrap_or(self.text);
        TemplateError {
            at: before.chars().count() + 1,
            problem,
        }
    }

    /// Parses from the opening to the closing brace.
    fn action(&mut self) -> Parsed<TemplatePart> {
        let open = *self;
        self.require("{")?;
        self.skip_spaces();
        let begin = *self;
        let part = match self.expect()? {
            '}' => return Err(self.error(TemplateProblem::NoPath)),
            '"' | '\'' => TemplatePart::Text(self.quoted_text()?),
            _ => {
                self.known_word()?;
                let steps = self.path()?;
                let (steps, respelled) =
                    root::canonical(steps).ok_or_else(|| begin.error(TemplateProblem::Root))?;
                let path = Path::new(steps).map_err(|problem| begin.error(problem))?;
                TemplatePart::Path(Expression {
                    written: String::new(),
                    path,
                    respelled,
                })
            }
        };
        self.skip_spaces();
        self.require("}")?;
        Ok(match part {
            TemplatePart::Text(text) => TemplatePart::Text(text),
            TemplatePart::Path(expression) => TemplatePart::Path(Expression {
                written: self
                    .text
                    .get(open.at..self.at)
                    .unwrap_or_default()
                    .to_owned(),
                ..expression
            }),
        })
    }

    /// kubectl's keywords get a specific error.
    fn known_word(self) -> Parsed<()> {
        let word = self
            .rest()
            .split(|letter: char| !letter.is_alphanumeric())
            .next();
        match word {
            Some("range" | "end") => Err(self.error(TemplateProblem::Loop)),
            _ => Ok(()),
        }
    }

    fn path(&mut self) -> Parsed<Vec<PathStep>> {
        let begin = *self;
        let _ = self.eat("$") || self.eat("@");
        let steps = self.steps()?;
        if steps.is_empty() {
            return Err(begin.error(TemplateProblem::Root));
        }
        Ok(steps)
    }

    fn steps(&mut self) -> Parsed<Vec<PathStep>> {
        let mut steps = Vec::new();
        loop {
            steps.push(if self.eat("..") {
                PathStep::Descendants(self.descendants()?)
            } else if self.eat(".") {
                if self.eat("*") {
                    PathStep::Wildcard
                } else {
                    PathStep::Field(self.name(is_plain)?)
                }
            } else if self.eat("[") {
                self.brackets()?
            } else {
                return Ok(steps);
            });
        }
    }

    fn descendants(&mut self) -> Parsed<String> {
        let begin = *self;
        match self.expect()? {
            letter if begins_descendants(letter) => self.name(is_plain),
            '[' => {
                self.advance('[');
                if !matches!(self.expect()?, '\'' | '"') {
                    return Err(begin.error(TemplateProblem::Descendants));
                }
                let key = self.key()?;
                self.require("]")?;
                Ok(key)
            }
            _ => Err(begin.error(TemplateProblem::Descendants)),
        }
    }

    /// A name of plain characters, and of others after a backslash.
    fn name(&mut self, plain: fn(char) -> bool) -> Parsed<String> {
        let begin = *self;
        let mut name = String::new();
        while let Some(letter) = self.peek() {
            if letter == '\\' {
                self.advance(letter);
                let escaped = self.expect()?;
                if escaped == '\\' {
                    return Err(self.error(TemplateProblem::Backslash));
                }
                name.push(escaped);
                self.advance(escaped);
            } else if plain(letter) {
                name.push(letter);
                self.advance(letter);
            } else {
                break;
            }
        }
        if name.is_empty() {
            return Err(begin.error(TemplateProblem::NoName));
        }
        Ok(name)
    }

    /// A name in quotes. kubectl parses the text between them like a name after a dot.
    fn key(&mut self) -> Parsed<String> {
        let quote = self.expect()?;
        self.advance(quote);
        let begin = *self;
        let key = self.name(is_plain)?;
        if let Some(letter) = key.chars().find(|letter| breaks_key(*letter)) {
            return Err(begin.error(TemplateProblem::InKey(letter)));
        }
        match self.expect()? {
            letter if letter == quote => self.advance(letter),
            letter if breaks_key(letter) => {
                return Err(self.error(TemplateProblem::InKey(letter)));
            }
            letter => return Err(self.error(TemplateProblem::UnescapedInKey(letter))),
        }
        Ok(key)
    }

    /// A text in quotes, with the escapes that Go and RFC 9535 have in common.
    fn quoted_text(&mut self) -> Parsed<String> {
        let quote = self.expect()?;
        self.advance(quote);
        let mut text = String::new();
        loop {
            let letter = self.expect()?;
            self.advance(letter);
            if letter == quote {
                return Ok(text);
            }
            if letter == '\\' {
                let escaped = self.expect()?;
                if escaped != quote && escaped != '\\' {
                    return Err(self.error(TemplateProblem::Escape));
                }
                self.advance(escaped);
                text.push(escaped);
            } else {
                text.push(letter);
            }
        }
    }
}
