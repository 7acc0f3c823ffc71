//! Texts, actions and what they enclose.

use super::{Ending, Parsed, Parser, literal::string};
use crate::{
    ast::{Branches, Invocation, Node, Range, Span},
    lexer::{Kind, Token},
};

/// What an action is: a node, or the end of the list that it stands in.
enum Piece {
    Node(Node),
    Ending(Ending, Token),
}

impl Parser<'_> {
    /// The text as a whole; only here can templates be defined.
    pub(super) fn whole(&mut self) -> Parsed<Vec<Node>> {
        let mut nodes = Vec::new();
        while self.peek().kind != Kind::Eof {
            let before = self.at;
            if self.peek().kind == Kind::Open {
                self.next();
                if self.next_word().kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.at = before;
            }
            match self.piece()? {
                Piece::Node(node) => nodes.push(node),
                Piece::Ending(_, token) => return self.unexpected(token, "the text"),
            }
        }
        Ok(nodes)
    }

    fn definition(&mut self) -> Parsed {
        const CONTEXT: &str = "define clause";
        let token = self.next_word();
        let name = self.template_name(token, CONTEXT)?;
        self.expect(Kind::Close, CONTEXT)?;
        let nodes = self.in_new_scope(CONTEXT)?;
        self.add(name, nodes)
    }

    /// The nodes of another template, up to its end.
    fn in_new_scope(&mut self, context: &str) -> Parsed<Vec<Node>> {
        let outer = std::mem::take(&mut self.scope);
        let (nodes, ending, token) = self.list()?;
        self.scope = outer;
        if ending == Ending::Else {
            return self.unexpected(token, context);
        }
        Ok(nodes)
    }

    fn template_name(&mut self, token: Token, context: &str) -> Parsed<String> {
        if !matches!(token.kind, Kind::Quoted | Kind::Raw) {
            return self.unexpected(token, context);
        }
        string(self, token)
    }

    /// Nodes up to an end or an else.
    pub(super) fn list(&mut self) -> Parsed<(Vec<Node>, Ending, Token)> {
        self.deeper(|parser| {
            let mut nodes = Vec::new();
            while parser.peek_word().kind != Kind::Eof {
                match parser.piece()? {
                    Piece::Node(node) => nodes.push(node),
                    Piece::Ending(ending, token) => return Ok((nodes, ending, token)),
                }
            }
            let token = parser.peek();
            parser.unexpected(token, "a list without its end")
        })
    }

    fn piece(&mut self) -> Parsed<Piece> {
        let token = self.next_word();
        match token.kind {
            Kind::Text => {
                let span = Span {
                    from: token.from,
                    to: token.to,
                };
                Ok(Piece::Node(Node::Text(span)))
            }
            Kind::Open => self.action(),
            _ => self.unexpected(token, "input"),
        }
    }

    fn action(&mut self) -> Parsed<Piece> {
        let before = self.at;
        let token = self.next_word();
        let node = match token.kind {
            Kind::End => {
                self.expect(Kind::Close, "end")?;
                return Ok(Piece::Ending(Ending::End, token));
            }
            Kind::Else => {
                // `else if` and `else with` are read by those that they belong to.
                if !matches!(self.peek_word().kind, Kind::If | Kind::With) {
                    self.expect(Kind::Close, "else")?;
                }
                return Ok(Piece::Ending(Ending::Else, token));
            }
            Kind::Break | Kind::Continue => self.jump(token)?,
            Kind::If => Node::If(self.branches("if", Kind::If)?),
            Kind::With => Node::With(self.branches("with", Kind::With)?),
            Kind::Range => Node::Range(self.range()?),
            Kind::Template => Node::Template(self.invocation()?),
            Kind::Block => Node::Template(self.block()?),
            _ => {
                self.at = before;
                self.peek_word();
                Node::Action(self.pipeline("command", Kind::Close)?)
            }
        };
        Ok(Piece::Node(node))
    }

    fn jump(&mut self, token: Token) -> Parsed<Node> {
        let word = self.word(token);
        let close = self.next_word();
        if close.kind != Kind::Close {
            return self.unexpected(close, &format!("{{{{{word}}}}}"));
        }
        if self.scope.ranges == 0 {
            return self.syntax(token, format!("{{{{{word}}}}} outside {{{{range}}}}"));
        }
        Ok(if token.kind == Kind::Break {
            Node::Break
        } else {
            Node::Continue
        })
    }

    fn branches(&mut self, context: &str, kind: Kind) -> Parsed<Branches> {
        let outer = self.scope.variables.len();
        let mut arms = Vec::new();
        let mut otherwise = None;
        loop {
            let pipe = self.pipeline(context, Kind::Close)?;
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

    /// What stands between an else and its end.
    fn last_list(&mut self) -> Parsed<Vec<Node>> {
        let (nodes, ending, token) = self.list()?;
        if ending == Ending::Else {
            return self.syntax(token, "expected end; found {{else}}");
        }
        Ok(nodes)
    }

    fn range(&mut self) -> Parsed<Range> {
        let outer = self.scope.variables.len();
        let pipe = self.pipeline("range", Kind::Close)?;
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

    fn invocation(&mut self) -> Parsed<Invocation> {
        const CONTEXT: &str = "template clause";
        let token = self.next_word();
        let name = self.template_name(token, CONTEXT)?;
        let span = Span {
            from: token.from,
            to: token.to,
        };
        let pipe = if self.peek_word().kind == Kind::Close {
            self.next();
            None
        } else {
            Some(self.pipeline(CONTEXT, Kind::Close)?)
        };
        Ok(Invocation { span, name, pipe })
    }

    fn block(&mut self) -> Parsed<Invocation> {
        const CONTEXT: &str = "block clause";
        let token = self.next_word();
        let name = self.template_name(token, CONTEXT)?;
        let span = Span {
            from: token.from,
            to: token.to,
        };
        let pipe = self.pipeline(CONTEXT, Kind::Close)?;
        let nodes = self.in_new_scope(CONTEXT)?;
        self.add(name.clone(), nodes)?;
        Ok(Invocation {
            span,
            name,
            pipe: Some(pipe),
        })
    }
}
