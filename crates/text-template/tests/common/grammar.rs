//! Random templates by a grammar. Each choice is a number of a tape, so that proptest can shrink a failing
//! template.

use std::fmt::Write as _;

use proptest::prelude::*;
use text_template::{FunctionSummary, functions};

/// Random templates.
pub(crate) fn templates() -> impl Strategy<Value = String> {
    prop::collection::vec(any::<u16>(), 20..160).prop_map(|tape| Grammar::new(tape).template())
}

struct Grammar {
    tape: std::vec::IntoIter<u16>,
    functions: Vec<FunctionSummary>,
    /// How many variables are there.
    variables: usize,
    in_range: bool,
    /// Whether the template `t` exists.
    has_other: bool,
    /// Within the template `t`, which a range may call.
    in_other: bool,
}

/// Texts that matter to some function.
const TEXTS: [&str; 24] = [
    "\"a\"",
    "\"\"",
    "\"hello world\"",
    "\"a,b,,c\"",
    "\"12\"",
    "\"-3.50\"",
    "\"0x1f\"",
    "\"héllo ß\"",
    "`raw \"x\"`",
    "\"a\\tb\\n<&>'\\\"\"",
    "\"FooBar_baz-9\"",
    "\"http://u:p@h:80/a%20b?q=1#f\"",
    "\"{\\\"a\\\":[1,null]}\"",
    "\"YWJj\"",
    "\"/a/../b.c\"",
    "\",\"",
    "\"b\"",
    "\"k\"",
    "\"%v|%5d|%-4s|%q\"",
    "\"[a-c]+\"",
    "\"(l+)o?\"",
    "\"1h30m\"",
    "\"2006-01-02 15:04\"",
    "\"string\"",
];
const INTS: [&str; 12] = [
    "0", "1", "2", "3", "-1", "5", "12", "'a'", "0x10", "-3", "7", "1.0",
];
/// The values of a range within another one.
const SMALL: [&str; 7] = [
    "3",
    "0",
    "(until 4)",
    "$.list",
    "$.empty",
    "$.dict",
    "\"a\"",
];
const FLOATS: [&str; 8] = [
    "1.5",
    "0.1",
    "-2.5",
    "1e6",
    "1e21",
    "3.0",
    "1e-7",
    "123456.789",
];
const FIELDS: [&str; 36] = [
    ".s",
    ".n",
    ".e",
    ".list",
    ".ints",
    ".dict",
    ".none",
    ".empty",
    ".nil",
    ".t",
    ".no",
    ".f",
    ".u",
    ".quote",
    ".mixed",
    ".nested",
    ".dict.a",
    ".dict.c",
    ".dict.c.d",
    ".missing",
    ".dict.missing",
    "$.s",
    "$.list",
    "$.dict",
    "$",
    ".",
    ".connectors",
    ".connector.metadata.name",
    ".json",
    ".neg",
    ".zero",
    ".big",
    ".fbig",
    ".fsmall",
    "$.n",
    "$.u",
];
const PATTERNS: [&str; 48] = [
    "a",
    "b",
    "l",
    "o",
    ".",
    "[a-c]",
    "[^a]",
    r"\d",
    r"\w+",
    r"\s",
    "(a|b)",
    "(l+)",
    "(?:o|w)",
    "^",
    "$",
    r"\b",
    "a*",
    "o?",
    "l{2}",
    "(?i)H",
    "é",
    "|",
    "[[:alpha:]]+",
    "b{0,2}",
    "(a)(b)?",
    ".*?",
    "(?:ab|a)",
    r"\x61",
    "[^\\s]+?",
    "(|l)",
    "(?s).+",
    "(?m)^",
    "(?U)a+",
    r"\D",
    r"[\d_-]",
    "a{1,3}?",
    "(?P<n>a|l)",
    "{",
    "]",
    "[a",
    "(",
    ")",
    "*",
    "a**",
    "(a*)+",
    r"\pL",
    "x",
    r"\.",
];
const FORMATS: [&str; 16] = [
    "%v",
    "%s",
    "%d",
    "%q",
    "%x",
    "%T",
    "%5v|",
    "%-6v|",
    "%05d",
    "%+d",
    "%.2f",
    "%g",
    "%t",
    "%#v",
    "%[2]v %[1]v",
    "%*d",
];
/// Their results are in another order each time, or they would make a dictionary contain itself.
const APART: [&str; 9] = [
    "keys",
    "values",
    "set",
    "merge",
    "mustMerge",
    "mergeOverwrite",
    "mustMergeOverwrite",
    "fail",
    "printf",
];

