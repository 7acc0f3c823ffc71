use super::{UnreadQuote, can_be_raw, quoted, quoted_character, unquote, unquote_character};

#[test]
fn quotes_with_the_escapes_of_go() {
    let text = "\u{7}\u{8}\u{c}\n\r\t\u{b}\0\u{1f} \u{7f}\u{80}é\u{ffff}\u{10000}\"'\\";
    let controls = r"\a\b\f\n\r\t\v\x00\x1f \x7f\u0080";
    assert_eq!(
        quoted(text, false),
        format!("\"{controls}é\\uffff\u{10000}\\\"'\\\\\"")
    );
    assert_eq!(
        quoted(text, true),
        format!(r#""{controls}\u00e9\uffff\U00010000\"'\\""#)
    );
    assert_eq!(quoted_character('\'', false), r"'\''");
    assert_eq!(quoted_character('"', false), "'\"'");
    assert_eq!(quoted_character('\u{7f}', false), r"'\x7f'");
}

#[test]
fn writes_raw_what_fits_between_backquotes_on_one_line() {
    assert!(can_be_raw("a\té"));
    for text in ["a\nb", "a\rb", "a`b", "a\u{7f}b", "a\u{feff}b"] {
        assert!(!can_be_raw(text), "{text:?}");
    }
}

#[test]
fn reads_every_escape() {
    for (literal, wanted) in [
        (r#""\a\b\f\n\r\t\v\\\"""#, "\u{7}\u{8}\u{c}\n\r\t\u{b}\\\""),
        (r#""\x41\101\u00e9\U0001F600'""#, "AAé😀'"),
        ("`a\r\\b`", "a\\b"),
    ] {
        assert_eq!(unquote(literal), Ok(wanted.to_owned()), "{literal}");
    }
    for (literal, wanted) in [(r"'\a'", 7), (r"'\v'", 11), (r"'\''", 39), ("'\"'", 34)] {
        assert_eq!(unquote_character(literal), Ok(wanted), "{literal}");
    }
}

#[test]
fn reads_no_literal_with_a_quote_or_an_end_of_line_in_it() {
    for literal in [
        r#""a"b""#,
        "\"a\nb\"",
        // The other quote needs no backslash and has none.
        r#""\'""#,
        r#""\8""#,
        r#""\400""#,
        r#""\ud800""#,
    ] {
        assert_eq!(unquote(literal), Err(UnreadQuote::Syntax), "{literal}");
    }
    for literal in ["'''", "'\n'", r#"'\"'"#, "''", "'ab'"] {
        let read = unquote_character(literal);
        assert_eq!(read, Err(UnreadQuote::Syntax), "{literal}");
    }
}
