//! Tables of Markdown, and texts of the code as their cells.

/// A table.
pub(super) struct Table {
    columns: usize,
    text: String,
    /// The number of its rows.
    pub(super) rows: usize,
}

impl Table {
    pub(super) fn new(heads: &[&str]) -> Self {
        Self {
            columns: heads.len(),
            text: format!(
                "| {} |\n|{}\n",
                heads.join(" | "),
                "---|".repeat(heads.len())
            ),
            rows: 0,
        }
    }

    pub(super) fn row(&mut self, cells: &[String]) {
        assert_eq!(cells.len(), self.columns, "{cells:?}");
        self.text.extend(["| ", &cells.join(" | "), " |\n"]);
        self.rows += 1;
    }

    /// The table below a heading, and a text between them that may be empty.
    pub(super) fn below(&self, heading: &str, text: &str) -> String {
        let between = if text.is_empty() {
            String::new()
        } else {
            format!("{text}\n\n")
        };
        format!("\n{heading}\n{between}{}", self.text)
    }
}

/// A text that is shown as it is written; nothing for an empty one.
pub(super) fn code(text: &str) -> String {
    if text.is_empty() {
        return String::new();
    }
    let text = text.replace('|', "\\|");
    if text.contains('`') {
        format!("`` {text} ``")
    } else {
        format!("`{text}`")
    }
}

/// Several such texts.
pub(super) fn codes<T: AsRef<str>>(texts: impl IntoIterator<Item = T>) -> String {
    let texts = texts.into_iter().map(|it| code(it.as_ref()));
    texts.collect::<Vec<_>>().join(", ")
}

/// A sentence of a comment, in one line. Only its code keeps the characters that mean something in Markdown and HTML.
pub(super) fn prose(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    // Links of rustdoc lead nowhere here.
    let text = text
        .replace("[`", "`")
        .replace("`]", "`")
        .replace('|', "\\|");
    let pieces = text.split('`').enumerate().map(|(place, piece)| {
        if place % 2 == 0 {
            piece.replace('<', "&lt;").replace('*', "\\*")
        } else {
            piece.to_owned()
        }
    });
    pieces.collect::<Vec<_>>().join("`")
}

#[test]
fn cells_do_not_break_their_table() {
    assert_eq!(code("^(a|b)$"), "`^(a\\|b)$`");
    assert_eq!(code("a`b"), "`` a`b ``");
    assert_eq!(code(""), "");
    assert_eq!(codes(["a", "b"]), "`a`, `b`");
    assert_eq!(
        prose(" one <b> * | `<c>*`\n   [`D`] end "),
        "one &lt;b> \\* \\| `<c>*` `D` end"
    );
}

#[test]
fn a_table_counts_its_rows() {
    let mut table = Table::new(&["a", "b"]);
    table.row(&["1".to_owned(), "2".to_owned()]);
    assert_eq!(table.rows, 1);
    assert_eq!(
        table.below("## H", ""),
        "\n## H\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    );
    assert_eq!(
        table.below("## H", "Text."),
        "\n## H\nText.\n\n| a | b |\n|---|---|\n| 1 | 2 |\n"
    );
}