impl Grammar {
    fn new(tape: Vec<u16>) -> Self {
        let functions = functions()
            .into_iter()
            .filter(|it| !APART.contains(&it.name));
        Self {
            tape: tape.into_iter(),
            functions: functions.collect(),
            variables: 0,
            in_range: false,
            has_other: false,
            in_other: false,
        }
    }

    /// A number below another one; zero when the tape is over.
    fn below(&mut self, most: usize) -> usize {
        usize::from(self.tape.next().unwrap_or(0)) % most
    }

    fn one_of(&mut self, of: &[&'static str]) -> &'static str {
        of[self.below(of.len())]
    }

    fn template(&mut self) -> String {
        let mut text = String::new();
        self.has_other = self.below(3) == 1;
        if self.has_other {
            self.in_other = true;
            let body = self.nodes(2);
            self.in_other = false;
            write!(text, "{{{{ define \"t\" }}}}{body}{{{{ end }}}}").unwrap();
        }
        self.variables = 0;
        text.push_str(&self.nodes(3));
        if self.below(6) == 1 {
            self.damage(&mut text);
        }
        text
    }

    /// Takes a character away, or puts one in.
    fn damage(&mut self, text: &mut String) {
        let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
        if places.is_empty() {
            return;
        }
        let place = places[self.below(places.len())];
        match self.below(3) {
            0 => {
                text.remove(place);
            }
            1 => text.insert_str(
                place,
                self.one_of(&[
                    "{{", "}}", "-", " ", "\"", "(", ")", "|", "$", ".", "x", "{{end}}", ":=",
                    "\n", "1",
                ]),
            ),
            _ => text.truncate(place),
        }
    }

    fn nodes(&mut self, depth: usize) -> String {
        let count = 1 + self.below(3);
        (0..count).map(|_| self.node(depth)).collect()
    }

    fn open(&mut self) -> &'static str {
        self.one_of(&["{{ ", "{{", "{{- ", "{{ ", "{{ "])
    }

    fn close(&mut self) -> &'static str {
        self.one_of(&[" }}", "}}", " -}}", " }}", " }}"])
    }

    fn node(&mut self, depth: usize) -> String {
        let (open, close) = (self.open(), self.close());
        let before = self.variables;
        let node = match self.below(if depth == 0 { 6 } else { 14 }) {
            0 | 1 => self
                .one_of(&["text", " \n ", "é", "a  b\n", "}}", "{ "])
                .to_owned(),
            2..=4 => format!("{open}{}{close}", self.pipeline(2)),
            5 => {
                let value = self.pipeline(2);
                let name = self.variables;
                self.variables += 1;
                return format!("{open}$v{name} := {value}{close}");
            }
            6 | 7 => {
                let (condition, body) = (self.pipeline(1), self.nodes(depth - 1));
                let other = self.nodes(depth - 1);
                let middle = match self.below(3) {
                    0 => String::new(),
                    1 => format!("{{{{ else }}}}{other}"),
                    _ => format!("{{{{ else if {} }}}}{other}", self.pipeline(1)),
                };
                format!("{open}if {condition}{close}{body}{middle}{{{{ end }}}}")
            }
            8 => {
                let (value, body) = (self.pipeline(1), self.nodes(depth - 1));
                format!("{open}with {value}{close}{body}{{{{ else }}}}none{{{{ end }}}}")
            }
            9..=11 => self.range(open, close, depth),
            12 if self.has_other => {
                let value = self.word("any", 1);
                format!("{open}template \"t\" {value}{close}")
            }
            _ if self.variables > 0 => {
                let (name, value) = (self.below(self.variables), self.pipeline(1));
                format!("{open}$v{name} = {value}{close}")
            }
            _ => "{{/* comment */}}".to_owned(),
        };
        self.variables = before;
        node
    }

