//! Pipelines, commands and words.

use std::sync::Arc;

use super::{
    ParsedBlock, Parser,
    literal::{number, string},
};
use crate::{
    ast::{Command, Pipe, Span, Term, Word},
    error::{TemplateLimit, TemplateParseProblem},
    functions::{find, why_left_out},
    lexer::{TemplateToken, TokenKind},
    limits::MAX_VARIABLES,
};

impl Parser<'_> {
    pub(super) fn pipeline(&mut self, context: &str, end: TokenKind) -> ParsedBlock<Pipe> {
        self.deeper(|parser| parser.pipeline_here(context, end))
    }

    fn pipeline_here(&mut self, context: &str, end: TokenKind) -> ParsedBlock<Pipe> {
        let from = self.peek_word().from;
        let mut pipe = Pipe {
            span: Span { from, to: from },
            variables: Vec::new(),
            assigns: false,
            commands: Vec::new(),
        };
        self.variables(&mut pipe, context)?;
        loop {
            let token = self.peek_word();
            match token.kind {
                kind if kind == end => {
                    self.next();
                    return self.checked(pipe, context, token);
                }
                TokenKind::Bool
                | TokenKind::Character
                | TokenKind::Complex
                | TokenKind::Dot
                | TokenKind::Field
                | TokenKind::Name
                | TokenKind::Number
                | TokenKind::Nil
                | TokenKind::Raw
                | TokenKind::Quoted
                | TokenKind::Variable
                | TokenKind::OpenParen => {
                    let command = self.command()?;
                    pipe.span.to = command.span.to;
                    pipe.commands.push(command);
                }
                _ => return self.unexpected(token, context),
            }
        }
    }

    /// The variables at the beginning that get the result.
    fn variables(&mut self, pipe: &mut Pipe, context: &str) -> ParsedBlock {
        loop {
            let token = self.peek_word();
            if token.kind != TokenKind::Variable {
                return Ok(());
            }
            let before = self.at;
            self.next();
            let next = self.peek_word();
            let name = self.word(token).to_owned();
            match next.kind {
                TokenKind::Assign | TokenKind::Declare => {
                    pipe.assigns = next.kind == TokenKind::Assign;
                    self.next();
                    pipe.variables.push(name.clone());
                    if !pipe.assigns || !self.scope.variables.contains(&name) {
                        self.bring_in(name, token)?;
                    }
                    return Ok(());
                }
                TokenKind::Other if self.word(next) == "," => {
                    self.next();
                    pipe.variables.push(name.clone());
                    self.bring_in(name, token)?;
                    if context != "range" || pipe.variables.len() >= 2 {
                        return self.syntax(next, format!("too many declarations in {context}"));
                    }
                    let after = self.peek_word();
                    if !matches!(
                        after.kind,
                        TokenKind::Variable | TokenKind::Close | TokenKind::CloseParen
                    ) {
                        return self.syntax(after, "range can only initialize variables");
                    }
                }
                _ => {
                    self.at = before;
                    return Ok(());
                }
            }
        }
    }

    /// A variable that can be seen from here on.
    fn bring_in(&mut self, name: String, token: TemplateToken) -> ParsedBlock {
        if self.scope.variables.len() >= MAX_VARIABLES {
            let span = Span {
                from: token.from,
                to: token.to,
            };
            let limit = TemplateLimit::Variables(MAX_VARIABLES);
            return Err(self.error(span, limit.into()));
        }
        self.scope.variables.push(name);
        Ok(())
    }

    fn checked(&self, pipe: Pipe, context: &str, end: TemplateToken) -> ParsedBlock<Pipe> {
        if pipe.commands.is_empty() {
            return self.syntax(end, format!("missing value for {context}"));
        }
        for (place, command) in pipe.commands.iter().enumerate().skip(1) {
            let is_constant = matches!(
                command.first.term,
                Term::Bool(_) | Term::Dot | Term::Nil | Term::Number(_) | Term::Text(_)
            );
            if is_constant {
                let problem = format!("non executable command in pipeline stage {}", place + 1);
                let problem = TemplateParseProblem::Syntax(problem);
                return Err(self.error(command.first.span, problem));
            }
        }
        Ok(pipe)
    }

    fn command(&mut self) -> ParsedBlock<Command> {
        let mut words = Vec::new();
        loop {
            self.peek_word();
            words.extend(self.operand()?);
            let token = self.next();
            match token.kind {
                TokenKind::Space => {}
                TokenKind::Close | TokenKind::CloseParen => {
                    self.at -= 1;
                    break;
                }
                TokenKind::Pipe => break,
                _ => return self.unexpected(token, "operand"),
            }
        }
        let mut words = words.into_iter();
        let Some(first) = words.next() else {
            let token = self.peek();
            return self.syntax(token, "empty command");
        };
        let arguments: Vec<Word> = words.collect();
        let to = arguments.last().map_or(first.span.to, |it| it.span.to);
        let span = Span {
            from: first.span.from,
            to,
        };
        Ok(Command {
            span,
            first,
            arguments,
        })
    }

    /// A term and the fields after it; none when something else is here.
    fn operand(&mut self) -> ParsedBlock<Option<Word>> {
        let Some(word) = self.term()? else {
            return Ok(None);
        };
        let first = self.peek();
        if first.kind != TokenKind::Field {
            return Ok(Some(word));
        }
        let mut fields: Vec<Arc<str>> = Vec::new();
        let mut span = word.span;
        while self.peek().kind == TokenKind::Field {
            let token = self.next();
            fields.push(self.field(token));
            span.to = token.to;
        }
        let term = match word.term {
            Term::Field(mut before) => {
                before.extend(fields);
                Term::Field(before)
            }
            Term::Variable(name, mut before) => {
                before.extend(fields);
                Term::Variable(name, before)
            }
            Term::Bool(_) | Term::Text(_) | Term::Number(_) | Term::Nil | Term::Dot => {
                return self.syntax(first, "unexpected . after term");
            }
            Term::Function(_) | Term::Pipe(_) | Term::Chain(..) => {
                Term::Chain(Box::new(word), fields)
            }
        };
        Ok(Some(Word { span, term }))
    }

    fn field(&self, token: TemplateToken) -> Arc<str> {
        Arc::from(self.word(token).trim_start_matches('.'))
    }

    fn term(&mut self) -> ParsedBlock<Option<Word>> {
        let token = self.peek_word();
        self.next();
        let mut span = Span {
            from: token.from,
            to: token.to,
        };
        let term = match token.kind {
            TokenKind::Name => self.function(token)?,
            TokenKind::Dot => Term::Dot,
            TokenKind::Nil => Term::Nil,
            TokenKind::Variable => {
                let name = self.word(token).to_owned();
                if !self.scope.variables.contains(&name) {
                    return self.syntax(token, format!("undefined variable {name:?}"));
                }
                Term::Variable(name, Vec::new())
            }
            TokenKind::Field => Term::Field(vec![self.field(token)]),
            TokenKind::Bool => Term::Bool(self.word(token) == "true"),
            TokenKind::Character | TokenKind::Complex | TokenKind::Number => {
                Term::Number(number(self, token)?)
            }
            TokenKind::OpenParen => {
                let pipe = self.pipeline("parenthesized pipeline", TokenKind::CloseParen)?;
                span.to = self.tokens.get(self.at - 1).map_or(span.to, |it| it.to);
                Term::Pipe(Box::new(pipe))
            }
            TokenKind::Quoted | TokenKind::Raw => Term::Text(Arc::from(string(self, token)?)),
            _ => {
                self.at -= 1;
                return Ok(None);
            }
        };
        Ok(Some(Word { span, term }))
    }

    fn function(&self, token: TemplateToken) -> ParsedBlock<Term> {
        let name = self.word(token);
        if let Some(function) = find(name) {
            return Ok(Term::Function(function));
        }
        let problem = match why_left_out(name) {
            Some(why) => TemplateParseProblem::FunctionLeftOut {
                name: name.to_owned(),
                why,
            },
            None => TemplateParseProblem::UnknownFunction(name.to_owned()),
        };
        Err(self.error(
            Span {
                from: token.from,
                to: token.to,
            },
            problem,
        ))
    }
}
