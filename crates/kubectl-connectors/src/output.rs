//! The forms of the output, and the filter for texts that reach a terminal.

use std::fmt::Write as _;

use serde::Serialize;

/// The form of the output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    #[default]
    Table,
    /// For programs, in one schema: see `kubectl connectors schema`
    Json,
    /// The same as YAML
    Yaml,
}

/// Whether texts are coloured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colours {
    /// On a terminal.
    On,
    /// Everywhere else.
    Off,
}

/// The meaning of a coloured word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tone {
    /// A yes.
    Good,
    /// A wait.
    Open,
    /// A no.
    Bad,
    /// Less important than the rest.
    Dim,
    /// A command to type.
    Command,
    /// No colour.
    Plain,
}

impl Tone {
    const fn code(self) -> &'static str {
        match self {
            Self::Good => "32",
            Self::Open => "33",
            Self::Bad => "31",
            Self::Dim => "2",
            Self::Command => "1",
            Self::Plain => "0",
        }
    }
}

impl Colours {
    /// A text in its colour, without anything that a terminal would obey.
    #[must_use]
    pub fn paint(self, tone: Tone, text: &str) -> String {
        let text = shown(text);
        match self {
            Self::On if tone != Tone::Plain => format!("\u{1b}[{}m{text}\u{1b}[0m", tone.code()),
            Self::On | Self::Off => text,
        }
    }
}

/// A text as a terminal may show it, on one line. Tenants write names of fields, messages and states, and a control
/// character among them could change what a reader sees.
#[must_use]
pub fn shown(text: &str) -> String {
    text.chars()
        .map(|it| {
            if it.is_control() || is_hidden(it) {
                ' '
            } else {
                it
            }
        })
        .collect()
}

/// Characters above ASCII that a terminal obeys, or that change the order or the place of others.
const fn is_hidden(it: char) -> bool {
    matches!(
        it,
        '\u{7f}'..='\u{9f}'
            | '\u{ad}'
            | '\u{61c}'
            | '\u{180e}'
            | '\u{200b}'..='\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}'
            | '\u{feff}'
            | '\u{e0000}'..='\u{e007f}'
    )
}

/// As JSON, with a line break at the end. Hidden characters are escaped: they can only be in texts.
pub fn json<T: Serialize>(value: &T) -> Result<String, serde_json::Error> {
    let text = serde_json::to_string_pretty(value)?;
    let mut escaped = String::with_capacity(text.len() + 1);
    for it in text.chars() {
        if is_hidden(it) {
            for unit in it.encode_utf16(&mut [0; 2]) {
                let _ = write!(escaped, "\\u{unit:04x}");
            }
        } else {
            escaped.push(it);
        }
    }
    Ok(escaped + "\n")
}

/// As YAML. With a hidden character in a text as JSON, which is YAML too and can escape it.
pub fn yaml<T: Serialize>(value: &T) -> Result<String, serde_yaml::Error> {
    let text = serde_yaml::to_string(value)?;
    if text.chars().any(is_hidden) {
        return json(value).map_err(serde::ser::Error::custom);
    }
    Ok(text)
}

/// A cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// Its meaning.
    pub tone: Tone,
}

impl Cell {
    /// A cell with a meaning.
    #[must_use]
    pub fn new(tone: Tone, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { text, tone }
    }
}

impl<T: Into<String>> From<T> for Cell {
    fn from(text: T) -> Self {
        Self::new(Tone::Plain, text)
    }
}

/// A table as kubectl prints one: three spaces between columns, none behind the last.
#[must_use]
pub fn table(head: &[&str], rows: &[Vec<Cell>], colours: Colours) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column));
        let cells = cells.map(|cell| shown(&cell.text).chars().count());
        let head = head.get(column).map_or(0, |it| it.chars().count());
        cells.chain([head]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..head.len()).map(width).collect();
    let mut text = String::new();
    let mut line = |cells: &mut dyn Iterator<Item = (String, usize)>| {
        let mut line = String::new();
        for ((cell, length), width) in cells.zip(&widths) {
            line.push_str(&cell);
            line.extend(std::iter::repeat_n(' ', width.saturating_sub(length) + 3));
        }
        let _ = writeln!(text, "{}", line.trim_end());
    };
    line(&mut head.iter().map(|it| ((*it).to_owned(), it.chars().count())));
    for row in rows {
        let cells = row.iter().map(|cell| {
            let length = shown(&cell.text).chars().count();
            (colours.paint(cell.tone, &cell.text), length)
        });
        line(&mut { cells });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_terminal_is_given_no_control_character_of_a_tenant() {
        let attack = "go\u{1b}[2J\r\nx\u{202e}y";
        assert_eq!(shown(attack), "go [2J  x y");
        assert_eq!(Colours::Off.paint(Tone::Bad, attack), "go [2J  x y");
        assert_eq!(
            Colours::On.paint(Tone::Bad, "a\u{7}"),
            "\u{1b}[31ma \u{1b}[0m"
        );
        assert_eq!(Colours::On.paint(Tone::Plain, "a"), "a");
    }

    #[test]
    fn programs_get_hidden_characters_escaped_and_unchanged() {
        let hidden = "a\u{7f}\u{9f}\u{61c}\u{200b}\u{200f}\u{2028}\u{202e}\u{2066}\u{2069}\u{1b}\u{ad}\u{180e}\u{2060}\u{2064}\
                      \u{feff}\u{e0000}\u{e007f}é";
        for text in [json(&hidden).unwrap(), yaml(&hidden).unwrap()] {
            assert!(
                !text
                    .trim_end()
                    .chars()
                    .any(|it| it.is_control() || is_hidden(it)),
                "{text:?}"
            );
            assert_eq!(serde_json::from_str::<String>(&text).unwrap(), hidden);
        }
        assert_eq!(shown(hidden), format!("a{}é", " ".repeat(17)));
        assert_eq!(yaml(&"plain").unwrap(), "plain\n");
    }

    #[test]
    fn columns_stand_below_each_other_whatever_their_colour() {
        let rows = [
            vec![Cell::from("a"), Cell::new(Tone::Good, "yes"), "x".into()],
            vec![Cell::from("longer"), Cell::new(Tone::Bad, "no"), "".into()],
        ];
        let plain = "NAME     OK    WHY\na        yes   x\nlonger   no\n";
        let head = ["NAME", "OK", "WHY"];
        assert_eq!(table(&head, &rows, Colours::Off), plain);
        let coloured = table(&head, &rows, Colours::On);
        let bare = coloured.replace("\u{1b}[32m", "").replace("\u{1b}[31m", "");
        let bare = bare.replace("\u{1b}[0m", "");
        assert_eq!(bare.trim_end(), plain.trim_end());
    }
}
