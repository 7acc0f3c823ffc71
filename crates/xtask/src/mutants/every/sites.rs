//! Where the changes of a file stand in its syntax, and what the file says with a switch at each of them.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::Range,
};

use anyhow::Context;
use proc_macro2::LineColumn;
use syn::{spanned::Spanned, visit::Visit};

use super::{
    constants::ConstantNames,
    listed::{Change, Genre, Place},
};

/// What is asked at each switch: whether the change of that number is the one that is made.
const ASK: &str = "crate::switches::is_made";

/// A file with switches.
pub(super) struct Switched {
    pub(super) text: String,
    /// The changes that found no place: in a constant function, or among conditions with patterns.
    pub(super) left_out: BTreeSet<u32>,
}

/// A part of the new text.
enum Piece {
    New(String),
    /// The original text of this range, without any switch.
    Raw(Range<usize>),
    /// The text of this range, with the switches that stand in it.
    Live(Range<usize>),
}

/// What stands in place of a range of the original text.
struct Node {
    range: Range<usize>,
    pieces: Vec<Piece>,
    children: Vec<Node>,
}

/// Puts a switch at each change. Marks the text of each change with its number, and each switch with all of its numbers.
pub(super) fn switched(
    text: &str,
    changes: &[&Change],
    constants: &ConstantNames,
) -> anyhow::Result<Switched> {
    let file = syn::parse_file(text)?;
    let mut sites = Sites {
        by_place: BTreeMap::new(),
        nodes: Vec::new(),
        placed: BTreeSet::new(),
        is_constant: false,
        constants,
    };
    for change in changes {
        let place = (change.genre, change.start);
        sites.by_place.entry(place).or_default().push(change);
    }
    sites.visit_file(&file);
    let left_out = changes.iter().map(|it| it.number);
    let left_out = left_out.filter(|it| !sites.placed.contains(it)).collect();
    let root = tree(sites.nodes, text.len());
    let mut switched = String::new();
    write(&root, text, &mut switched).context("two changes overlap")?;
    Ok(Switched {
        text: switched,
        left_out,
    })
}

struct Sites<'a> {
    by_place: BTreeMap<(Genre, Place), Vec<&'a Change>>,
    nodes: Vec<Node>,
    placed: BTreeSet<u32>,
    /// Nothing can be asked in code that the compiler runs.
    is_constant: bool,
    constants: &'a ConstantNames,
}

