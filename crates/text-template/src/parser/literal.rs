//! Strings and numbers.

use super::{ParsedBlock, Parser};
use crate::{
    ast::{NumberLiteral, Span},
    error::TemplateParseProblem,
    lexer::{TemplateToken, TokenKind},
    number::{float_of, int_of, parse_float, parse_signed, parse_unsigned},
    quote::{UnreadQuote, unquote, unquote_character},
};

/// The text of a string literal.
pub(super) fn string(parser: &Parser<'_>, token: TemplateToken) -> ParsedBlock<String> {
    unquote(parser.word(token)).or_else(|unread| unreadable(parser, token, unread))
}

fn unreadable<T>(parser: &Parser<'_>, token: TemplateToken, unread: UnreadQuote) -> ParsedBlock<T> {
    match unread {
        UnreadQuote::Syntax => parser.syntax(token, "invalid syntax"),
        UnreadQuote::NotUtf8 => left_out(parser, token, "strings that are not UTF-8"),
    }
}

fn left_out<T>(parser: &Parser<'_>, token: TemplateToken, what: &'static str) -> ParsedBlock<T> {
    let span = Span {
        from: token.from,
        to: token.to,
    };
    Err(parser.error(span, TemplateParseProblem::LeftOut(what)))
}

/// The number of a literal.
pub(super) fn number(parser: &Parser<'_>, token: TemplateToken) -> ParsedBlock<NumberLiteral> {
    let text = parser.word(token);
    if token.kind == TokenKind::Character {
        let code = unquote_character(text).or_else(|it| unreadable(parser, token, it))?;
        let int = i64::from(code);
        return Ok(NumberLiteral {
            int: Some(int),
            float: f64::from(code),
            is_float: false,
        });
    }
    if token.kind == TokenKind::Complex || text.ends_with('i') {
        return left_out(parser, token, "complex numbers");
    }
    let lower = text.to_ascii_lowercase();
    let is_hexadecimal = lower.starts_with("0x") && !lower.contains('p');
    let is_float = !is_hexadecimal && lower.contains(['.', 'e', 'p']);
    let signed = parse_signed(text, 0).ok();
    if let Some(int) = signed {
        return Ok(NumberLiteral {
            int: Some(int),
            float: float_of(int),
            is_float,
        });
    }
    if parse_unsigned(text, 0).is_ok() {
        // Beyond int, so that it cannot be used; Go says so when it is.
        return Ok(NumberLiteral {
            int: None,
            float: f64::INFINITY,
            is_float,
        });
    }
    let Ok(float) = parse_float(text) else {
        return parser.syntax(token, "illegal number syntax");
    };
    if !lower.contains(['.', 'e', 'p']) {
        return parser.syntax(token, "integer overflow");
    }
    let whole = int_of(float);
    #[expect(clippy::float_cmp, reason = "whether it is whole")]
    let int = (float_of(whole) == float).then_some(whole);
    Ok(NumberLiteral {
        int,
        float,
        is_float,
    })
}