    fn range(&mut self, open: &str, close: &str, depth: usize) -> String {
        // Go counts to any number, so a range within another one goes through little.
        let over = match self.below(4) {
            _ if self.in_range || self.in_other => self.one_of(&SMALL).to_owned(),
            0 => self.word("int", 1),
            1 => self.pipeline(1),
            _ => self.word("list", 1),
        };
        let name = self.variables;
        let variables = match self.below(3) {
            0 => String::new(),
            1 => {
                self.variables += 1;
                format!("$v{name} := ")
            }
            _ => {
                self.variables += 2;
                format!("$v{name}, $v{} := ", name + 1)
            }
        };
        let outer = std::mem::replace(&mut self.in_range, true);
        let body = self.nodes(depth - 1);
        self.in_range = outer;
        let jump = self.one_of(&[
            "",
            "",
            "{{ break }}",
            "{{ if eq . 1 }}{{ continue }}{{ end }}",
        ]);
        format!("{open}range {variables}{over}{close}{body}{jump},{{{{ else }}}}none{{{{ end }}}}")
    }

    fn pipeline(&mut self, depth: usize) -> String {
        let mut pipeline = self.command(depth, false);
        let pipes = [0, 0, 1, 0, 2][self.below(5)];
        for _ in 0..pipes {
            let command = self.command(depth, true);
            write!(pipeline, " | {command}").unwrap();
        }
        pipeline
    }

    fn command(&mut self, depth: usize, is_piped: bool) -> String {
        if !is_piped && self.below(3) == 0 {
            return self.word("any", depth);
        }
        match self.below(12) {
            0 => {
                let format = self.one_of(&FORMATS);
                let words = if is_piped {
                    String::new()
                } else {
                    format!(" {} {}", self.word("any", depth), self.word("any", depth))
                };
                format!("printf \"{format}\"{words}")
            }
            1 if !is_piped => format!("sortAlpha (keys {})", self.word("dict", depth)),
            2 if !is_piped => format!("set {} \"k\" {}", self.word("dict", depth), self.scalar()),
            3 if !is_piped => {
                let merge = self.one_of(&["merge", "mergeOverwrite"]);
                let (one, other) = (self.fresh(), self.fresh());
                format!("{merge} {one} {other}")
            }
            4 if !is_piped => self.regular(),
            _ => self.function(depth, is_piped),
        }
    }

    /// A function of regular expressions, with an expression that may be right.
    fn regular(&mut self) -> String {
        let pieces = 1 + self.below(5);
        let pattern: String = (0..pieces).map(|_| self.one_of(&PATTERNS)).collect();
        let text = self.one_of(&[
            ".s",
            ".u",
            ".quote",
            "\"aabbaa\"",
            "\"\"",
            "\"a1 b22\\nc_3-x\"",
            "\"lllo\"",
        ]);
        let count = self.one_of(&["-1", "0", "1", "2", "9"]);
        let by = self.one_of(&[
            "\"<$1>\"",
            "\"$0$0\"",
            "\"${2}x\"",
            "\"\"",
            "\"$$-\"",
            "\"$1x\"",
        ]);
        match self.below(6) {
            0 => format!("regexMatch `{pattern}` {text}"),
            1 => format!("regexFind `{pattern}` {text} | quote"),
            2 => format!("regexFindAll `{pattern}` {text} {count} | toJson"),
            3 => format!("regexSplit `{pattern}` {text} {count} | toJson"),
            4 => format!("regexReplaceAllLiteral `{pattern}` {text} {by}"),
            _ => format!("regexReplaceAll `{pattern}` {text} {by}"),
        }
    }

