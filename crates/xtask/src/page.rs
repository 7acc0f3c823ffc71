//! A Markdown page and its links.

/// A page of the documentation.
pub(crate) struct Page {
    /// Its path in the repository.
    pub(crate) path: String,
    /// Its text; the lines of fenced blocks are empty.
    pub(crate) text: String,
}

/// A piece of a page, and the line on which it begins.
#[derive(Debug, PartialEq)]
pub(crate) struct Piece {
    pub(crate) line: usize,
    pub(crate) text: String,
}

impl Page {
    /// Fenced blocks hold commands and objects, not claims: their lines are emptied, so that line numbers stay.
    pub(crate) fn of(path: &str, text: &str) -> Self {
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

    /// The targets of links, without those to other sites.
    pub(crate) fn links(&self) -> Vec<Piece> {
        let mut links = Vec::new();
        for (number, line) in self.text.lines().enumerate() {
            // In the code of a table, these characters are part of a pattern.
            let prose = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
            let line = if line.starts_with('|') { &prose } else { line };
            for rest in line.split("](").skip(1) {
                let Some((target, _)) = rest.split_once(')') else {
                    continue;
                };
                if !leaves(target) {
                    links.push(Piece {
                        line: number + 1,
                        text: target.to_owned(),
                    });
                }
            }
        }
        links
    }
}

/// Whether a link leads to another site.
pub(crate) fn leaves(link: &str) -> bool {
    ["://", "mailto:", "data:"]
        .iter()
        .any(|it| link.contains(it))
}

/// Whether a file has that extension.
pub(crate) fn is_of(file: &str, extension: &str) -> bool {
    file.rsplit_once('.').is_some_and(|(_, it)| it == extension)
}

/// The file that a relative link leads to, and the anchor in it, which may be empty. Both files are named from the same
/// folder. A link that leaves that folder leads to none.
pub(crate) fn target<'a>(from: &str, link: &'a str) -> Option<(String, &'a str)> {
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let mut folders: Vec<&str> = from.split('/').collect();
    if !file.is_empty() {
        folders.pop();
    }
    for part in file.split('/') {
        match part {
            "." | "" => {}
            ".." => {
                folders.pop()?;
            }
            part => folders.push(part),
        }
    }
    Some((folders.join("/"), anchor))
}

#[test]
fn a_pattern_in_the_code_of_a_table_is_no_link() {
    let page = Page::of("docs/a.md", "| `[a](b)` | [`c`](d.md) |\n[`e`](f.md)\n");
    let links = page.links().into_iter().map(|it| it.text);
    assert_eq!(links.collect::<Vec<_>>(), ["d.md", "f.md"]);
}

#[test]
fn a_link_is_followed_from_the_folder_of_its_page() {
    for (from, link, leads) in [
        ("docs/a.md", "b.md", Some(("docs/b.md", ""))),
        ("docs/a.md", "#here", Some(("docs/a.md", "here"))),
        ("docs/a.md", "./adr/1.md#x", Some(("docs/adr/1.md", "x"))),
        ("docs/adr/1.md", "../../README.md", Some(("README.md", ""))),
        ("README.md", "docs/", Some(("docs", ""))),
        ("README.md", "../x", None),
    ] {
        let leads = leads.map(|(file, anchor)| (file.to_owned(), anchor));
        assert_eq!(target(from, link), leads, "{from}: {link}");
    }
}
