//! Words of a tenant in a message.

/// The most characters that a message quotes.
const QUOTED: usize = 64;

/// The beginning of a text, fit for an event or a log line.
#[must_use]
pub fn quoted(text: &str) -> String {
    let letters = text.chars().take(QUOTED);
    letters
        .map(|letter| if letter.is_control() { '?' } else { letter })
        .collect()
}