impl<'a> Sites<'a> {
    /// The changes that begin there.
    fn at(&self, genre: Genre, start: LineColumn) -> Vec<&'a Change> {
        if self.is_constant {
            return Vec::new();
        }
        let place = Place {
            line: start.line,
            column: start.column + 1,
        };
        self.by_place
            .get(&(genre, place))
            .cloned()
            .unwrap_or_default()
    }

    /// The changes that begin there, of which each is placed once.
    fn take(&mut self, genre: Genre, start: LineColumn) -> Vec<&'a Change> {
        let found = self.at(genre, start);
        self.placed.extend(found.iter().map(|it| it.number));
        found
    }

    fn add(&mut self, range: Range<usize>, changes: &[&Change], pieces: Vec<Piece>) {
        let numbers: Vec<_> = changes.iter().map(|it| it.number.to_string()).collect();
        let begin = format!("/*@{}*/", numbers.join(","));
        let mut marked = vec![Piece::New(begin)];
        marked.extend(pieces);
        marked.push(Piece::New("/*@*/".to_owned()));
        self.nodes.push(Node {
            range,
            pieces: marked,
            children: Vec::new(),
        });
    }

    /// `if changed { other } else { original }` in place of an expression.
    fn choose(
        &mut self,
        range: Range<usize>,
        changes: &[&Change],
        original: Vec<Piece>,
        other: impl Fn(&Change) -> Vec<Piece>,
    ) {
        let mut pieces = vec![Piece::New("(".to_owned())];
        for change in changes {
            pieces.push(Piece::New(format!(
                "if {ASK}({}) {{ /*@{}*/",
                change.number, change.number
            )));
            pieces.extend(other(change));
            pieces.push(Piece::New("/*@*/ } else ".to_owned()));
        }
        pieces.push(Piece::New("{ ".to_owned()));
        pieces.extend(original);
        pieces.push(Piece::New(" })".to_owned()));
        self.add(range, changes, pieces);
    }

    /// The results of a function, asked for before everything that it does.
    fn results(&mut self, signature: &syn::Signature, block: &syn::Block) {
        // Both results have to be of one type, which is not named.
        if is_opaque(&signature.output) {
            return;
        }
        let first = block.stmts.first().map(|it| it.span().start());
        let Some(first) = first else { return };
        let changes = self.take(Genre::FnValue, first);
        if changes.is_empty() {
            return;
        }
        let at = block.brace_token.span.open().byte_range().end;
        let pieces = changes.iter().map(|it| {
            Piece::New(format!(
                " if {ASK}({}) {{ /*@{}*/ return {}; /*@*/ }} ",
                it.number, it.number, it.replacement
            ))
        });
        let pieces = pieces.collect();
        self.add(at..at, &changes, pieces);
    }

    fn function(&mut self, signature: &syn::Signature, go_on: impl FnOnce(&mut Self)) {
        let outside = self.is_constant;
        self.is_constant = false;
        if let Some(word) = &signature.constness {
            self.is_constant = self.constants.need(&signature.ident);
            if !self.is_constant {
                self.nodes.push(Node {
                    range: range(word),
                    pieces: Vec::new(),
                    children: Vec::new(),
                });
            }
        }
        go_on(self);
        self.is_constant = outside;
    }
}

