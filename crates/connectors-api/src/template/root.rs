//! The root of a path: `.object` in the canonical form, or one of the other spellings of the source document.

use super::path::{Path, PathStep};

/// The steps of a path under the canonical root, and whether the spelling changed. None for another root.
pub(super) fn canonical(mut steps: Vec<PathStep>) -> Option<(Vec<PathStep>, bool)> {
    let names: Vec<_> = steps.iter().map_while(PathStep::field).collect();
    let (pod, skipped) = match *names.as_slice() {
        // A field `pod` of the pod has no canonical form, because the path is another spelling of the pod.
        ["object", "pod", "pod", ..] | ["pod", "pod", ..] => return None,
        ["object", "pod", ..] => (true, 2),
        ["object", ..] => (false, 1),
        ["pod", ..] => (true, 1),
        _ => return None,
    };
    // `.object.pod.name` means the pod's name, although it is not a direct field of the pod.
    let metadata =
        pod && steps.len() == skipped + 1 && matches!(names[skipped..], ["name" | "namespace"]);
    let root = ["object"].into_iter().chain(metadata.then_some("metadata"));
    steps.splice(..skipped, root.map(|name| PathStep::Field(name.to_owned())));
    Some((steps, pod))
}

impl Path {
    /// True for the canonical path of a field of the object's metadata.
    pub(super) fn is_metadata(&self, field: &str) -> bool {
        let names: Vec<_> = self.steps().map(PathStep::field).collect();
        names == [Some("object"), Some("metadata"), Some(field)]
    }
}