    fn function(&mut self, depth: usize, is_piped: bool) -> String {
        let mut usage = String::new();
        // The value of a pipe seldom has a type that only some functions take.
        for _ in 0..4 {
            let place = self.below(self.functions.len());
            usage.clone_from(&self.functions[place].usage);
            if !is_piped || usage.ends_with(" any") || usage.ends_with('…') {
                break;
            }
        }
        let mut words = usage.split(' ');
        let mut text = words.next().unwrap().to_owned();
        let mut kinds: Vec<String> = Vec::new();
        for kind in words {
            match kind.strip_suffix('…') {
                Some(kind) => kinds.extend((0..self.below(3)).map(|_| kind.to_owned())),
                None => kinds.push(kind.to_owned()),
            }
        }
        if is_piped {
            kinds.pop();
        }
        for kind in kinds {
            // Now and then of another type.
            let kind = if self.below(12) == 0 { "any" } else { &kind };
            let word = self.word(kind, depth);
            write!(text, " {word}").unwrap();
        }
        text
    }

    fn scalar(&mut self) -> &'static str {
        match self.below(3) {
            0 => self.one_of(&TEXTS),
            1 => self.one_of(&INTS),
            _ => "nil",
        }
    }

    fn fresh(&mut self) -> String {
        let (one, other, inner) = (self.scalar(), self.scalar(), self.scalar());
        format!("(dict \"a\" {one} \"b\" {other} \"c\" (dict \"d\" {inner}))")
    }

    fn word(&mut self, kind: &str, depth: usize) -> String {
        if depth > 0 && self.below(4) == 0 {
            return format!("({})", self.pipeline(depth - 1));
        }
        match kind {
            "string" => match self.below(4) {
                0 => self
                    .one_of(&[".s", ".u", ".quote", ".json", "$.s"])
                    .to_owned(),
                _ => self.one_of(&TEXTS).to_owned(),
            },
            "int" => match self.below(5) {
                0 => "(int .n)".to_owned(),
                _ => self.one_of(&INTS).to_owned(),
            },
            "float" => self.one_of(&FLOATS).to_owned(),
            "bool" => self.one_of(&["true", "false", ".t", ".no"]).to_owned(),
            "dict" => match self.below(4) {
                0 => self.fresh(),
                1 => "(split \",\" .s)".to_owned(),
                _ => self
                    .one_of(&[".dict", ".none", ".dict.c", "$.dict"])
                    .to_owned(),
            },
            "list" => match self.below(3) {
                0 => self
                    .one_of(&[
                        "(until 4)",
                        "(splitList \",\" \"c,a,b\")",
                        "(list 1 \"a\" nil)",
                        "(chunk 2 .list)",
                    ])
                    .to_owned(),
                _ => self
                    .one_of(&[
                        ".list",
                        ".ints",
                        ".mixed",
                        ".empty",
                        ".dict",
                        "$.nested",
                        ".connectors",
                    ])
                    .to_owned(),
            },
            "time" => self
                .one_of(&["now", "now", "(dateModify \"1h\" now)"])
                .to_owned(),
            _ => match self.below(9) {
                0 | 1 => self.one_of(&TEXTS).to_owned(),
                2 => self.one_of(&INTS).to_owned(),
                3 => self.one_of(&FLOATS).to_owned(),
                4 => self.one_of(&["true", "false", "nil"]).to_owned(),
                5 if self.variables > 0 => format!("$v{}", self.below(self.variables)),
                6 => self.word("list", 0),
                _ => self.one_of(&FIELDS).to_owned(),
            },
        }
    }
}
