//! Divides a text into pieces of plain text and the tokens of actions.

#[cfg(test)]
mod tests;

use crate::unicode::{is_digit, is_letter};

/// A piece of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TemplateToken {
    pub(crate) kind: TokenKind,
    pub(crate) from: usize,
    pub(crate) to: usize,
}

/// The kind of a token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TokenKind {
    Text,
    Open,
    Close,
    Space,
    Bool,
    Number,
    Complex,
    Character,
    Quoted,
    Raw,
    /// `.name`
    Field,
    Name,
    /// `$` or `$name`
    Variable,
    Dot,
    Nil,
    Assign,
    Declare,
    Pipe,
    OpenParen,
    CloseParen,
    /// A comma, and other characters that mean nothing.
    Other,
    Block,
    Break,
    Continue,
    Define,
    Else,
    End,
    If,
    Range,
    Template,
    With,
    /// The end of the text.
    Eof,
}

/// A text that no token begins.
#[derive(Debug)]
pub(crate) struct LexError {
    pub(crate) from: usize,
    pub(crate) to: usize,
    pub(crate) problem: &'static str,
}

type Lexed<T = ()> = Result<T, LexError>;

/// All tokens of a text; the last one is its end.
pub(crate) fn tokens(text: &str) -> Lexed<Vec<TemplateToken>> {
    let mut lexer = Lexer {
        text,
        at: 0,
        start: 0,
        parens: 0,
        tokens: Vec::new(),
    };
    lexer.texts()?;
    Ok(lexer.tokens)
}

struct Lexer<'t> {
    text: &'t str,
    at: usize,
    /// Where the current token began.
    start: usize,
    parens: usize,
    tokens: Vec<TemplateToken>,
}

/// The spaces that Go trims around an action.
const SPACES: [char; 4] = [' ', '\t', '\r', '\n'];

fn is_space(character: char) -> bool {
    SPACES.contains(&character)
}

fn is_word(character: char) -> bool {
    character == '_' || is_letter(character) || is_digit(character)
}

