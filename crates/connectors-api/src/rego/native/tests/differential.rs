//! Random modules of the set and beside it, on random objects: a program says what the engine says.

use super::*;

/// Modules of a run, and objects of each.
const MODULES: u32 = 1200;
const OBJECTS: usize = 12;

/// The names of fields. Objects and modules share them, so that paths lead somewhere.
const FIELDS: [&str; 5] = ["a", "b", "status", "state", "ü \"x\""];

/// Where it comes first in a caller's object, the service reads the text of the field in place of the object. So an object
/// may have more levels than a parser reads.
const TEXT_FIELD: &str = "$serde_json::private::RawValue";

/// Constants as an author may write them.
const LITERALS: [&str; 10] = [
    "1e0",
    "10e-1",
    "1E0",
    "100e-2",
    "-0",
    "0e5",
    "9007199254740992.0",
    "9007199254740993",
    "\"\\u0031\"",
    "\"appro\\u0076ed\"",
];

fn field() -> impl Strategy<Value = &'static str> {
    prop::sample::select(&FIELDS[..])
}

/// Values that are equal to one another, or nearly.
fn leaf() -> BoxedStrategy<Value> {
    let texts = [
        "approved",
        "approved ",
        "pending",
        "",
        "1",
        "true",
        "ä",
        "a\u{308}",
        "𝄞\n",
        "null",
    ];
    // The text of each number is what a caller sends.
    let numbers = [
        "0",
        "-0",
        "0.0",
        "1",
        "1.0",
        "1e0",
        "10e-1",
        "2",
        "1.5",
        "9007199254740992",
        "9007199254740993",
        "9007199254740993.0",
        "9223372036854775807",
        "-9223372036854775808",
        "18446744073709551615",
        "18446744073709551616",
        "1e300",
        "1e-300",
        "0.1",
    ];
    let number = |text: &str| serde_json::from_str::<Value>(text).unwrap();
    prop_oneof![
        1 => Just(Value::Null),
        2 => any::<bool>().prop_map(Value::from),
        5 => prop::sample::select(texts.to_vec()).prop_map(Value::from),
        1 => "x{62,65}".prop_map(Value::from),
        1 => "\\PC{0,4}".prop_map(Value::from),
        4 => prop::sample::select(numbers.to_vec()).prop_map(number),
    ]
    .boxed()
}

fn value() -> BoxedStrategy<Value> {
    leaf()
        .prop_recursive(4, 24, 4, |inner| {
            let key = prop_oneof![
                12 => field().prop_map(str::to_owned),
                1 => Just(NUMBER_FIELD.to_owned()),
                1 => Just(TEXT_FIELD.to_owned()),
            ];
            let fields = prop::collection::vec((key, inner.clone()), 0..5);
            prop_oneof![
                1 => prop::collection::vec(inner, 0..3).prop_map(Value::from),
                6 => fields.prop_map(|fields| Value::Object(fields.into_iter().collect())),
            ]
        })
        .boxed()
}

fn object() -> BoxedStrategy<Value> {
    let value_or_deep = prop_oneof![40 => value(), 1 => Just(nested(150))];
    let fields = prop::collection::vec((field(), value_or_deep), 2..6);
    let object = |fields: Vec<(&str, Value)>| {
        let fields = fields
            .into_iter()
            .map(|(name, value)| (name.to_owned(), value));
        Value::Object(fields.collect())
    };
    prop_oneof![20 => fields.prop_map(object), 1 => value()].boxed()
}

/// The text of a part of a module, and the features that it has.
#[derive(Clone, Debug, Default)]
struct ModulePart {
    text: String,
    features: Vec<&'static str>,
}

fn part(feature: &'static str, text: impl Into<String>) -> ModulePart {
    ModulePart {
        text: text.into(),
        features: vec![feature],
    }
}

fn joined(
    feature: &'static str,
    parts: Vec<ModulePart>,
    text: impl FnOnce(&[&str]) -> String,
) -> ModulePart {
    let texts: Vec<&str> = parts.iter().map(|it| &*it.text).collect();
    let text = text(&texts);
    let mut features: Vec<_> = parts.into_iter().flat_map(|it| it.features).collect();
    features.push(feature);
    ModulePart { text, features }
}

