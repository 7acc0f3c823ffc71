//! The contents of brackets: keys, indexes, slices, unions of them, filters.

use super::super::TemplateProblem;
use super::super::path::{FilterCondition, FilterOperator, Literal, PathSelector, PathStep};
use super::{Cursor, Parsed};

/// All JSON parsers agree on integers of this length.
const MOST_DIGITS: usize = 15;

impl Cursor<'_> {
    /// Parses the part after the opening bracket.
    pub(super) fn brackets(&mut self) -> Parsed<PathStep> {
        if self.eat("?") {
            return self.filter();
        }
        if self.expect()? == ']' {
            return Err(self.error(TemplateProblem::NoSelector));
        }
        let mut selectors = vec![self.selector()?];
        while self.eat(",") {
            self.skip_spaces();
            selectors.push(self.selector()?);
        }
        self.require("]")?;
        Ok(match <[PathSelector; 1]>::try_from(selectors) {
            Ok([PathSelector::Field(name)]) => PathStep::Field(name),
            Ok(selector) => PathStep::Brackets(selector.into()),
            Err(selectors) => PathStep::Brackets(selectors),
        })
    }

    fn selector(&mut self) -> Parsed<PathSelector> {
        match self.expect()? {
            '\'' | '"' => Ok(PathSelector::Field(self.key()?)),
            '*' => {
                self.require("*")?;
                Ok(PathSelector::All)
            }
            '-' | ':' | '0'..='9' => self.index_or_slice(),
            letter => Err(self.error(TemplateProblem::Unexpected(letter))),
        }
    }

    fn index_or_slice(&mut self) -> Parsed<PathSelector> {
        let start = self.number()?;
        if !self.eat(":") {
            let index = start.ok_or_else(|| self.error(TemplateProblem::Number))?;
            return Ok(PathSelector::Index(index));
        }
        let end = self.number()?;
        let mut step = None;
        if self.eat(":") {
            let begin = *self;
            step = self.number()?;
            if step.is_some_and(|step| step < 1) {
                return Err(begin.error(TemplateProblem::SliceStep));
            }
        }
        Ok(PathSelector::Slice { start, end, step })
    }

    /// A whole number; none if there is no number here.
    fn number(&mut self) -> Parsed<Option<i64>> {
        let begin = *self;
        let negative = self.eat("-");
        let mut digits = String::new();
        while let Some(digit) = self.peek().filter(char::is_ascii_digit) {
            digits.push(digit);
            self.advance(digit);
        }
        if digits.is_empty() && !negative {
            return Ok(None);
        }
        let leading_zero = digits.starts_with('0') && (negative || digits.len() > 1);
        if leading_zero || digits.len() > MOST_DIGITS {
            return Err(begin.error(TemplateProblem::Number));
        }
        let number: i64 = digits
            .parse()
            .map_err(|_| begin.error(TemplateProblem::Number))?;
        Ok(Some(if negative { -number } else { number }))
    }

    /// Parses the part after `[?`.
    fn filter(&mut self) -> Parsed<PathStep> {
        if !self.eat("(") {
            return Err(self.error(TemplateProblem::Filter));
        }
        self.skip_spaces();
        let begin = *self;
        let _ = self.eat("@");
        let path = self.steps()?;
        if !path.iter().all(PathStep::is_singular) {
            return Err(begin.error(TemplateProblem::NotSingular));
        }
        if begin.at == self.at {
            return Err(begin.error(TemplateProblem::Filter));
        }
        // kubectl searches for these before it parses names, so a backslash does not protect them.
        let mut letters = path.iter().filter_map(PathStep::field).flat_map(str::chars);
        if let Some(letter) = letters.find(|letter| "!<>=()'\"".contains(*letter)) {
            return Err(begin.error(TemplateProblem::InFilter(letter)));
        }
        self.skip_spaces();
        let comparison = match self.operator() {
            None => None,
            Some(operator) => Some((operator, self.literal(operator)?)),
        };
        self.skip_spaces();
        if self.rest().starts_with("&&") || self.rest().starts_with("||") {
            return Err(self.error(TemplateProblem::Logic));
        }
        self.require(")")?;
        self.require("]")?;
        Ok(PathStep::Filter(FilterCondition { path, comparison }))
    }

    fn operator(&mut self) -> Option<FilterOperator> {
        FilterOperator::ALL
            .into_iter()
            .find(|operator| self.eat(operator.0))
    }

    fn literal(&mut self, operator: FilterOperator) -> Parsed<Literal> {
        self.skip_spaces();
        let begin = *self;
        let literal = match self.expect()? {
            '"' | '\'' => Literal::Text(self.quoted_text()?),
            '-' | '0'..='9' => {
                let number = self.number()?;
                Literal::Number(number.ok_or_else(|| begin.error(TemplateProblem::Literal))?)
            }
            _ if self.eat("true") => Literal::Bool(true),
            _ if self.eat("false") => Literal::Bool(false),
            _ => return Err(begin.error(TemplateProblem::Literal)),
        };
        if operator.is_order() && matches!(literal, Literal::Bool(_)) {
            return Err(begin.error(TemplateProblem::Order));
        }
        Ok(literal)
    }
}
