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
    ast::{Span, TemplateNode},
    error::{TemplateParseError, TemplateParseProblem, TemplatePlace},
    lexer::{TemplateToken, TokenKind, tokens},
    limits::TemplateLimits,
};

/// The templates of a text by name.
pub(crate) type Trees = BTreeMap<String, Vec<TemplateNode>>;

type ParsedBlock<T = ()> = Result<T, TemplateParseError>;

/// Reads a text. The template of the text as a whole has the given name.
pub(crate) fn parse(name: &str, text: &str, limits: &TemplateLimits) -> ParsedBlock<Trees> {
    let mut parser = Parser {
        name,
        text,
        most: limits.nesting(),
        tokens: Vec::new(),
        at: 0,
        depth: 0,
        trees: Trees::new(),
        scope: VariableScope::default(),
    };
    if text.len() > limits.text {
        let limit = crate::error::TemplateLimit::Text(limits.text);
        return Err(parser.error(Span { from: 0, to: 0 }, limit.into()));
    }
    parser.tokens = tokens(text).map_err(|error| {
        let span = Span {
            from: error.from,
            to: error.to,
        };
        parser.error(span, TemplateParseProblem::Syntax(error.problem.to_owned()))
    })?;
    let nodes = parser.whole()?;
    parser.add(name.to_owned(), nodes)?;
    Ok(parser.trees)
}

/// The variables and ranges of the template that is being parsed. Each template starts empty.
#[derive(Debug)]
struct VariableScope {
    variables: Vec<String>,
    ranges: usize,
}

impl Default for VariableScope {
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
    tokens: Vec<TemplateToken>,
    at: usize,
    depth: usize,
    trees: Trees,
    scope: VariableScope,
}

/// How a list of nodes ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    End,
    Else,
}

impl<'t> Parser<'t> {
    fn error(&self, span: Span, problem: TemplateParseProblem) -> TemplateParseError {
        TemplateParseError {
            place: TemplatePlace::of(self.name, self.text, span.from, span.to),
            problem: problem.cut(),
        }
    }

    fn syntax<T>(&self, token: TemplateToken, problem: impl Into<String>) -> ParsedBlock<T> {
        let span = Span {
            from: token.from,
            to: token.to,
        };
        Err(self.error(span, TemplateParseProblem::Syntax(problem.into())))
    }

    fn unexpected<T>(&self, token: TemplateToken, context: &str) -> ParsedBlock<T> {
        if token.kind == TokenKind::Eof {
            return self.syntax(token, format!("unexpected end of the text in {context}"));
        }
        let word: String = self.word(token).chars().take(20).collect();
        self.syntax(token, format!("unexpected {word:?} in {context}"))
    }

    fn word(&self, token: TemplateToken) -> &'t str {
        self.text.get(token.from..token.to).unwrap_or_default()
    }

    fn end(&self) -> TemplateToken {
        let end = self.text.len();
        TemplateToken {
            kind: TokenKind::Eof,
            from: end,
            to: end,
        }
    }

    fn peek(&self) -> TemplateToken {
        self.tokens
            .get(self.at)
            .copied()
            .unwrap_or_else(|| self.end())
    }

    fn next(&mut self) -> TemplateToken {
        let token = self.peek();
        self.at += 1;
        token
    }

    /// The next token that is no space, which is then the next one.
    fn peek_word(&mut self) -> TemplateToken {
        while self.peek().kind == TokenKind::Space {
            self.at += 1;
        }
        self.peek()
    }

    fn next_word(&mut self) -> TemplateToken {
        self.peek_word();
        self.next()
    }

    fn expect(&mut self, kind: TokenKind, context: &str) -> ParsedBlock<TemplateToken> {
        let token = self.next_word();
        if token.kind == kind {
            Ok(token)
        } else {
            self.unexpected(token, context)
        }
    }

    /// Parses the content one level deeper.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> ParsedBlock<T>) -> ParsedBlock<T> {
        self.depth += 1;
        if self.depth > self.most {
            let token = self.peek();
            let span = Span {
                from: token.from,
                to: token.to,
            };
            let limit = crate::error::TemplateLimit::Depth(self.most);
            return Err(self.error(span, limit.into()));
        }
        let result = read(self);
        self.depth -= 1;
        result
    }

    /// Keeps a template, unless there is one of that name that is more than spaces.
    fn add(&mut self, name: String, nodes: Vec<TemplateNode>) -> ParsedBlock {
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

    fn is_empty(&self, nodes: &[TemplateNode]) -> bool {
        nodes.iter().all(|node| match node {
            TemplateNode::Text(span) => {
                let text = self.text.get(span.from..span.to);
                text.unwrap_or_default().trim().is_empty()
            }
            TemplateNode::Action(_)
            | TemplateNode::If(_)
            | TemplateNode::With(_)
            | TemplateNode::Range(_)
            | TemplateNode::Template(_)
            | TemplateNode::Break
            | TemplateNode::Continue => false,
        })
    }
}
