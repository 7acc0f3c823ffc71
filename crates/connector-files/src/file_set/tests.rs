use super::*;

#[test]
fn names_lead_to_no_other_folder_and_to_nothing_of_ours() {
    for name in ["config.json", ".netrc", "a", "A-b_c.1", ".connectors"] {
        assert!(is_file_name(name), "{name}");
    }
    let long = "x".repeat(LONGEST_NAME + 1);
    for name in [
        "",
        ".",
        "..",
        "..data",
        "a/b",
        "/a",
        "a\\b",
        "a b",
        "a\0",
        "ä",
        ".connector",
        ".error.json",
        &long,
    ] {
        assert!(!is_file_name(name), "{name}");
    }
}

#[test]
fn a_set_has_a_bounded_number_of_files_and_bytes() {
    let mut set = FileSet::default();
    for number in 0..MOST_FILES {
        set.put(&format!("f{number}"), String::new()).unwrap();
    }
    set.put("f0", "x".repeat(MOST_BYTES)).unwrap();
    assert_eq!(set.put("f1", "x".to_owned()), Err(FilesError::TooMuch));
    let mut set = FileSet::default();
    for number in 0..MOST_FILES {
        set.put(&format!("f{number}"), String::new()).unwrap();
    }
    assert_eq!(set.put("more", String::new()), Err(FilesError::TooMuch));
}

/// Every ASCII character, and some that look like letters, digits or marks elsewhere.
fn characters() -> impl Iterator<Item = char> {
    (0..=0x17f_u32).filter_map(char::from_u32).chain([
        'ß', 'А', '٣', '０', '．', '․', '－', '＿', '\u{200b}', '\u{2028}', '\u{feff}', '🦀',
    ])
}

#[test]
fn a_name_is_made_of_ascii_letters_digits_and_three_marks() {
    const ALLOWED: &str = "-._0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
    for letter in characters() {
        let allowed = ALLOWED.contains(letter);
        for name in [
            format!("{letter}a"),
            format!("a{letter}b"),
            format!("a{letter}"),
        ] {
            assert_eq!(is_file_name(&name), allowed, "{name:?}");
        }
        assert_eq!(is_file_name(&letter.to_string()), allowed && letter != '.');
    }
}

#[test]
fn names_are_told_apart_from_ours_as_a_whole_and_by_their_case() {
    for name in [
        "a..",
        "a..b",
        "a.",
        ".a",
        "._",
        "-",
        "--help",
        "connector",
        ".connecto",
        ".connector2",
        ".connector.d",
        ".Connector",
        "a.connector",
        "error.json",
        ".error",
        ".error.jso",
        ".error.json2",
        ".Error.json",
        ".ERROR.JSON",
        ".complete",
        ".files",
    ] {
        assert!(is_file_name(name), "{name}");
    }
    for name in ["...", "..a", "..data", "....", FACTS, ERROR_FILE] {
        assert!(!is_file_name(name), "{name}");
    }
    for (length, fits) in [(252, true), (253, true), (254, false), (1_000, false)] {
        assert_eq!(is_file_name(&"x".repeat(length)), fits, "{length}");
        assert_eq!(is_file_name(&format!(".{}", "x".repeat(length - 1))), fits);
    }
}

#[test]
fn a_refused_name_is_quoted_by_its_beginning_in_one_line() {
    let name = "a\nb".repeat(100);
    let error = FileSet::default().put(&name, String::new()).unwrap_err();
    let told = format!("`{}` is no name of a file in a volume", "a?b".repeat(22));
    assert_eq!(error.to_string(), told.replace("a?b` is", "a` is"));
}

