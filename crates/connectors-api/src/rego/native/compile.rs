//! From the syntax tree of a module to its program.
//!
//! The types here are the closed set: they read nothing else of the tree. A node or a field that is missing here means
//! that the module has no program.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::{
    LARGEST_WHOLE, NUMBER_FIELD, NativeBody, NativeOutput, NativeProgram, NativeRules, NativeStep,
    NativeTerm,
};

/// The imports without any meaning for a module of the set.
const IMPORTS: [&[&str]; 6] = [
    &["rego", "v1"],
    &["future", "keywords"],
    &["future", "keywords", "if"],
    &["future", "keywords", "in"],
    &["future", "keywords", "contains"],
    &["future", "keywords", "every"],
];
/// Names with a meaning of their own.
const RESERVED: [&str; 11] = [
    "contains", "data", "every", "future", "if", "in", "input", "keywords", "output", "rego", "v1",
];

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedFile {
    #[serde(rename = "source")]
    _source: IgnoredAny,
    #[serde(rename = "version")]
    _version: IgnoredAny,
    ast: ParsedModule,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedModule {
    /// It was checked before.
    #[serde(rename = "package")]
    _package: IgnoredAny,
    imports: Vec<ParsedImport>,
    rules: Vec<ParsedRule>,
    #[serde(rename = "rego_v1")]
    _rego_v1: bool,
    #[serde(rename = "num_expressions")]
    _expressions: IgnoredAny,
    #[serde(rename = "num_statements")]
    _statements: IgnoredAny,
    #[serde(rename = "num_queries")]
    _queries: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedImport {
    #[serde(rename = "span")]
    _span: IgnoredAny,
    refr: ParsedTerm,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum ParsedRule {
    Spec {
        #[serde(rename = "span")]
        _span: IgnoredAny,
        head: ParsedHead,
        bodies: Vec<ParsedBody>,
    },
    Default {
        #[serde(rename = "span")]
        _span: IgnoredAny,
        refr: ParsedTerm,
        args: [ParsedTerm; 0],
        #[serde(rename = "op")]
        _op: ParsedAssign,
        value: ParsedOutput,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum ParsedHead {
    Compr {
        #[serde(rename = "span")]
        _span: IgnoredAny,
        refr: ParsedTerm,
        assign: ParsedValue,
    },
}

/// `= {…}` or `:= {…}`, which are the same in a head.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedValue {
    #[serde(rename = "span")]
    _span: IgnoredAny,
    #[serde(rename = "op")]
    _op: ParsedAssign,
    value: ParsedOutput,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum ParsedAssign {
    Eq,
    ColEq,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedBody {
    #[serde(rename = "span")]
    _span: IgnoredAny,
    /// None in the first body, which has the value of the head.
    assign: Option<ParsedValue>,
    is_else: bool,
    query: ParsedQuery,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedQuery {
    #[serde(rename = "span")]
    _span: IgnoredAny,
    stmts: Vec<ParsedStatement>,
    #[serde(rename = "qidx")]
    _number: IgnoredAny,
}

/// A statement without any `with`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedStatement {
    #[serde(rename = "span")]
    _span: IgnoredAny,
    literal: ParsedLiteral,
    #[serde(rename = "sidx")]
    _number: IgnoredAny,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum ParsedLiteral {
    Expr {
        #[serde(rename = "span")]
        _span: IgnoredAny,
        expr: ParsedStep,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ParsedStep {
    Relation(ParsedRelation),
    Term(ParsedTerm),
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum ParsedRelation {
    AssignExpr {
        #[serde(rename = "span")]
        _span: IgnoredAny,
        op: ParsedAssign,
        lhs: ParsedTerm,
        rhs: ParsedTerm,
        #[serde(rename = "eidx")]
        _number: IgnoredAny,
    },
    BoolExpr {
        #[serde(rename = "span")]
        _span: IgnoredAny,
        op: ParsedComparison,
        lhs: ParsedTerm,
        rhs: ParsedTerm,
        #[serde(rename = "eidx")]
        _number: IgnoredAny,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum ParsedComparison {
    Eq,
    Ne,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum ParsedOutput {
    Object {
        #[serde(rename = "span")]
        _span: IgnoredAny,
        fields: Vec<(IgnoredAny, ParsedTerm, ParsedTerm)>,
        #[serde(rename = "eidx")]
        _number: IgnoredAny,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
enum ParsedTerm {
    String(ParsedConstant<String>),
    RawString(ParsedConstant<String>),
    Number(ParsedConstant<i64>),
    Bool(ParsedConstant<bool>),
    Null(ParsedConstant<()>),
    Var(ParsedConstant<String>),
    RefDot {
        #[serde(rename = "span")]
        _span: IgnoredAny,
        refr: Box<ParsedTerm>,
        field: (IgnoredAny, String),
        #[serde(rename = "eidx")]
        _number: IgnoredAny,
    },
    RefBrack {
        #[serde(rename = "span")]
        _span: IgnoredAny,
        refr: Box<ParsedTerm>,
        index: Box<ParsedTerm>,
        #[serde(rename = "eidx")]
        _number: IgnoredAny,
    },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct ParsedConstant<T> {
    #[serde(rename = "span")]
    _span: IgnoredAny,
    value: T,
    #[serde(rename = "eidx")]
    _number: IgnoredAny,
}

/// The variables of a body, each by the term that it stands for.
type BodyVariables<'a> = BTreeMap<&'a str, NativeTerm>;

/// The program of a parsed module. None if the module is not of the set, or too large.
pub(in crate::rego) fn compile(tree: &Value) -> Option<NativeProgram> {
    let [ParsedFile { ast, .. }] = <[ParsedFile; 1]>::deserialize(tree).ok()?;
    if !ast.imports.iter().all(ParsedImport::is_known) {
        return None;
    }
    let mut rules = NativeRules::default();
    for rule in &ast.rules {
        match rule {
            ParsedRule::Spec { head, bodies, .. } => rules.rules.push(head.compile(bodies)?),
            ParsedRule::Default {
                refr,
                args: [],
                value,
                ..
            } => {
                let is_second = rules.default.is_some();
                if is_second || !refr.is_output() || !value.is_constant() {
                    return None;
                }
                rules.default = Some(value.compile(&BodyVariables::new())?);
            }
        }
    }
    let program = NativeProgram::try_from(rules).ok()?;
    let written = serde_json::to_vec(&program).ok()?;
    (written.len() <= NativeProgram::LONGEST).then_some(program)
}

impl ParsedImport {
    fn is_known(&self) -> bool {
        let Some((root, fields)) = self.refr.names() else {
            return false;
        };
        let path: Vec<&str> = [root].into_iter().chain(fields).collect();
        IMPORTS.contains(&&*path)
    }
}

impl ParsedHead {
    /// The bodies of a rule for the output.
    fn compile(&self, bodies: &[ParsedBody]) -> Option<Vec<NativeBody>> {
        let Self::Compr { refr, assign, .. } = self;
        if !refr.is_output() {
            return None;
        }
        let Some((first, others)) = bodies.split_first() else {
            let steps = Vec::new();
            let output = assign.value.compile(&BodyVariables::new())?;
            return Some(vec![NativeBody { steps, output }]);
        };
        if first.is_else || first.assign.is_some() {
            return None;
        }
        let mut compiled = vec![first.query.compile(&assign.value)?];
        for body in others {
            let assign = body.assign.as_ref().filter(|_| body.is_else)?;
            compiled.push(body.query.compile(&assign.value)?);
        }
        Some(compiled)
    }
}

impl ParsedQuery {
    fn compile(&self, output: &ParsedOutput) -> Option<NativeBody> {
        let mut variables = BodyVariables::new();
        let mut steps = Vec::new();
        for statement in &self.stmts {
            let ParsedLiteral::Expr { expr, .. } = &statement.literal;
            steps.push(match expr {
                ParsedStep::Term(term) => NativeStep::Holds(term.compile(&variables)?),
                ParsedStep::Relation(relation) => relation.compile(&mut variables)?,
            });
        }
        let output = output.compile(&variables)?;
        Some(NativeBody { steps, output })
    }
}

impl ParsedRelation {
    fn compile<'a>(&'a self, variables: &mut BodyVariables<'a>) -> Option<NativeStep> {
        match self {
            Self::AssignExpr {
                op: ParsedAssign::ColEq,
                lhs: ParsedTerm::Var(variable),
                rhs,
                ..
            } => {
                let name = variable.value.as_str();
                if RESERVED.contains(&name) || name.starts_with('_') {
                    return None;
                }
                let term = rhs.compile(variables)?;
                let before = variables.insert(name, term.clone());
                before.is_none().then_some(NativeStep::Defined(term))
            }
            // Unification has rules of its own.
            Self::AssignExpr { .. } => None,
            Self::BoolExpr { op, lhs, rhs, .. } => {
                let (left, right) = (lhs.compile(variables)?, rhs.compile(variables)?);
                Some(match op {
                    ParsedComparison::Eq => NativeStep::Equal(left, right),
                    ParsedComparison::Ne => NativeStep::Unequal(left, right),
                })
            }
        }
    }
}

impl ParsedOutput {
    fn compile(&self, variables: &BodyVariables<'_>) -> Option<NativeOutput> {
        let Self::Object { fields, .. } = self;
        let (mut state, mut message) = (None, None);
        for (_, name, value) in fields {
            let ParsedTerm::String(name) = name else {
                return None;
            };
            let field = match name.value.as_str() {
                "state" => &mut state,
                "message" => &mut message,
                _ => return None,
            };
            if field.replace(value.compile(variables)?).is_some() {
                return None;
            }
        }
        Some(NativeOutput { state, message })
    }

    fn is_constant(&self) -> bool {
        let Self::Object { fields, .. } = self;
        fields.iter().all(|(_, _, value)| value.names().is_none())
    }
}

impl ParsedTerm {
    fn compile(&self, variables: &BodyVariables<'_>) -> Option<NativeTerm> {
        let (root, fields) = match self {
            Self::String(text) | Self::RawString(text) => {
                return Some(NativeTerm::Text(text.value.clone()));
            }
            Self::Number(number) => {
                let is_exact = number.value.unsigned_abs() <= LARGEST_WHOLE.unsigned_abs();
                return is_exact.then_some(NativeTerm::Whole(number.value));
            }
            Self::Bool(truth) => return Some(NativeTerm::Truth(truth.value)),
            Self::Null(_) => return Some(NativeTerm::Null),
            Self::Var(_) | Self::RefDot { .. } | Self::RefBrack { .. } => self.names()?,
        };
        if fields.contains(&NUMBER_FIELD) {
            return None;
        }
        let known = variables.get(root);
        if known.is_some() && fields.is_empty() {
            return known.cloned();
        }
        let mut path = match known {
            Some(NativeTerm::Path(path)) => path.clone(),
            None if root == "input" => Vec::new(),
            Some(_) | None => return None,
        };
        path.extend(fields.into_iter().map(str::to_owned));
        (!path.is_empty()).then_some(NativeTerm::Path(path))
    }

    /// The variable and the constant fields of a reference.
    fn names(&self) -> Option<(&str, Vec<&str>)> {
        let (mut term, mut fields) = (self, Vec::new());
        loop {
            match term {
                Self::Var(name) => {
                    fields.reverse();
                    return Some((&name.value, fields));
                }
                Self::RefDot { refr, field, .. } => {
                    fields.push(field.1.as_str());
                    term = refr;
                }
                Self::RefBrack { refr, index, .. } => {
                    let Self::String(field) = &**index else {
                        return None;
                    };
                    fields.push(&field.value);
                    term = refr;
                }
                Self::String(_)
                | Self::RawString(_)
                | Self::Number(_)
                | Self::Bool(_)
                | Self::Null(_) => return None,
            }
        }
    }

    fn is_output(&self) -> bool {
        matches!(self, Self::Var(name) if name.value == "output")
    }
}
