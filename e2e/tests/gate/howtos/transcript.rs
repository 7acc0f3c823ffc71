//! The comparison of an output with the one that a document shows.

/// Whether a document shows this output: line by line, whatever the blanks between words. `…` stands for anything in a
/// line and, alone, for any lines. Ages such as `12s` and `3m4s` are all the same.
pub(super) fn is(shown: &str, said: &str) -> bool {
    let words = |text: &str| -> Vec<String> {
        let lines = text.lines().map(|line| {
            let words = line
                .split_whitespace()
                .map(|it| if is_age(it) { "AGE" } else { it });
            words.collect::<Vec<_>>().join(" ")
        });
        lines.filter(|line| !line.is_empty()).collect()
    };
    lines(&words(shown), &words(said))
}

fn lines(shown: &[String], said: &[String]) -> bool {
    match shown {
        [] => said.is_empty(),
        [first, rest @ ..] if first == "…" => {
            (0..=said.len()).any(|left| lines(rest, &said[left..]))
        }
        [first, rest @ ..] => said
            .split_first()
            .is_some_and(|(line, said)| is_like(first, line) && lines(rest, said)),
    }
}

fn is_like(shown: &str, said: &str) -> bool {
    let parts: Vec<&str> = shown.split('…').collect();
    let [first, middle @ .., last] = &parts[..] else {
        return shown == said;
    };
    let ends = said
        .strip_prefix(first)
        .and_then(|it| it.strip_suffix(last));
    let Some(mut rest) = ends else {
        return false;
    };
    middle.iter().all(|part| {
        let found = rest.split_once(part);
        rest = found.map_or("", |(_, after)| after);
        found.is_some()
    })
}

/// `12s`, `3m4s`, `2h`.
fn is_age(word: &str) -> bool {
    let mut parts = word.split_inclusive(['s', 'm', 'h']);
    let is_part = |part: &str| {
        part.strip_suffix(['s', 'm', 'h'])
            .is_some_and(|it| !it.is_empty() && it.bytes().all(|it| it.is_ascii_digit()))
    };
    !word.is_empty() && parts.all(is_part)
}

#[test]
fn an_output_is_the_shown_one_but_for_ages_blanks_and_what_is_left_out() {
    for (shown, said) in [
        ("NAME  AGE\nx  12s\n", "NAME   AGE\nx      3m4s\n\n"),
        ("a-… b", "a-4f1c b"),
        ("a … c … e", "a b c d e"),
        ("…\nlast", "one\ntwo\nlast"),
        ("first\n…", "first"),
        ("", "\n"),
    ] {
        assert!(is(shown, said), "{shown:?} {said:?}");
    }
    for (shown, said) in [
        ("x", "y"),
        ("x", "x\ny"),
        ("x\ny", "x"),
        ("x 12s", "x soon"),
        ("x soon", "x 12s"),
        ("a-…", "b-4f1c"),
        ("a … c … e", "a b c d"),
        ("…\nlast", "last\none"),
    ] {
        assert!(!is(shown, said), "{shown:?} {said:?}");
    }
}
