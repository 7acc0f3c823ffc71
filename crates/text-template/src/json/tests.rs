use super::{Style, read, write};
use crate::{
    error::{Refusal, TemplateRenderProblem},
    limits::TemplateLimits,
    meter::Meter,
    value::Value,
};

fn written(value: &Value) -> String {
    let style = Style {
        pretty: false,
        html: true,
    };
    let meter = Meter::new(&TemplateLimits::default());
    write(&meter, value, style).unwrap().unwrap()
}

/// What is read, written again; none when it is no JSON.
fn again(text: &str) -> Result<Option<String>, TemplateRenderProblem> {
    let meter = Meter::new(&TemplateLimits::default());
    Ok(read(&meter, text)?.as_ref().map(written))
}

#[test]
fn writes_exponents_without_a_zero_before_one_digit() {
    for (number, wanted) in [
        (1e-6, "0.000001"),
        (1e-7, "1e-7"),
        (-1e-7, "-1e-7"),
        (1.5e-10, "1.5e-10"),
        (1e-100, "1e-100"),
        (1e20, "100000000000000000000"),
        (1e21, "1e+21"),
    ] {
        assert_eq!(written(&Value::Float(number)), wanted);
    }
}

#[test]
fn writes_texts_with_the_escapes_of_go() {
    let text = "\"\\\n\r\t\u{8}\u{c}\0\u{1f}<>&\u{2028}\u{2029}\u{7f} é";
    let wanted = r#""\"\\\n\r\t\b\f\u0000\u001f\u003c\u003e\u0026\u2028\u2029"#;
    assert_eq!(written(&Value::text(text)), format!("{wanted}\u{7f} é\""));
}

#[test]
fn reads_every_kind_of_value() {
    for (text, wanted) in [
        ("null", "null"),
        ("true", "true"),
        ("false", "false"),
        ("[false,1]", "[false,1]"),
        ("1e5", "100000"),
        ("1E5", "100000"),
        ("1e+5", "100000"),
        ("1e-5", "0.00001"),
        ("-0.5", "-0.5"),
        (r#""a b""#, r#""a b""#),
        (r#""\"\\\/\b\f\n\r\t\u00e9""#, r#""\"\\/\b\f\n\r\té""#),
        // A pair of surrogates is one character.
        (r#""\ud83d\ude00""#, r#""😀""#),
        (r#""\ud800\udc00""#, "\"\u{10000}\""),
        (r#""\udbff\udfff""#, "\"\u{10ffff}\""),
    ] {
        assert_eq!(again(text), Ok(Some(wanted.to_owned())), "{text}");
    }
}

#[test]
fn reads_nothing_that_is_no_json() {
    for text in [
        "fals",
        "falsee",
        "[f]",
        // Digits follow a sign, a point and the letter of an exponent.
        "[-]",
        "[1.]",
        "[1e]",
        "01",
        ".5",
        "1e400",
        "\"a\u{1f}b\"",
        r#""\x""#,
        r#""\u12""#,
        r#""\u+123""#,
    ] {
        assert_eq!(again(text), Ok(None), "{text}");
    }
}

#[test]
fn refuses_half_a_surrogate_pair() {
    let refused = TemplateRenderProblem::Refused(Refusal::Json("half a surrogate pair"));
    for text in [
        r#""\ud83d""#,
        r#""\ude00""#,
        r#""\ud83dx""#,
        r#""\ud83d\u0041""#,
        r#""\ud83d\ud83d""#,
        r#""\ude00\ud83d""#,
    ] {
        assert_eq!(again(text), Err(refused.clone()), "{text}");
    }
}
