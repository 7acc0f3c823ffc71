//! The memory of a volume, as it is counted and as the kernel says.

use rustix::param::page_size;
use serde_json::json;

use super::{files::files, *};
use crate::{
    content::{INODE, memory_of_error},
    testing::PAGE,
};

/// As the kernel says.
fn measured(scene: &Scene) -> usize {
    mounted(&scene.place).unwrap().memory().unwrap()
}

#[test]
fn a_volume_takes_no_more_memory_than_is_counted_for_it_and_half_of_it_at_least_when_it_is_full() {
    if !inside(
        "memory::a_volume_takes_no_more_memory_than_is_counted_for_it_and_half_of_it_at_least_when_it_is_full",
    ) {
        return;
    }
    let long = "x".repeat(100_000);
    let many: serde_json::Map<_, _> = (0..60)
        .map(|number| (format!("file-{number}"), json!("x".repeat(2000))))
        .collect();
    let sets = [
        json!({}),
        json!({"a": ""}),
        json!({"a": "1", "b": "2"}),
        json!({"a": long, "b": long}),
        json!(many),
    ];
    for set in sets {
        let mut scene = scene();
        scene.content.files = files(&set);
        let counted = scene.content.memory(page_size());
        scene.publish();
        assert!(
            measured(&scene) <= counted,
            "{} {counted}",
            measured(&scene)
        );
        // Both sets, and a fact that is written to the side.
        for round in 0..3 {
            scene.content.facts[0].address = format!("https://{round}");
            let mut content = scene.content.clone();
            content.files = FileSet::default();
            for content in [&content, &scene.content] {
                scene.mounter.refresh(&scene.place, content).unwrap();
                assert!(
                    measured(&scene) <= counted,
                    "{} {counted}",
                    measured(&scene)
                );
            }
        }
        for _ in 0..2 {
            scene.mounter.empty(&scene.place).unwrap();
            assert!(measured(&scene) <= counted);
            scene
                .mounter
                .refill(&scene.place, &scene.record, &scene.content)
                .unwrap();
            assert!(measured(&scene) <= counted);
        }
        if set["b"].as_str().is_some_and(|it| it.len() > 1000) {
            let mut other = scene.content.clone();
            other.files = files(&json!({"a": "y".repeat(100_000), "b": "y".repeat(100_000)}));
            assert!(scene.mounter.refresh(&scene.place, &other).unwrap());
            assert!(
                measured(&scene) > counted / 2,
                "{} {counted}",
                measured(&scene)
            );
        }
        scene.clear();
    }
}

#[test]
fn a_volume_is_counted_by_the_pages_and_inodes_of_all_that_it_may_hold() {
    for (connectors, set, pages, inodes) in [
        (0, json!({}), 6, 12),
        // A folder, six facts of which one is empty, and the earlier ones of two.
        (1, json!({}), 6 + 7, 12 + 9),
        (2, json!({}), 6 + 14, 12 + 18),
        // Two copies and a link.
        (0, json!({"a": ""}), 6, 12 + 3),
        (0, json!({"a": "x".repeat(PAGE)}), 6 + 2, 12 + 3),
        (
            1,
            json!({"a": "x".repeat(PAGE + 1), "b": "x"}),
            6 + 7 + 4 + 2,
            12 + 9 + 6,
        ),
    ] {
        let content = Content {
            facts: vec![facts("tools/git"); connectors],
            files: files(&set),
        };
        let expected = pages * PAGE + inodes * INODE;
        assert_eq!(content.memory(PAGE), expected, "{connectors} {pages}");
    }
    let error = memory_of_error(&errors::error(), PAGE);
    assert_eq!(error, (6 + 1) * PAGE + (12 + 1) * INODE);
}

#[test]
fn an_error_takes_no_more_memory_than_is_counted_for_it() {
    if !inside("memory::an_error_takes_no_more_memory_than_is_counted_for_it") {
        return;
    }
    let scene = scene();
    scene.publish_error();
    let counted = memory_of_error(&errors::error(), page_size());
    assert!(
        measured(&scene) <= counted,
        "{} {counted}",
        measured(&scene)
    );
    scene.clear();
}
