use super::{is_digit, is_letter, is_number};

#[test]
fn classes_hold_more_than_ascii_and_not_all_beyond_it() {
    for (character, letter, digit, number) in [
        ('a', true, false, false),
        ('7', false, true, true),
        ('+', false, false, false),
        ('é', true, false, false),
        // An Arabic three.
        ('\u{663}', false, true, true),
        ('²', false, false, true),
        ('€', false, false, false),
    ] {
        assert_eq!(is_letter(character), letter, "{character}");
        assert_eq!(is_digit(character), digit, "{character}");
        assert_eq!(is_number(character), number, "{character}");
    }
}