impl<'ast> Visit<'ast> for Sites<'_> {
    fn visit_item_fn(&mut self, it: &'ast syn::ItemFn) {
        self.function(&it.sig, |sites| {
            sites.results(&it.sig, &it.block);
            syn::visit::visit_item_fn(sites, it);
        });
    }

    fn visit_impl_item_fn(&mut self, it: &'ast syn::ImplItemFn) {
        self.function(&it.sig, |sites| {
            sites.results(&it.sig, &it.block);
            syn::visit::visit_impl_item_fn(sites, it);
        });
    }

    fn visit_trait_item_fn(&mut self, it: &'ast syn::TraitItemFn) {
        self.function(&it.sig, |sites| {
            if let Some(block) = &it.default {
                sites.results(&it.sig, block);
            }
            syn::visit::visit_trait_item_fn(sites, it);
        });
    }

    fn visit_expr_binary(&mut self, it: &'ast syn::ExprBinary) {
        let has_pattern = has_pattern(&it.left) || has_pattern(&it.right);
        if !has_pattern {
            let changes = self.take(Genre::BinaryOperator, it.op.span().start());
            if !changes.is_empty() {
                let (left, right) = (range(&it.left), range(&it.right));
                let between = left.end..right.start;
                let original = vec![
                    Piece::Live(left.clone()),
                    Piece::Raw(between),
                    Piece::Live(right.clone()),
                ];
                self.choose(range(it), &changes, original, |change| {
                    vec![
                        Piece::New("(".to_owned()),
                        Piece::Raw(left.clone()),
                        Piece::New(format!(") {} (", change.replacement)),
                        Piece::Raw(right.clone()),
                        Piece::New(")".to_owned()),
                    ]
                });
            }
        }
        syn::visit::visit_expr_binary(self, it);
    }

    fn visit_expr_unary(&mut self, it: &'ast syn::ExprUnary) {
        let changes = self.take(Genre::UnaryOperator, it.op.span().start());
        if !changes.is_empty() {
            let (whole, operand) = (range(it), range(&it.expr));
            let original = vec![
                Piece::Raw(whole.start..operand.start),
                Piece::Live(operand.clone()),
            ];
            self.choose(whole, &changes, original, |_| {
                vec![Piece::Raw(operand.clone())]
            });
        }
        syn::visit::visit_expr_unary(self, it);
    }

    fn visit_expr_match(&mut self, it: &'ast syn::ExprMatch) {
        let arms = it.arms.iter();
        let changes: Vec<_> = arms
            .flat_map(|arm| self.at(Genre::MatchArm, arm.span().start()))
            .collect();
        if !changes.is_empty() {
            // The mark alone: an error about missing arms names the match.
            self.add(range(it), &changes, vec![Piece::Live(range(it))]);
        }
        syn::visit::visit_expr_match(self, it);
    }

    fn visit_arm(&mut self, it: &'ast syn::Arm) {
        let without = self.take(Genre::MatchArm, it.span().start());
        let guard = it.guard.as_ref().map(|(_, guard)| guard);
        let guards = match guard {
            Some(guard) if !has_pattern(guard) => {
                self.take(Genre::MatchArmGuard, guard.span().start())
            }
            Some(_) | None => Vec::new(),
        };
        let all: Vec<_> = without.iter().chain(&guards).copied().collect();
        if !all.is_empty() {
            let conditions = without.iter().map(|it| format!("!{ASK}({})", it.number));
            let mut conditions: Vec<_> = conditions.collect();
            match guard {
                None => {
                    let at = range(&it.pat).end;
                    let condition = conditions.join(" && ");
                    self.add(at..at, &all, vec![Piece::New(format!(" if {condition} "))]);
                }
                Some(guard) => {
                    conditions.push("(".to_owned());
                    let mut pieces = vec![Piece::New(conditions.join(" && "))];
                    for change in &guards {
                        pieces.push(Piece::New(match change.replacement.as_str() {
                            "true" => format!("{ASK}({}) || ", change.number),
                            _ => format!("!{ASK}({}) && ", change.number),
                        }));
                    }
                    let guard = range(guard);
                    pieces.push(Piece::New("(".to_owned()));
                    pieces.push(Piece::Live(guard.clone()));
                    pieces.push(Piece::New("))".to_owned()));
                    self.add(guard, &all, pieces);
                }
            }
        }
        syn::visit::visit_arm(self, it);
    }

    fn visit_expr_struct(&mut self, it: &'ast syn::ExprStruct) {
        if let Some(base) = &it.rest {
            let base = range(&**base);
            let kind = range(&it.path);
            for field in &it.fields {
                let changes = self.take(Genre::StructField, field.span().start());
                if changes.is_empty() {
                    continue;
                }
                let value = range(&field.expr);
                let name = range(&field.member);
                let is_short = field.colon_token.is_none();
                let other = |_: &Change| {
                    vec![
                        Piece::New("let base: ".to_owned()),
                        Piece::Raw(kind.clone()),
                        Piece::New(" = ".to_owned()),
                        Piece::Raw(base.clone()),
                        Piece::New("; base.".to_owned()),
                        Piece::Raw(name.clone()),
                    ]
                };
                let original = vec![Piece::Live(value.clone())];
                self.choose(value, &changes, original, other);
                if is_short && let Some(node) = self.nodes.last_mut() {
                    let begin = vec![Piece::Raw(name.clone()), Piece::New(": ".to_owned())];
                    node.pieces.splice(0..0, begin);
                }
            }
        }
        syn::visit::visit_expr_struct(self, it);
    }

    fn visit_item_const(&mut self, _: &'ast syn::ItemConst) {}

    fn visit_impl_item_const(&mut self, _: &'ast syn::ImplItemConst) {}

    fn visit_item_static(&mut self, _: &'ast syn::ItemStatic) {}
}

/// Whether a result is `impl Trait`, or contains one.
fn is_opaque(output: &syn::ReturnType) -> bool {
    #[derive(Default)]
    struct Seen(bool);

    impl<'ast> Visit<'ast> for Seen {
        fn visit_type_impl_trait(&mut self, _: &'ast syn::TypeImplTrait) {
            self.0 = true;
        }
    }

    let mut seen = Seen::default();
    seen.visit_return_type(output);
    seen.0
}

fn range(it: &impl Spanned) -> Range<usize> {
    it.span().byte_range()
}

/// Whether an expression is a condition with a pattern (`a && let Some(b) = c`), which is no value.
fn has_pattern(it: &syn::Expr) -> bool {
    if let syn::Expr::Binary(it) = it {
        return has_pattern(&it.left) || has_pattern(&it.right);
    }
    matches!(it, syn::Expr::Let(_))
}

/// The nodes below those that contain them. Of two with the same range the first one contains the other.
fn tree(mut nodes: Vec<Node>, length: usize) -> Node {
    nodes.sort_by_key(|it| (it.range.start, std::cmp::Reverse(it.range.end)));
    let mut open = vec![Node {
        range: 0..length,
        pieces: vec![Piece::Live(0..length)],
        children: Vec::new(),
    }];
    let close = |open: &mut Vec<Node>| {
        if let Some(done) = open.pop()
            && let Some(parent) = open.last_mut()
        {
            parent.children.push(done);
        }
    };
    for node in nodes {
        while open.len() > 1 && open.last().is_some_and(|it| it.range.end < node.range.end) {
            close(&mut open);
        }
        while open.len() > 1
            && open
                .last()
                .is_some_and(|it| it.range.end <= node.range.start)
        {
            close(&mut open);
        }
        open.push(node);
    }
    while open.len() > 1 {
        close(&mut open);
    }
    open.pop().unwrap_or(Node {
        range: 0..0,
        pieces: Vec::new(),
        children: Vec::new(),
    })
}

/// Writes a node. None if a range is no part of the text.
fn write(node: &Node, text: &str, to: &mut String) -> Option<()> {
    for piece in &node.pieces {
        match piece {
            Piece::New(new) => to.push_str(new),
            Piece::Raw(range) => to.push_str(text.get(range.clone())?),
            Piece::Live(range) => {
                let mut at = range.start;
                for child in &node.children {
                    if child.range.start < at || child.range.end > range.end {
                        continue;
                    }
                    to.push_str(text.get(at..child.range.start)?);
                    write(child, text, to)?;
                    at = child.range.end;
                }
                to.push_str(text.get(at..range.end)?);
            }
        }
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(number: u32, genre: Genre, replacement: &str, line: usize, column: usize) -> Change {
        Change {
            number,
            name: "a change".to_owned(),
            package: "door".to_owned(),
            file: "door.rs".to_owned(),
            genre,
            replacement: replacement.to_owned(),
            start: Place { line, column },
        }
    }

    /// The text with switches, without the marks and with a short name for the question.
    fn with(text: &str, changes: &[Change]) -> (String, Vec<u32>) {
        let changes: Vec<_> = changes.iter().collect();
        let constants = ConstantNames::of([text]).unwrap();
        let switched = switched(text, &changes, &constants).unwrap();
        let mut plain = String::new();
        let mut rest = switched.text.as_str();
        while let Some((before, mark)) = rest.split_once("/*@") {
            plain.push_str(before);
            rest = mark.split_once("*/").unwrap().1;
        }
        plain.push_str(rest);
        syn::parse_file(&plain).unwrap();
        let plain = plain.split_whitespace().collect::<Vec<_>>().join(" ");
        (
            plain.replace(ASK, "is"),
            switched.left_out.into_iter().collect(),
        )
    }

    #[test]
    fn a_function_may_return_another_result_before_it_does_anything() {
        let text = "fn open() -> bool {\n    look()\n}";
        let changes = [
            change(1, Genre::FnValue, "true", 2, 5),
            change(2, Genre::FnValue, "false", 2, 5),
        ];
        let expected =
            "fn open() -> bool { if is(1) { return true; } if is(2) { return false; } look() }";
        assert_eq!(with(text, &changes), (expected.to_owned(), vec![]));
    }

    #[test]
    fn an_operator_is_another_one_and_what_stands_in_it_has_its_own_switches() {
        let text = "fn f() -> bool { a == b && !c }";
        let changes = [
            change(1, Genre::BinaryOperator, "||", 1, 25),
            change(2, Genre::BinaryOperator, "!=", 1, 20),
            change(3, Genre::UnaryOperator, "", 1, 28),
        ];
        let expected = "fn f() -> bool { (if is(1) { (a == b) || (!c) } else { \
            (if is(2) { (a) != (b) } else { a == b }) && (if is(3) { c } else { !c }) }) }";
        assert_eq!(with(text, &changes), (expected.to_owned(), vec![]));
    }

    #[test]
    fn an_arm_is_never_taken_and_its_guard_is_always_or_never_true() {
        let text = "fn f() { match a { B if c < d => 1, E => 2, _ => 3 } }";
        let changes = [
            change(1, Genre::MatchArm, "", 1, 20),
            change(2, Genre::MatchArmGuard, "true", 1, 25),
            change(3, Genre::MatchArmGuard, "false", 1, 25),
            change(4, Genre::BinaryOperator, ">", 1, 27),
            change(5, Genre::MatchArm, "", 1, 37),
        ];
        let expected = "fn f() { match a { B if !is(1) && (is(2) || !is(3) && \
            ((if is(4) { (c) > (d) } else { c < d }))) => 1, E if !is(5) => 2, _ => 3 } }";
        assert_eq!(with(text, &changes), (expected.to_owned(), vec![]));
    }

    #[test]
    fn a_field_has_the_value_of_the_base() {
        let text = "fn f() { S { a: 1, b, ..base() } }";
        let changes = [
            change(1, Genre::StructField, "", 1, 14),
            change(2, Genre::StructField, "", 1, 20),
        ];
        let expected = "fn f() { S { a: (if is(1) { let base: S = base(); base.a } else { 1 }), \
            b: (if is(2) { let base: S = base(); base.b } else { b }), ..base() } }";
        assert_eq!(with(text, &changes), (expected.to_owned(), vec![]));
    }

    #[test]
    fn what_cannot_stand_behind_a_switch_is_left_out() {
        for (text, genre, replacement, column) in [
            (
                "const A: bool = f(); const fn f() -> bool { a == b }",
                Genre::BinaryOperator,
                "!=",
                47,
            ),
            (
                "fn f() { if let A = b && c {} }",
                Genre::BinaryOperator,
                "||",
                23,
            ),
            ("const A: bool = b == c;", Genre::BinaryOperator, "!=", 19),
            ("fn f() -> impl Fn() { g }", Genre::FnValue, "h", 23),
            ("fn f() { a == b }", Genre::BinaryOperator, "!=", 1),
        ] {
            let (left, left_out) = with(text, &[change(7, genre, replacement, 1, column)]);
            assert_eq!((left.as_str(), left_out), (text, vec![7]));
        }
    }

    #[test]
    fn a_constant_function_that_no_constant_needs_is_an_ordinary_one() {
        let text = "const fn f() -> bool { a == b }";
        let changes = [change(1, Genre::BinaryOperator, "!=", 1, 26)];
        let expected = "fn f() -> bool { (if is(1) { (a) != (b) } else { a == b }) }";
        assert_eq!(with(text, &changes), (expected.to_owned(), vec![]));
    }

    #[test]
    fn a_text_that_is_no_rust_is_an_error() {
        let constants = ConstantNames::of([]).unwrap();
        assert!(switched("fn f( {", &[], &constants).is_err());
    }
}
