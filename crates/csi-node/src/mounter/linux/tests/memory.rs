//! The memory of a volume, as it is counted and as the kernel says.

use rustix::param::page_size;
use serde_json::json;

use super::{files::files, *};
use crate::content::memory_of_error;

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