fn path(root: &'static str) -> BoxedStrategy<ModulePart> {
    let step = (field(), any::<bool>()).prop_map(|(field, is_dot)| {
        if is_dot && field.is_ascii() && !field.contains(' ') {
            format!(".{field}")
        } else {
            format!("[{}]", Value::from(field))
        }
    });
    prop::collection::vec(step, 1..4)
        .prop_map(move |steps| part("path", format!("{root}{}", steps.concat())))
        .boxed()
}

fn constant() -> BoxedStrategy<ModulePart> {
    prop_oneof![
        9 => leaf().prop_map(|value| part("constant", value.to_string())),
        // Numbers that are integers in another form, and texts with escapes.
        2 => prop::sample::select(LITERALS.to_vec()).prop_map(|it| part("literal", it)),
        9 => Just(part("raw text", "`approved`")),
    ]
    .boxed()
}

/// A value: a variable may be one that the body does not define, and then the module is none.
fn term() -> BoxedStrategy<ModulePart> {
    prop_oneof![
        15 => path("input"),
        9 => constant(),
        3 => Just(part("variable", "x")),
        3 => path("x"),
        1 => beside(),
    ]
    .boxed()
}

/// Values that no program has.
fn beside() -> impl Strategy<Value = ModulePart> {
    let texts = [
        "input",
        "input.a[0]",
        "input.a[_]",
        "[input.a]",
        "{\"a\": input.b}",
        "count(input.a)",
        "object.get(input, \"a\", 1)",
        "data.context.a",
        "input.b + 1",
        "lower(input.a)",
    ];
    prop::sample::select(texts.to_vec()).prop_map(|text| part("beside", text))
}

fn statement() -> BoxedStrategy<ModulePart> {
    let relation = |sign: &'static str| {
        (term(), term()).prop_map(move |(left, right)| {
            joined(sign, vec![left, right], |it| {
                format!("{} {sign} {}", it[0], it[1])
            })
        })
    };
    let holds = |it: ModulePart| joined("holds", vec![it], |it| it[0].to_owned());
    let not = |it: ModulePart| joined("beside", vec![it], |it| format!("not {}", it[0]));
    prop_oneof![
        16 => relation("=="),
        16 => relation("!="),
        1 => relation("<"),
        1 => relation("="),
        8 => term().prop_map(holds),
        1 => term().prop_map(not),
        1 => Just(part("beside", "some y in input.a")),
    ]
    .boxed()
}

fn output() -> BoxedStrategy<ModulePart> {
    let value = || prop_oneof![2 => term(), 1 => Just(part("constant", "\"approved\""))];
    prop_oneof![
        6 => value().prop_map(|it| joined("state", vec![it], |it| format!("{{\"state\": {}}}", it[0]))),
        8 => (value(), value()).prop_map(|(state, message)| {
            joined("message", vec![state, message], |it| {
                format!("{{\"state\": {}, \"message\": {}}}", it[0], it[1])
            })
        }),
        1 => Just(part("empty output", "{}")),
        1 => term().prop_map(|it| joined("beside", vec![it], |it| it[0].to_owned())),
    ]
    .boxed()
}

fn body() -> BoxedStrategy<ModulePart> {
    let assigned = prop::option::of(prop_oneof![4 => path("input"), 1 => constant()]);
    let statements = prop::collection::vec(statement(), 0..3);
    (assigned, statements)
        .prop_map(|(assigned, mut statements)| {
            if let Some(value) = assigned {
                let assigned = joined("assigned", vec![value], |it| format!("x := {}", it[0]));
                statements.insert(0, assigned);
            }
            if statements.is_empty() {
                statements.push(part("holds", "true"));
            }
            joined("body", statements, |it| format!("{{ {} }}", it.join("; ")))
        })
        .boxed()
}

fn rule() -> BoxedStrategy<ModulePart> {
    let branch = || (output(), body());
    let elses = prop::collection::vec(branch(), 0..3);
    prop_oneof![
        10 => (branch(), elses).prop_map(|((output, body), elses)| {
            let first = joined("rule", vec![output, body], |it| format!("output := {} if {}", it[0], it[1]));
            elses.into_iter().fold(first, |before, (output, body)| {
                joined("else", vec![before, output, body], |it| format!("{} else := {} if {}", it[0], it[1], it[2]))
            })
        }),
        1 => output().prop_map(|it| joined("rule", vec![it], |it| format!("output := {}", it[0]))),
    ]
    .boxed()
}

