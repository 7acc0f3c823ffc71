//! Texts, actions and their bodies.

use super::{Ending, ParsedBlock, Parser, literal::string};
use crate::{
    ast::{Branches, Invocation, Range, Span, TemplateNode},
    lexer::{TemplateToken, TokenKind},
};

/// The result of an action: a node, or the end of its list.
enum ControlPiece {
    Node(TemplateNode),
    Ending(Ending, TemplateToken),
}

impl Parser<'_> {
    /// The text as a whole; only here can templates be defined.
    pub(super) fn whole(&mut self) -> ParsedBlock<Vec<TemplateNode>> {
        let mut nodes = Vec::new();
        while self.peek().kind != TokenKind::Eof {
            let before = self.at;
            if self.peek().kind == TokenKind::Open {
                self.next();
                if self.next_word().kind == TokenKind::Define {
                    self.definition()?;
                    continue;
                }
                self.at = before;
            }
            match self.piece()? {
                ControlPiece::Node(node) => nodes.push(node),
                ControlPiece::Ending(_, token) => return self.unexpected(token, "the text"),
            }
        }
        Ok(nodes)
    }

    fn definition(&mut self) -> ParsedBlock {
        const CONTEXT: &str = "define clause";
        let token = self.next_word();
        let name = self.template_name(token, CONTEXT)?;
        self.expect(TokenKind::Close, CONTEXT)?;
        let nodes = self.in_new_scope(CONTEXT)?;
        self.add(name, nodes)
    }

    /// The nodes of another template, up to its end.
    fn in_new_scope(&mut self, context: &str) -> ParsedBlock<Vec<TemplateNode>> {
        let outer = std::mem::take(&mut self.scope);
        let (nodes, ending, token) = self.list()?;
        self.scope = outer;
        if ending == Ending::Else {
            return self.unexpected(token, context);
        }
        Ok(nodes)
    }

    fn template_name(&mut self, token: TemplateToken, context: &str) -> ParsedBlock<String> {
        if !matches!(token.kind, TokenKind::Quoted | TokenKind::Raw) {
            return self.unexpected(token, context);
        }
        string(self, token)
    }

    /// Nodes up to an end or an else.
    pub(super) fn list(&mut self) -> ParsedBlock<(Vec<TemplateNode>, Ending, TemplateToken)> {
        self.deeper(|parser| {
            let mut nodes = Vec::new();
            while parser.peek_word().kind != TokenKind::Eof {
                match parser.piece()? {
                    ControlPiece::Node(node) => nodes.push(node),
                    ControlPiece::Ending(ending, token) => return Ok((nodes, ending, token)),
                }
            }
            let token = parser.peek();
            parser.unexpected(token, "a list without its end")
        })
    }

    fn piece(&mut self) -> ParsedBlock<ControlPiece> {
        let token = self.next_word();
        match token.kind {
            TokenKind::Text => {
                let span = Span {
                    from: token.from,
                    to: token.to,
                };
                Ok(ControlPiece::Node(TemplateNode::Text(span)))
            }
            TokenKind::Open => self.action(),
            _ => self.unexpected(token, "input"),
        }
    }

    fn action(&mut self) -> ParsedBlock<ControlPiece> {
        let before = self.at;
        let token = self.next_word();
        let node = match token.kind {
            TokenKind::End => {
                self.expect(TokenKind::Close, "end")?;
                return Ok(ControlPiece::Ending(Ending::End, token));
            }
            TokenKind::Else => {
                // `else if` and `else with` are read by those that they belong to.
                if !matches!(self.peek_word().kind, TokenKind::If | TokenKind::With) {
                    self.expect(TokenKind::Close, "else")?;
                }
                return Ok(ControlPiece::Ending(Ending::Else, token));
            }
            TokenKind::Break | TokenKind::Continue => self.jump(token)?,
            TokenKind::If => TemplateNode::If(self.branches("if", TokenKind::If)?),
            TokenKind::With => TemplateNode::With(self.branches("with", TokenKind::With)?),
            TokenKind::Range => TemplateNode::Range(self.range()?),
            TokenKind::Template => TemplateNode::Template(self.invocation()?),
            TokenKind::Block => TemplateNode::Template(self.block()?),
            _ => {
                self.at = before;
                self.peek_word();
                TemplateNode::Action(self.pipeline("command", TokenKind::Close)?)
            }
        };
        Ok(ControlPiece::Node(node))
    }

    fn jump(&mut self, token: TemplateToken) -> ParsedBlock<TemplateNode> {
        let word = self.word(token);
        let close = self.next_word();
        if close.kind != TokenKind::Close {
            return self.unexpected(close, &format!("{{{{{word}}}}}"));
        }
        if self.scope.ranges == 0 {
            return self.syntax(token, format!("{{{{{word}}}}} outside {{{{range}}}}"));
        }
        Ok(if token.kind == TokenKind::Break {
            TemplateNode::Break
        } else {
            TemplateNode::Continue
        })
    }

    fn branches(&mut self, context: &str, kind: TokenKind) -> ParsedBlock<Branches> {
        let outer = self.scope.variables.len();
        let mut arms = Vec::new();
        let mut otherwise = None;
        loop {
            let pipe = self.pipeline(context, TokenKind::Close)?;
            let (body, ending, _) = self.list()?;
            arms.push((pipe, body));
            if ending == Ending::End {
                break;
            }
            if self.peek().kind == kind {
                self.next();
                continue;
            }
            otherwise = Some(self.last_list()?);
            break;
        }
        self.scope.variables.truncate(outer);
        Ok(Branches { arms, otherwise })
    }

    /// The list between an else and its end.
    fn last_list(&mut self) -> ParsedBlock<Vec<TemplateNode>> {
        let (nodes, ending, token) = self.list()?;
        if ending == Ending::Else {
            return self.syntax(token, "expected end; found {{else}}");
        }
        Ok(nodes)
    }

    fn range(&mut self) -> ParsedBlock<Range> {
        let outer = self.scope.variables.len();
        let pipe = self.pipeline("range", TokenKind::Close)?;
        self.scope.ranges += 1;
        let (body, ending, _) = self.list()?;
        self.scope.ranges -= 1;
        let otherwise = match ending {
            Ending::End => None,
            Ending::Else => Some(self.last_list()?),
        };
        self.scope.variables.truncate(outer);
        Ok(Range {
            pipe,
            body,
            otherwise,
        })
    }

    fn invocation(&mut self) -> ParsedBlock<Invocation> {
        const CONTEXT: &str = "template clause";
        let token = self.next_word();
        let name = self.template_name(token, CONTEXT)?;
        let span = Span {
            from: token.from,
            to: token.to,
        };
        let pipe = if self.peek_word().kind == TokenKind::Close {
            self.next();
            None
        } else {
            Some(self.pipeline(CONTEXT, TokenKind::Close)?)
        };
        Ok(Invocation { span, name, pipe })
    }

    fn block(&mut self) -> ParsedBlock<Invocation> {
        const CONTEXT: &str = "block clause";
        let token = self.next_word();
        let name = self.template_name(token, CONTEXT)?;
        let span = Span {
            from: token.from,
            to: token.to,
        };
        let pipe = self.pipeline(CONTEXT, TokenKind::Close)?;
        let nodes = self.in_new_scope(CONTEXT)?;
        self.add(name.clone(), nodes)?;
        Ok(Invocation {
            span,
            name,
            pipe: Some(pipe),
        })
    }
}