#[test]
fn the_limit_is_one_of_bytes_whatever_the_letters_and_however_they_are_spread() {
    for letter in ["x", "ä", "€", "🦀"] {
        for files in [1, 2, 3, MOST_FILES] {
            let mut set = FileSet::default();
            let each = MOST_BYTES / files / letter.len();
            for number in 1..files {
                set.put(&format!("f{number}"), letter.repeat(each)).unwrap();
            }
            let before = (files - 1) * each * letter.len();
            let rest = MOST_BYTES - before;
            let last = letter.repeat(rest / letter.len()) + &"x".repeat(rest % letter.len());
            set.put("last", last.clone()).unwrap();
            assert_eq!(set.iter().map(|it| it.1.len()).sum::<usize>(), MOST_BYTES);
            let more = set.put("last", last + "x");
            assert_eq!(more, Err(FilesError::TooMuch), "{letter} {files}");
        }
    }
}

/// What a set is, as a list that is searched from its end.
#[test]
fn a_set_is_what_was_put_last_under_each_name() {
    let names = ["a", "A", "aa", ".a", "a.", "b"];
    let sizes = [0, 1, MOST_BYTES / 3, MOST_BYTES / 2, MOST_BYTES];
    let mut state = 1_u32;
    let mut next = |below: usize| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 16) as usize % below
    };
    let mut refused = 0;
    for round in 0..100 {
        let (mut set, mut all) = (FileSet::default(), Vec::<(&str, String)>::new());
        for _ in 0..8 {
            let (name, size) = (names[next(names.len())], sizes[next(sizes.len())]);
            let content = ["x", "y"][next(2)].repeat(size);
            all.retain(|(known, _)| *known != name);
            all.push((name, content.clone()));
            let bytes: usize = all.iter().map(|(_, it)| it.len()).sum();
            let done = set.put(name, content);
            if bytes > MOST_BYTES {
                assert_eq!(done, Err(FilesError::TooMuch), "{round}");
                refused += 1;
                break;
            }
            assert_eq!(done, Ok(()), "{round}");
            all.sort_unstable();
            let known: Vec<_> = all.iter().map(|(name, it)| (*name, it.as_str())).collect();
            assert!(set.iter().eq(known.iter().copied()), "{round}");
            for name in names {
                let expected = known.iter().find(|it| it.0 == name).map(|it| it.1);
                assert_eq!(set.get(name), expected, "{round}");
            }
            assert!(!set.is_empty());
        }
    }
    assert!((10..100).contains(&refused), "{refused}");
}

#[test]
fn a_full_set_takes_another_content_and_no_other_name() {
    let mut set = FileSet::default();
    assert!(set.is_empty());
    for number in 0..MOST_FILES {
        set.put(&format!("f{number}"), String::new()).unwrap();
    }
    assert!(!set.is_empty());
    for number in 0..MOST_FILES {
        let name = format!("f{number}");
        // An empty content replaces as well.
        for content in ["new", ""] {
            set.put(&name, content.to_owned()).unwrap();
            assert_eq!(set.get(&name), Some(content));
        }
    }
    for name in ["F0", ".f0", ".env", "ca.crt", "context.token", "f"] {
        let more = set.clone().put(name, String::new());
        assert_eq!(more, Err(FilesError::TooMuch), "{name}");
    }
}

#[test]
fn sets_are_equal_with_equal_names_and_contents_alone() {
    let of = |files: &[(&str, &str)]| {
        let mut set = FileSet::default();
        for (name, content) in files {
            set.put(name, (*content).to_owned()).unwrap();
        }
        set
    };
    let set = of(&[("a", "1"), ("b", "2")]);
    assert_eq!(set, of(&[("b", "2"), ("a", "1")]));
    for other in [
        of(&[("a", "1")]),
        of(&[("a", "1"), ("b", "")]),
        of(&[("a", "2"), ("b", "1")]),
        of(&[("a", "1"), ("b", "2"), ("c", "")]),
        of(&[("a", "1"), ("B", "2")]),
    ] {
        assert!(set != other, "{other:?}");
    }
    assert_eq!(format!("{set:?}"), r#"{"a", "b"}"#);
    assert_eq!(format!("{set:#?}"), "{\n    \"a\",\n    \"b\",\n}");
}
