//! What the checks read in a page: code spans, anchors, and the words between them.

use crate::page::{Page, Piece};

impl Page {
    /// The text between single backquotes. The end of a line may divide it, but not an empty line.
    pub(super) fn code(&self) -> Vec<Piece> {
        self.pieces().0
    }

    /// The text without its code.
    pub(super) fn prose(&self) -> Vec<Piece> {
        self.pieces().1
    }

    fn pieces(&self) -> (Vec<Piece>, Vec<Piece>) {
        let (mut code, mut prose) = (Vec::new(), Vec::new());
        let mut line = 1;
        for paragraph in self.text.split("\n\n") {
            for (place, text) in paragraph.split('`').enumerate() {
                let piece = Piece {
                    line,
                    text: text.split_whitespace().collect::<Vec<_>>().join(" "),
                };
                if place % 2 == 0 {
                    prose.push(piece);
                } else {
                    code.push(piece);
                }
                line += text.matches('\n').count();
            }
            line += 2;
        }
        (code, prose)
    }

    /// The anchors of its headings, as GitHub makes them.
    pub(super) fn anchors(&self) -> Vec<String> {
        let mut anchors: Vec<String> = Vec::new();
        let headings = self.text.lines().filter(|line| line.starts_with('#'));
        for heading in headings {
            let heading = heading.trim_start_matches('#').trim().to_lowercase();
            let anchor: String = heading
                .chars()
                .filter(|it| it.is_alphanumeric() || matches!(it, ' ' | '-' | '_'))
                .map(|it| if it == ' ' { '-' } else { it })
                .collect();
            let again = anchors.iter().filter(|it| **it == anchor).count();
            anchors.push(match again {
                0 => anchor,
                again => format!("{anchor}-{again}"),
            });
        }
        anchors
    }
}

#[test]
fn code_links_and_anchors_are_found_on_their_lines() {
    let page = Page::of(
        "docs/a.md",
        "# A title\n`one` and [a link](b.md#c)\n```sh\n`not` [this](x.md)\n```\n`two\nhalves` [web](https://x.org)\n\n\
         an ` odd one\n\n`three`\n## A title\n## It's `here`: 3\n",
    );
    let piece = |line, text: &str| Piece {
        line,
        text: text.to_owned(),
    };
    assert_eq!(
        page.code(),
        [
            piece(2, "one"),
            piece(6, "two halves"),
            piece(9, "odd one"),
            piece(11, "three"),
            piece(13, "here")
        ]
    );
    assert_eq!(page.links(), [piece(2, "b.md#c")]);
    assert_eq!(page.anchors(), ["a-title", "a-title-1", "its-here-3"]);
    let prose: Vec<String> = page.prose().into_iter().map(|it| it.text).collect();
    assert!(!prose.concat().contains("three"), "{prose:?}");
}