fn module() -> BoxedStrategy<ModulePart> {
    let default = prop::option::weighted(0.4, leaf());
    let rules = prop_oneof![3 => prop::collection::vec(rule(), 1), 1 => prop::collection::vec(rule(), 2..4)];
    (rules, default)
        .prop_map(|(mut rules, default)| {
            let is_several = rules.len() > 1;
            if let Some(state) = default {
                rules.push(part(
                    "default",
                    format!("default output := {{\"state\": {state}}}"),
                ));
            }
            let feature = if is_several {
                "several rules"
            } else {
                "module"
            };
            joined(feature, rules, |it| {
                format!("package approval\nimport rego.v1\n{}\n", it.join("\n"))
            })
        })
        .boxed()
}

/// The number of comparisons with the engine in which each feature was in the module, and each kind of answer was given.
#[derive(Default)]
struct ShareCounts(BTreeMap<&'static str, usize>);

impl ShareCounts {
    fn count(&mut self, what: &'static str) {
        *self.0.entry(what).or_default() += 1;
    }

    fn of(&self, what: &str) -> usize {
        self.0.get(what).copied().unwrap_or_default()
    }
}

/// How an answer differs from others, for the counts.
fn kind(said: &Result<ModuleOutput, ModuleOutputError>) -> &'static str {
    match said {
        Ok(ModuleOutput { state, message }) => match (state.as_str(), message) {
            ("approved", _) => "is approved",
            (_, Some(_)) => "has a message",
            (_, None) => "has another state",
        },
        Err(ModuleOutputError::Undefined) => "is undefined",
        Err(ModuleOutputError::State) => "has an odd state",
        Err(ModuleOutputError::Message) => "has an odd message",
        Err(ModuleOutputError::TooLong) => "is too long",
        Err(ModuleOutputError::NotAnObject | ModuleOutputError::UnknownField) => "is impossible",
    }
}

/// Compares a module's program with the engine.
fn compare(
    module: &ModulePart,
    objects: &[Value],
    counts: &mut ShareCounts,
) -> Result<(), TestCaseError> {
    // A module that is none has no program either.
    let Ok(parsed) = CheckModule::parse(&module.text, LIMIT) else {
        counts.count("no module");
        return Ok(());
    };
    let Some(program) = parsed.program() else {
        counts.count("no program");
        return Ok(());
    };
    prop_assert!(!module.features.contains(&"beside"), "{}", module.text);
    for object in objects {
        let Some(said) = program.run(object) else {
            counts.count("uncertain");
            continue;
        };
        counts.count("certain");
        counts.count(kind(&said));
        for feature in module.features.iter().collect::<BTreeSet<_>>() {
            counts.count(feature);
        }
        let said = said.map_err(EvaluationError::from);
        prop_assert_eq!(
            said,
            engine(&parsed, object),
            "{}\n{}",
            &module.text,
            object
        );
    }
    Ok(())
}

#[test]
fn a_program_says_what_the_engine_says() {
    let config = ProptestConfig {
        cases: MODULES,
        failure_persistence: None,
        ..ProptestConfig::default()
    };
    // The same modules each time, so that the shares below are the same as well.
    let mut runner =
        TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha));
    let counts = RefCell::new(ShareCounts::default());
    let case = (module(), prop::collection::vec(object(), OBJECTS));
    let outcome = runner.run(&case, |(module, objects)| {
        compare(&module, &objects, &mut counts.borrow_mut())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
    let counts = counts.into_inner();
    // Every feature and every kind of answer has its share.
    for (what, least) in [
        ("no program", 100),
        ("uncertain", 20),
        ("certain", 1000),
        ("path", 500),
        ("constant", 500),
        ("raw text", 20),
        ("literal", 20),
        ("variable", 20),
        ("assigned", 100),
        ("==", 100),
        ("!=", 100),
        ("holds", 100),
        ("state", 100),
        ("message", 100),
        ("empty output", 20),
        ("else", 100),
        ("several rules", 50),
        ("default", 100),
        ("is approved", 100),
        ("has a message", 20),
        ("has another state", 50),
        ("is undefined", 100),
        ("has an odd state", 50),
        ("has an odd message", 20),
        ("is too long", 5),
    ] {
        assert!(counts.of(what) >= least, "{what}: {:?}", counts.0);
    }
    assert_eq!(counts.of("is impossible"), 0);
}
