//! Reads tokens into templates, by Go's rules.

#![expect(
    clippy::wildcard_enum_match_arm,
    reason = "of many kinds of tokens a few are expected, and all others are not"
)]

mod control;
mod literal;
mod pipeline;

use std::collections::BTreeMap;

use crate::{
    ast::{Node, Span},
    error::{ParseError, ParseProblem, Place},
    lexer::{Kind, Token, tokens},
    limits::Limits,
};

/// The templates of a text by name.
pub(crate) type Trees = BTreeMap<String, Vec<Node>>;

type Parsed<T = ()> = Result<T, ParseError>;

/// Reads a text. The template of the text as a whole has the given name.
pub(crate) fn parse(name: &str, text: &str, limits: &Limits) -> Parsed<Trees> {
    let mut parser = Parser {
        name,
        text,
        most: limits.nesting(),
        tokens: Vec::new(),
        at: 0,
        depth: 0,
        trees: Trees::new(),
        scope: Scope::default(),
    };
    if text.len() > limits.text {
        let limit = crate::error::Limit::Text(limits.text);
        return Err(parser.error(Span { from: 0, to: 0 }, limit.into()));
    }
    parser.tokens = tokens(text).map_err(|error| {
        let span = Span {
            from: error.from,
            to: error.to,
        };
        parser.error(span, ParseProblem::Syntax(error.problem.to_owned()))
    })?;
    let nodes = parser.whole()?;
    parser.add(name.to_owned(), nodes)?;
    Ok(parser.trees)
}

/// What a template that is being read knows. Each one begins anew.
#[derive(Debug)]
struct Scope {
    variables: Vec<String>,
    ranges: usize,
}

impl Default for Scope {
    fn default() -> Self {
        Self {
            variables: vec!["$".to_owned()],
            ranges: 0,
        }
    }
}

struct Parser<'t> {
    name: &'t str,
    text: &'t str,
    most: usize,
    tokens: Vec<Token>,
    at: usize,
    depth: usize,
    trees: Trees,
    scope: Scope,
}

/// How a list of nodes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    End,
    Else,
}

impl<'t> Parser<'t> {
    fn error(&self, span: Span, problem: ParseProblem) -> ParseError {
        ParseError {
            place: Place::of(self.name, self.text, span.from, span.to),
            problem,
        }
    }

    fn syntax<T>(&self, token: Token, problem: impl Into<String>) -> Parsed<T> {
        let span = Span {
            from: token.from,
            to: token.to,
        };
        Err(self.error(span, ParseProblem::Syntax(problem.into())))
    }

    fn unexpected<T>(&self, token: Token, context: &str) -> Parsed<T> {
        if token.kind == Kind::Eof {
            return self.syntax(token, format!("unexpected end of the text in {context}"));
        }
        let word: String = self.word(token).chars().take(20).collect();
        self.syntax(token, format!("unexpected {word:?} in {context}"))
    }

    fn word(&self, token: Token) -> &'t str {
        self.text.get(token.from..token.to).unwrap_or_default()
    }

    fn end(&self) -> Token {
        let end = self.text.len();
        Token {
            kind: Kind::Eof,
            from: end,
            to: end,
        }
    }

    fn peek(&self) -> Token {
        self.tokens
            .get(self.at)
            .copied()
            .unwrap_or_else(|| self.end())
    }

    fn next(&mut self) -> Token {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// The next token that is no space, which is then the next one.
    fn peek_word(&mut self) -> Token {
        while self.peek().kind == Kind::Space {
            self.at += 1;
        }
        self.peek()
    }

    fn next_word(&mut self) -> Token {
        self.peek_word();
        self.next()
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parsed<Token> {
        let token = self.next_word();
        if token.kind == kind {
            Ok(token)
        } else {
            self.unexpected(token, context)
        }
    }

    /// Goes one level deeper for what is read within.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        self.depth += 1;
        if self.depth > self.most {
            let token = self.peek();
            let span = Span {
                from: token.from,
                to: token.to,
            };
            let limit = crate::error::Limit::Depth(self.most);
            return Err(self.error(span, limit.into()));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Keeps a template, unless there is one of that name that is more than spaces.
    fn add(&mut self, name: String, nodes: Vec<Node>) -> Parsed {
        let is_new_empty = self.is_empty(&nodes);
        match self.trees.get(&name) {
            Some(old) if !self.is_empty(old) => {
                if is_new_empty {
                    return Ok(());
                }
                let token = self.peek();
                self.syntax(token, format!("multiple definition of template {name:?}"))
            }
            _ => {
                self.trees.insert(name, nodes);
                Ok(())
            }
        }
    }

    fn is_empty(&self, nodes: &[Node]) -> bool {
        nodes.iter().all(|node| match node {
            Node::Text(span) => {
                let text = self.text.get(span.from..span.to);
                text.unwrap_or_default().trim().is_empty()
            }
            Node::Action(_)
            | Node::If(_)
            | Node::With(_)
            | Node::Range(_)
            | Node::Template(_)
            | Node::Break
            | Node::Continue => false,
        })
    }
}
