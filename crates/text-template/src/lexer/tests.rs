use super::{TokenKind, tokens};

fn pieces(text: &str) -> Vec<(TokenKind, &str)> {
    let all = tokens(text).unwrap().into_iter();
    all.map(|it| (it.kind, &text[it.from..it.to])).collect()
}

#[test]
fn leaves_comments_out_wherever_they_stand() {
    for (text, kept) in [
        ("abcdefghij{{/**/}}x", &["abcdefghij", "x"][..]),
        ("abcdefghij {{- /**/ -}} x", &["abcdefghij", "x"]),
        // The star that opens a comment does not close it.
        ("{{/*/ c */}}x", &["x"]),
    ] {
        let texts = kept.iter().map(|it| (TokenKind::Text, *it));
        let wanted: Vec<_> = texts.chain([(TokenKind::Eof, "")]).collect();
        assert_eq!(pieces(text), wanted, "{text}");
    }
}

#[test]
fn no_text_stands_between_an_action_and_the_end() {
    let wanted = [
        (TokenKind::Open, "{{"),
        (TokenKind::Dot, "."),
        (TokenKind::Close, "}}"),
        (TokenKind::Eof, ""),
    ];
    assert_eq!(pieces("{{.}}"), wanted);
}

#[test]
fn a_sum_is_a_number_only_if_it_is_complex() {
    assert_eq!(pieces("{{1+2i}}")[1], (TokenKind::Complex, "1+2i"));
}

#[test]
fn refuses_what_no_token_begins() {
    for (text, problem) in [
        ("{{/*/}}", "unclosed comment"),
        ("{{ (1 }}", "unclosed left paren"),
        // A backslash hides no end of a line.
        ("{{ \"a\\\nb\" }}", "unterminated quoted string"),
        ("{{ \"a\\", "unterminated quoted string"),
        ("{{ 1+2 }}", "bad number syntax"),
        ("{{ 1+2ix }}", "bad number syntax"),
    ] {
        assert_eq!(tokens(text).unwrap_err().problem, problem, "{text}");
    }
}
