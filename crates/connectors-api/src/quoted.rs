//! Words of a tenant in a message.

/// The most characters of a name that a message quotes.
const QUOTED: usize = 64;
/// The most characters of a value that a message quotes.
const SHORTENED: usize = 100;

/// The beginning of a text, fit for an event or a log line.
#[must_use]
pub fn quoted(text: &str) -> String {
    beginning(text, QUOTED)
}

/// A value that may be long, fit for an event or a log line. A list that was cut must not look like a whole one.
#[must_use]
pub fn shortened(text: &str) -> String {
    let mut short = beginning(text, SHORTENED);
    if text.chars().nth(SHORTENED).is_some() {
        short.push('…');
    }
    short
}

fn beginning(text: &str, most: usize) -> String {
    let letters = text.chars().take(most);
    letters
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_cut_visibly_and_never_within_a_letter() {
        let whole = "ä".repeat(SHORTENED);
        assert_eq!(shortened(&whole), whole);
        assert_eq!(shortened(&format!("{whole}b")), format!("{whole}…"));
        assert_eq!(shortened("a\nb\0"), "a?b?");
        assert_eq!(shortened(""), "");
    }
}
