//! The pictures: each is drawn from its text, and that of the crates equals cargo's resolution.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use pikchr::{Pikchr, PikchrFlags};

use crate::{layers, workspace};

/// The frame of `crates.pikchr` around the services; an arrow from it stands for each of them.
const FRAME: &str = "Services";

/// The pictures and their texts.
const FOLDER: &str = "docs/pictures";

fn folder() -> PathBuf {
    e2e::repository().join(FOLDER)
}

/// Readable on a dark page too.
fn drawn(source: &Path) -> String {
    let text = fs::read_to_string(source).unwrap();
    let picture = Pikchr::render(&text, None, PikchrFlags::default())
        .unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let (plain, with_background) = (
        "style='font-size:initial;'",
        "style='font-size:initial;background:#fff'",
    );
    let drawn = picture.rendered().replacen(plain, with_background, 1);
    // A second `style` would make it no XML, and browsers would not show it.
    let head = drawn.split('>').next().unwrap_or_default();
    assert_eq!(head.matches("style=").count(), 1, "{head}");
    assert!(head.contains(with_background), "{head}");
    drawn
}

#[test]
fn the_pictures_are_drawn_from_their_text() {
    let sources = fs::read_dir(folder()).unwrap();
    let sources = sources.map(|it| it.unwrap().path());
    let sources: Vec<PathBuf> = sources
        .filter(|it| it.extension().is_some_and(|it| it == "pikchr"))
        .collect();
    assert!(!sources.is_empty());
    for source in sources {
        let name = source.with_extension("svg");
        let name = name.file_name().unwrap().to_str().unwrap();
        super::hold_file(&format!("{FOLDER}/{name}"), &drawn(&source));
    }
}

/// The arrows of the picture, by the names of the crates.
struct Drawn {
    crates: BTreeSet<String>,
    arrows: Vec<(String, String)>,
}

impl Drawn {
    fn of(text: &str) -> Self {
        let mut names = BTreeMap::new();
        for line in text.lines() {
            let Some((label, rest)) = line.split_once(": ") else {
                continue;
            };
            if let Some(name) = rest.trim_start().strip_prefix("box \"") {
                names.insert(label, name.split('"').next().unwrap_or_default());
            }
        }
        let arrows = text.lines().filter_map(|it| it.strip_prefix("arrow from "));
        let arrows = arrows.flat_map(|arrow| {
            let begin = arrow.split(" to ").next().unwrap_or_default();
            // The way may be named before the end.
            let ways = [" left ", " right ", " down "];
            let begin = ways.iter().fold(begin, |begin, way| {
                begin.split(way).next().unwrap_or_default()
            });
            let to = names[last_label(arrow)].to_owned();
            let from = match last_label(begin) {
                FRAME => layers::services()
                    .into_iter()
                    .filter(|it| names.values().any(|name| name == it))
                    .map(str::to_owned)
                    .collect(),
                label => vec![names[label].to_owned()],
            };
            from.into_iter().map(move |from| (from, to.clone()))
        });
        Self {
            arrows: arrows.collect(),
            crates: names.values().map(|it| (*it).to_owned()).collect(),
        }
    }

    /// All crates that the arrows lead to.
    fn reached<'a>(&'a self, from: &'a str) -> BTreeSet<&'a str> {
        let mut found = BTreeSet::new();
        let mut open = vec![from];
        while let Some(at) = open.pop() {
            let next = self.arrows.iter().filter(|(from, _)| from == at);
            open.extend(
                next.map(|(_, to)| to.as_str())
                    .filter(|it| found.insert(*it)),
            );
        }
        found
    }
}

/// The last label of an object: a word that begins with a capital.
fn last_label(text: &str) -> &str {
    let words = text.split(|it: char| !it.is_alphanumeric());
    let mut labels = words.filter(|it| it.starts_with(|it: char| it.is_ascii_uppercase()));
    labels.next_back().unwrap_or_default()
}

#[test]
fn the_picture_of_the_crates_is_that_of_cargo() {
    let drawn = Drawn::of(&fs::read_to_string(folder().join("crates.pikchr")).unwrap());
    let members = workspace::members(&e2e::repository()).unwrap();
    let programs = layers::services().into_iter().chain([layers::PLUGIN]);
    let programs = programs.filter(|it| members.contains_key(*it));
    let mut shipped = BTreeSet::new();
    for program in programs {
        shipped.insert(program);
        shipped.extend(layers::reached(&members, program));
    }
    let of_picture: BTreeSet<&str> = drawn.crates.iter().map(String::as_str).collect();
    assert_eq!(of_picture, shipped);
    for name in shipped {
        assert_eq!(
            drawn.reached(name),
            layers::reached(&members, name),
            "{name}"
        );
    }
}

#[test]
fn arrows_are_read_with_the_frame_for_each_service() {
    let text = "Webhook: box \"webhook\" bold\nCsiNode:  box \"csi-node\" fill 0x1\nKit: box \"service-kit\"\n\
                ConnectorFiles: box \"connector-files\"\nServices: box ht 1in\n\
                arrow from (Kit.s, Services.s) to Kit.n\narrow from CsiNode.w left 1in then to ConnectorFiles.e\n";
    let drawn = Drawn::of(text);
    assert_eq!(drawn.reached("webhook"), BTreeSet::from(["service-kit"]));
    assert_eq!(
        drawn.reached("csi-node"),
        BTreeSet::from(["connector-files", "service-kit"])
    );
    assert_eq!(drawn.crates.len(), 4);
}
