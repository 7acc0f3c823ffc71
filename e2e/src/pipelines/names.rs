//! The names that Tekton derives.
//!
//! Written apart from the proof, so that an error in one of both does not hide in the other.

use md5::{Digest as _, Md5};

use crate::hex::hex;

/// The bytes of a name.
const LONGEST: usize = 63;
/// Those that a digest leaves of it.
const BESIDE_DIGEST: usize = 31;

/// The name of a child. One that is too long is shortened, and gets the digest of the removed part.
pub(super) fn child(parent: &str, suffix: &str) -> String {
    let whole = format!("{parent}{suffix}");
    if whole.len() <= LONGEST {
        return whole;
    }
    if suffix.len() < BESIDE_DIGEST {
        let head = first(parent, BESIDE_DIGEST - suffix.len());
        return format!("{head}{}{suffix}", digest(parent));
    }
    let mut name = format!("{}{}", first(parent, BESIDE_DIGEST), digest(&whole));
    name.push_str(first(suffix, LONGEST - name.len()));
    while name.ends_with(|it: char| !it.is_ascii_alphanumeric()) {
        name.pop();
    }
    name
}

/// The names of so many children of a pipeline task. Those of a matrix are numbered.
pub(super) fn of_children(run: &str, task: &str, count: usize) -> Vec<String> {
    let suffix = format!("-{task}");
    if count == 1 {
        return vec![child(run, &suffix)];
    }
    let numbered = |index: usize| {
        let number = format!("-{index}");
        let name = child(run, &format!("{suffix}{number}"));
        if name.ends_with(&number) {
            return name;
        }
        let name = child(run, &suffix);
        format!(
            "{}{number}",
            first(&name, LONGEST - format!("-{count}").len())
        )
    };
    (0..count).map(numbered).collect()
}

/// The name of the pod of an attempt of a `TaskRun`. The first attempt has number 0.
pub(super) fn pod(task_run: &str, attempt: usize) -> String {
    match attempt {
        0 => child(task_run, "-pod"),
        _ => child(task_run, &format!("-pod-retry{attempt}")),
    }
}

fn digest(text: &str) -> String {
    hex(&Md5::digest(text))
}

/// At most so many bytes. Names are ASCII.
fn first(text: &str, most: usize) -> &str {
    text.get(..most.min(text.len())).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_fits_is_kept() {
        assert_eq!(child("run", "-wait"), "run-wait");
        assert_eq!(pod("run-deploy", 0), "run-deploy-pod");
        assert_eq!(pod("run-deploy", 1), "run-deploy-pod-retry1");
        let longest = "a".repeat(58);
        assert_eq!(child(&longest, "-wait"), format!("{longest}-wait"));
    }

    /// The names are those that Tekton gave to children and pods on a real cluster.
    #[test]
    fn names_that_are_too_long_are_those_of_tekton() {
        let run = format!("lm-{}", "x".repeat(50));
        let task = "deploy-to-production-clusters-everywhere";
        let head = format!("lm-{}", "x".repeat(28));
        let children = of_children(&run, task, 2);
        let digest = "fae7ff93aa6e09e4eceec0f2bad8bf";
        assert_eq!(
            children,
            [format!("{head}{digest}-0"), format!("{head}{digest}-1")]
        );
        let head = format!("lm-{}", "x".repeat(24));
        for (child, digest) in children.iter().zip([
            "805efbf8a5f20c8c92d5685742eb7fa2",
            "cfe547b87eb194580e020157dcf0a366",
        ]) {
            assert_eq!(pod(child, 0), format!("{head}{digest}-pod"));
        }
    }

    #[test]
    fn children_of_a_matrix_are_numbered_and_a_single_one_is_not() {
        assert_eq!(of_children("run", "t", 1), ["run-t"]);
        assert_eq!(of_children("run", "t", 2), ["run-t-0", "run-t-1"]);
        assert_eq!(of_children("run", "t", 0), Vec::<String>::new());
    }

    #[test]
    fn a_shortened_name_ends_in_a_letter_or_digit() {
        let name = child(&"b".repeat(29), &"-".repeat(41));
        assert_eq!(name.len(), 29 + 32, "{name}");
    }
}
