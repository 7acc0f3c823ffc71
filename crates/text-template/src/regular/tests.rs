use super::{GROUPS, PLACES, RegexExpression, STATES};
use crate::{
    error::{Refusal, TemplateLimit, TemplateRenderProblem},
    limits::TemplateLimits,
    meter::Meter,
};

fn compiled(pattern: &str) -> Result<RegexExpression, TemplateRenderProblem> {
    RegexExpression::compile(&Meter::new(&TemplateLimits::default()), pattern)
}

/// Why the reader itself refuses it.
fn refused(pattern: &str) -> String {
    match compiled(pattern) {
        Err(TemplateRenderProblem::Refused(Refusal::Regex { why, .. })) => why,
        other => panic!("{pattern}: {other:?}"),
    }
}

/// The recorded cases allow a refusal in the place of Go's answer. These expressions must be available.
#[test]
fn finds_what_go_finds() {
    for (pattern, text, found) in [
        (r"\Aab\z", "ab", Some("ab")),
        (r"\Ab", "ab", None),
        (r"a\z", "ab", None),
        (r"\bb", "ab b", Some("b")),
        (r"\bb", "ab", None),
        // The classes are those of ASCII, and the vertical tab is no space.
        (r"\d+", "é12\u{663}", Some("12")),
        (r"\D+", "1a2", Some("a")),
        (r"\w+", "-é_aZ9", Some("_aZ9")),
        (r"\W+", "a-é1", Some("-é")),
        (r"\s+", "a \t\n\u{c}\r\u{b}b", Some(" \t\n\u{c}\r")),
        (r"\S+", " a ", Some("a")),
        (r"[\d]+", "a12", Some("12")),
        (r"[^\d]+", "12ab", Some("ab")),
        (r"\a", "\u{7}", Some("\u{7}")),
        (r"\f", "\u{c}", Some("\u{c}")),
        (r"\n", "\n", Some("\n")),
        (r"\r", "\r", Some("\r")),
        (r"\t", "\t", Some("\t")),
        (r"\v", "\u{b}", Some("\u{b}")),
        (r"\x41", "A", Some("A")),
        (r"\x{1F600}", "😀", Some("😀")),
        (r"\.\-\_", ".-_", Some(".-_")),
        (r"[\t\x41]+", "bA\tA", Some("A\tA")),
        // What looks like a repetition and is none stands for itself.
        ("a{x}", "a{x}", Some("a{x}")),
        ("a{,2}", "a{,2}", Some("a{,2}")),
        ("a{02}", "a{02}", Some("a{02}")),
        ("a{2}", "aaa", Some("aa")),
        ("{", "{", Some("{")),
        ("(?P<_n>a)", "a", Some("a")),
        ("(?P<a_b>a)", "a", Some("a")),
        ("[[:alpha:]]+", "1ab", Some("ab")),
        ("[[:^alpha:]]+", "ab12", Some("12")),
        ("[ab]+", "xxabx", Some("ab")),
        ("[a-c]+", "xabcd", Some("abc")),
        ("[a-a]+", "baa", Some("aa")),
        ("[a-]+", "x-a-", Some("-a-")),
    ] {
        let expression = compiled(pattern).unwrap();
        let it = expression.regex.find(text).map(|it| it.as_str());
        assert_eq!(it, found, "{pattern} in {text:?}");
    }
}

#[test]
fn refuses_what_it_cannot_read_as_go_does() {
    for (why, patterns) in [
        (
            "nothing is repeated",
            &["*a", "+a", "?a", "{2}a", "(*a)", "a|{2}", "(?i)*"][..],
        ),
        ("a repetition is repeated", &["a**", "a{2}{3}"]),
        (
            "what is repeated can be empty",
            &["(a*)*", "(a|)+", "(|a)+", "^*"],
        ),
        (
            "a number of repetitions is too large",
            &["a{1001}", "a{1001,}", "a{2,1}", "a{99999999999999999999}"],
        ),
        (
            "a group has no name of letters, digits and _",
            &["(?P<>a)", "(?P<1a>a)", "(?P<a-b>a)", "(?P<-a>a)"],
        ),
        ("a bracket is not closed", &["[a", "[ab", "[a-", "[]"]),
        ("a class has another name", &["[[:foo:]]", "[[:^^alpha:]]"]),
        ("a range is the wrong way round", &["[b-a]"]),
        ("an escape is not available", &[r"\y", r"\pL", r"\é", "a\\"]),
        (
            "a hexadecimal number is no character",
            &[r"\x{}", r"\x{+41}", r"\x{g}", r"\x{D800}", r"\x4"],
        ),
    ] {
        for pattern in patterns {
            assert_eq!(refused(pattern), why, "{pattern}");
        }
    }
}

#[test]
fn counts_elements_and_groups_with_repetitions_written_out() {
    for (pattern, elements, groups) in [
        ("ab", 2, 0),
        ("^a$", 3, 0),
        ("a|b", 3, 0),
        ("(?:a)", 2, 0),
        ("(a)", 2, 1),
        ("(a)(?P<n>b)", 4, 2),
        ("[abc]", 4, 0),
        ("[a-c]", 2, 0),
        ("[[:alpha:]]", 2, 0),
        ("a?", 1, 0),
        ("a*", 1, 0),
        ("a+", 2, 0),
        ("a{2}", 2, 0),
        ("a{2,}", 3, 0),
        ("a{2,4}", 4, 0),
        ("a{0}", 1, 0),
        ("(ab|c){3}", 15, 1),
    ] {
        let expression = compiled(pattern).unwrap();
        assert_eq!(expression.elements, elements, "{pattern}");
        let bytes = elements * STATES * (groups + 1) * PLACES;
        assert_eq!(expression.bytes, bytes, "{pattern}");
    }
}

#[test]
fn allows_as_many_elements_and_groups_as_the_limits_say() {
    let limits = TemplateLimits {
        regex: 5,
        ..TemplateLimits::default()
    };
    let beyond = TemplateRenderProblem::Limit(TemplateLimit::Regex(5));
    for (enough, too_many) in [
        ("aaaaa", "aaaaaa"),
        ("a{5}", "a{6}"),
        ("((aaa))", "((aaaa))"),
    ] {
        let of = |pattern| RegexExpression::compile(&Meter::new(&limits), pattern).map(|_| ());
        assert_eq!(of(enough), Ok(()), "{enough}");
        assert_eq!(of(too_many), Err(beyond.clone()), "{too_many}");
    }
    assert_eq!(compiled("a{1000}").unwrap().elements, 1_000);
    assert!(compiled(&"(a)".repeat(GROUPS)).is_ok());
    let beyond = TemplateRenderProblem::Limit(TemplateLimit::Groups(GROUPS));
    let too_many = compiled(&"(a)".repeat(GROUPS + 1));
    assert_eq!(too_many.map(|_| ()), Err(beyond));
}