impl<'t> Lexer<'t> {
    fn rest(&self) -> &'t str {
        self.text.get(self.at..).unwrap_or_default()
    }

    fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.at += next.len_utf8();
        Some(next)
    }

    fn emit(&mut self, kind: TokenKind) {
        self.tokens.push(TemplateToken {
            kind,
            from: self.start,
            to: self.at,
        });
        self.start = self.at;
    }

    fn error<T>(&self, problem: &'static str) -> Lexed<T> {
        Err(LexError {
            from: self.start,
            to: self.at,
            problem,
        })
    }

    /// Plain text and the actions in it.
    fn texts(&mut self) -> Lexed {
        while let Some(length) = self.rest().find("{{") {
            let open = self.at + length;
            let trims = trims_before(self.text.get(open + 2..).unwrap_or_default());
            let text = self.text.get(self.at..open).unwrap_or_default();
            let kept = if trims {
                text.trim_end_matches(SPACES)
            } else {
                text
            };
            self.at += kept.len();
            if !kept.is_empty() {
                self.emit(TokenKind::Text);
            }
            (self.start, self.at) = (open, open + 2);
            let marker = if trims { 2 } else { 0 };
            if self
                .text
                .get(self.at + marker..)
                .is_some_and(|it| it.starts_with("/*"))
            {
                self.at += marker + 2;
                self.comment()?;
            } else {
                self.emit(TokenKind::Open);
                self.at += marker;
                self.start = self.at;
                self.parens = 0;
                self.action()?;
            }
        }
        self.at = self.text.len();
        if self.at > self.start {
            self.emit(TokenKind::Text);
        }
        self.emit(TokenKind::Eof);
        Ok(())
    }

    fn comment(&mut self) -> Lexed {
        let Some(length) = self.rest().find("*/") else {
            return self.error("unclosed comment");
        };
        self.at += length + 2;
        if !self.close() {
            return self.error("comment ends before closing delimiter");
        }
        self.start = self.at;
        Ok(())
    }

    /// Goes beyond the end of an action, if it is here, and the spaces that it trims.
    fn close(&mut self) -> bool {
        let rest = self.rest();
        let trimmed = rest
            .strip_prefix(SPACES)
            .and_then(|it| it.strip_prefix("-}}"));
        if let Some(after) = trimmed {
            self.at = self.text.len() - after.trim_start_matches(SPACES).len();
            return true;
        }
        if rest.starts_with("}}") {
            self.at += 2;
            return true;
        }
        false
    }

    /// Up to the end of an action.
    fn action(&mut self) -> Lexed {
        loop {
            self.start = self.at;
            if self.close() {
                if self.parens > 0 {
                    return self.error("unclosed left paren");
                }
                let end = self.at;
                self.at = self.start;
                self.at += self.rest().find("}}").unwrap_or(0) + 2;
                self.emit(TokenKind::Close);
                (self.at, self.start) = (end, end);
                return Ok(());
            }
            let Some(first) = self.next() else {
                return self.error("unclosed action");
            };
            self.token(first)?;
        }
    }

    fn token(&mut self, first: char) -> Lexed {
        match first {
            _ if is_space(first) => self.space(),
            '=' => self.emit(TokenKind::Assign),
            ':' => {
                if self.next() != Some('=') {
                    return self.error("expected :=");
                }
                self.emit(TokenKind::Declare);
            }
            '|' => self.emit(TokenKind::Pipe),
            '"' => return self.quoted('"', TokenKind::Quoted),
            '\'' => return self.quoted('\'', TokenKind::Character),
            '`' => {
                let Some(length) = self.rest().find('`') else {
                    return self.error("unterminated raw quoted string");
                };
                self.at += length + 1;
                self.emit(TokenKind::Raw);
            }
            '$' => return self.word(TokenKind::Variable, TokenKind::Variable),
            '.' if !self.peek().is_some_and(|it| it.is_ascii_digit()) => {
                // Go takes a point at the very end for a number.
                if self.rest().is_empty() {
                    return self.error("bad number syntax");
                }
                return self.word(TokenKind::Field, TokenKind::Dot);
            }
            '.' | '+' | '-' | '0'..='9' => {
                self.at = self.start;
                return self.number();
            }
            '(' => {
                self.parens += 1;
                self.emit(TokenKind::OpenParen);
            }
            ')' => {
                if self.parens == 0 {
                    return self.error("unexpected right paren");
                }
                self.parens -= 1;
                self.emit(TokenKind::CloseParen);
            }
            _ if is_word(first) => return self.name(),
            ' '..='~' => self.emit(TokenKind::Other),
            _ => return self.error("unrecognized character in action"),
        }
        Ok(())
    }

    /// A run of spaces, without the one that belongs to the end of the action.
    fn space(&mut self) {
        while let Some(next) = self.peek().filter(|it| is_space(*it)) {
            if self
                .rest()
                .strip_prefix(next)
                .is_some_and(|it| it.starts_with("-}}"))
            {
                break;
            }
            self.at += 1;
        }
        self.emit(TokenKind::Space);
    }

    fn quoted(&mut self, quote: char, kind: TokenKind) -> Lexed {
        loop {
            match self.next() {
                Some(character) if character == quote => break,
                Some('\\') if self.peek().is_some_and(|it| it != '\n') => {
                    self.next();
                }
                None | Some('\n' | '\\') => return self.error("unterminated quoted string"),
                Some(_) => {}
            }
        }
        self.emit(kind);
        Ok(())
    }

    /// Whether the next character can follow a word.
    fn is_end_of_word(&self) -> bool {
        let is_end = |it: char| is_space(it) || ".,|:)(".contains(it);
        self.peek().is_none_or(is_end) || self.rest().starts_with("}}")
    }

    /// A field or variable, whose first character was read.
    fn word(&mut self, kind: TokenKind, alone: TokenKind) -> Lexed {
        if self.is_end_of_word() {
            self.emit(alone);
            return Ok(());
        }
        self.letters()?;
        self.emit(kind);
        Ok(())
    }

    fn letters(&mut self) -> Lexed {
        while self.peek().is_some_and(is_word) {
            self.next();
        }
        if self.is_end_of_word() {
            return Ok(());
        }
        self.next();
        self.error("bad character")
    }

    fn name(&mut self) -> Lexed {
        self.letters()?;
        let word = self.text.get(self.start..self.at).unwrap_or_default();
        self.emit(match word {
            "block" => TokenKind::Block,
            "break" => TokenKind::Break,
            "continue" => TokenKind::Continue,
            "define" => TokenKind::Define,
            "else" => TokenKind::Else,
            "end" => TokenKind::End,
            "if" => TokenKind::If,
            "range" => TokenKind::Range,
            "nil" => TokenKind::Nil,
            "template" => TokenKind::Template,
            "with" => TokenKind::With,
            "true" | "false" => TokenKind::Bool,
            _ => TokenKind::Name,
        });
        Ok(())
    }

    /// Reads text that looks like a number. The parser decides whether it is one.
    fn number(&mut self) -> Lexed {
        let is_whole = self.digits();
        if !is_whole {
            return self.error("bad number syntax");
        }
        if self.peek().is_some_and(|it| matches!(it, '+' | '-')) {
            let is_whole = self.digits();
            let written = self.text.get(self.start..self.at).unwrap_or_default();
            if !is_whole || !written.ends_with('i') {
                return self.error("bad number syntax");
            }
            self.emit(TokenKind::Complex);
        } else {
            self.emit(TokenKind::Number);
        }
        Ok(())
    }

    fn accept(&mut self, valid: &str) -> bool {
        let is_valid = self.peek().is_some_and(|it| valid.contains(it));
        if is_valid {
            self.next();
        }
        is_valid
    }

    fn digits(&mut self) -> bool {
        self.accept("+-");
        let mut digits = "0123456789_";
        if self.accept("0") {
            if self.accept("xX") {
                digits = "0123456789abcdefABCDEF_";
            } else if self.accept("oO") {
                digits = "01234567_";
            } else if self.accept("bB") {
                digits = "01_";
            }
        }
        while self.accept(digits) {}
        if self.accept(".") {
            while self.accept(digits) {}
        }
        let exponent = match digits.len() {
            11 => "eE",
            23 => "pP",
            _ => "",
        };
        if !exponent.is_empty() && self.accept(exponent) {
            self.accept("+-");
            while self.accept("0123456789_") {}
        }
        self.accept("i");
        if self.peek().is_some_and(is_word) {
            self.next();
            return false;
        }
        true
    }
}

/// Whether an action that goes on like this trims the text before it.
fn trims_before(action: &str) -> bool {
    action
        .strip_prefix('-')
        .is_some_and(|it| it.starts_with(SPACES))
}
