//! A Markdown page, as far as the checks need it: code spans, links, anchors, and the words between them.

/// A page of the documentation.
pub(super) struct Page {
    /// Its path in the repository.
    pub(super) path: String,
    text: String,
}

/// A piece of a page, and the line on which it begins.
#[derive(Debug, PartialEq)]
pub(super) struct Piece {
    pub(super) line: usize,
    pub(super) text: String,
}

impl Page {
    /// Fenced blocks hold commands and objects, not claims: their lines are emptied, so that line numbers stay.
    pub(super) fn of(path: &str, text: &str) -> Self {
        let mut fence: Option<String> = None;
        let lines = text.lines().map(|line| {
            let marks: String = line
                .trim_start()
                .chars()
                .take_while(|it| *it == '`')
                .collect();
            match &fence {
                Some(open) if marks.len() >= open.len() => fence = None,
                None if marks.len() >= 3 => fence = Some(marks),
                None => return line,
                Some(_) => {}
            }
            ""
        });
        let text = lines.collect::<Vec<_>>().join("\n");
        Self {
            path: path.to_owned(),
            text,
        }
    }

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

    /// The targets of links, without those to other sites.
    pub(super) fn links(&self) -> Vec<Piece> {
        let mut links = Vec::new();
        for (number, line) in self.text.lines().enumerate() {
            for rest in line.split("](").skip(1) {
                let Some((target, _)) = rest.split_once(')') else {
                    continue;
                };
                if !target.contains("://") && !target.starts_with("mailto:") {
                    links.push(Piece {
                        line: number + 1,
                        text: target.to_owned(),
                    });
                }
            }
        }
        links
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
