//! The list of names, word by word and character by character.

use super::*;

/// What a word of the list means.
#[derive(Clone, Copy, Debug)]
enum Word {
    Configuration(&'static str),
    LeftOut(&'static str),
    LeftOutOf(&'static str, &'static str),
    Wrong,
}

/// Words as they can stand between two commas, with their meaning.
const WORDS: [(&str, Word); 26] = [
    ("", Word::Wrong),
    (" \t", Word::Wrong),
    ("a", Word::Configuration("a")),
    (" a ", Word::Configuration("a")),
    ("\n\ta\r\n", Word::Configuration("a")),
    ("A", Word::Configuration("A")),
    ("a.b", Word::Configuration("a.b")),
    (".", Word::Configuration(".")),
    ("-_9", Word::Configuration("-_9")),
    ("a b", Word::Wrong),
    ("ä", Word::Wrong),
    ("a/f", Word::Wrong),
    ("\"a\"", Word::Wrong),
    ("!", Word::Wrong),
    ("!!f", Word::Wrong),
    ("! f", Word::Wrong),
    (" !f ", Word::LeftOut("f")),
    ("!F", Word::LeftOut("F")),
    ("!.env", Word::LeftOut(".env")),
    ("!..f", Word::Wrong),
    ("!a/f", Word::LeftOutOf("a", "f")),
    ("!a/F", Word::LeftOutOf("a", "F")),
    ("!a.b/f", Word::LeftOutOf("a.b", "f")),
    ("!A/f", Word::Wrong),
    ("!a/", Word::Wrong),
    ("!a/.error.json", Word::Wrong),
];

/// The request of a list, or the name of the error and the word that it quotes.
fn naive(words: &[(&str, Word)]) -> Result<FileRequest, (&'static str, String)> {
    let mut request = FileRequest::default();
    if let [(only, _)] = words
        && only.trim().is_empty()
    {
        return Ok(request);
    }
    let mut seen: Vec<&str> = Vec::new();
    for (written, word) in words {
        let written = written.trim();
        match word {
            Word::Wrong => return Err(("Name", written.to_owned())),
            Word::Configuration(name) => request.configurations.push((*name).to_owned()),
            Word::LeftOut(file) => drop(request.left_out.insert((*file).to_owned())),
            Word::LeftOutOf(class, file) => {
                let pair = ((*class).to_owned(), (*file).to_owned());
                request.left_out_of_class.insert(pair);
            }
        }
        if seen.contains(&written) {
            return Err(("Twice", written.to_owned()));
        }
        seen.push(written);
    }
    Ok(request)
}

#[test]
fn every_list_of_up_to_three_words_is_read_word_by_word() {
    let some = WORDS.iter().map(Some);
    let all: Vec<_> = [None].into_iter().chain(some).collect();
    for first in WORDS {
        for second in &all {
            for third in &all {
                let words = [Some(&first), *second, *third];
                let words: Vec<_> = words.into_iter().flatten().copied().collect();
                let written: Vec<_> = words.iter().map(|it| it.0).collect();
                let list = written.join(",");
                let expected = naive(&words).map_err(|(error, word)| match error {
                    "Twice" => FileRequestError::Twice(word),
                    _ => FileRequestError::Name(word),
                });
                assert_eq!(names(&list), expected, "{list:?}");
            }
        }
    }
}

#[test]
fn every_character_of_a_name_is_looked_at() {
    const PLAIN: &str = "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    // What separates two names, what is taken away at their ends, and what begins an exclusion.
    const SPECIAL: &str = ",!/";
    let characters = (0..=0x17f_u32).filter_map(char::from_u32);
    for letter in characters.chain(['А', '٣', '０', '．', '\u{200b}', '\u{feff}', '🦀']) {
        if SPECIAL.contains(letter) {
            continue;
        }
        let is_plain = PLAIN.contains(letter);
        for name in [
            format!("x{letter}x"),
            format!("{letter}x"),
            format!("x{letter}"),
        ] {
            let good = is_plain || (name.trim() != name && !name.trim().is_empty());
            assert_eq!(names(&name).is_ok(), good, "{name:?}");
            // Between `!` or `/` and the end nothing is taken away at the beginning.
            let good = is_plain || name.trim_end() != name;
            for list in [format!("!{name}"), format!("!c/{name}")] {
                let found = names(&list);
                assert_eq!(found.is_ok(), good, "{list:?}");
            }
            // The name of a class has no capital letter and no underscore, and begins and ends with a letter or digit.
            let inner = letter.is_ascii_lowercase() || letter.is_ascii_digit();
            let good = inner || (name == format!("x{letter}x") && "-.".contains(letter));
            assert_eq!(names(&format!("!{name}/f")).is_ok(), good, "{name:?}");
        }
    }
}

#[test]
fn names_are_as_long_as_kubernetes_allows_and_no_longer() {
    for (length, fits) in [(253, true), (254, false)] {
        let name = "x".repeat(length);
        for list in [name.clone(), format!("!{name}"), format!("!c/{name}")] {
            assert_eq!(names(&list).is_ok(), fits, "{length} {}", &list[..3]);
        }
        let part = "x".repeat(length / 4);
        let class = [
            &*part,
            &part,
            &part,
            &"x".repeat(length - 3 * part.len() - 3),
        ]
        .join(".");
        assert_eq!(class.len(), length);
        assert_eq!(names(&format!("!{class}/f")).is_ok(), fits, "{class}");
    }
}

#[test]
fn a_list_has_at_most_64_words_of_all_kinds_together() {
    let list_of = |count: usize| {
        let word = |number: usize| match number % 3 {
            0 => format!("x{number}"),
            1 => format!("!x{number}"),
            _ => format!("!c/x{number}"),
        };
        (0..count).map(word).collect::<Vec<_>>().join(", ")
    };
    let request = names(&list_of(64)).unwrap();
    let counts = (
        request.configurations.len(),
        request.left_out.len(),
        request.left_out_of_class.len(),
    );
    assert_eq!(counts, (22, 21, 21));
    let error = names(&list_of(65)).unwrap_err();
    assert!(matches!(
        error,
        FileRequestError::TooMany {
            count: 65,
            most: 64,
            ..
        }
    ));
    // The same word at the beginning and at the end.
    let (again, other_case) = (
        names(&format!("{},x0", list_of(63))),
        names(&format!("{},X0", list_of(63))),
    );
    assert_eq!(again, Err(FileRequestError::Twice("x0".to_owned())));
    assert!(other_case.is_ok());
}
