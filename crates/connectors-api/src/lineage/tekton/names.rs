//! The names that Tekton derives for children.

use md5::{Digest, Md5};

use crate::hex;

/// The longest name of a child.
const LONGEST: usize = 63;
/// A digest in hexadecimal.
const DIGEST: usize = 32;
/// The room beside a digest.
const HEAD: usize = LONGEST - DIGEST;

/// The name of a child, as `kmeta.ChildName` of knative/pkg derives it:
/// * parent and suffix, when both together have at most 63 bytes;
/// * otherwise, for a suffix of less than 31 bytes: the parent's first `31 - suffix` bytes, the MD5 digest of the
///   parent in hexadecimal, and the suffix;
/// * otherwise: the parent's first 31 bytes, the digest of parent and suffix, and as much of the suffix as
///   there is room for, without trailing characters that are not alphanumeric.
///
/// The digest is no protection: it only shortens names.
pub(in crate::lineage) fn child(parent: &str, suffix: &str) -> String {
    if parent.len() + suffix.len() <= LONGEST {
        return format!("{parent}{suffix}");
    }
    if suffix.len() < HEAD {
        let head = beginning(parent, HEAD - suffix.len());
        return format!("{head}{}{suffix}", digest(parent));
    }
    let mut name = format!(
        "{}{}",
        beginning(parent, HEAD),
        digest(&format!("{parent}{suffix}"))
    );
    let room = LONGEST.saturating_sub(name.len());
    name.push_str(beginning(suffix, room));
    let kept = name.trim_end_matches(|it: char| !it.is_ascii_alphanumeric());
    kept.to_owned()
}

/// The names of the children of a pipeline task. Those of a matrix end in their number: where shortening would cut it
/// off, it is put after a shorter beginning.
pub(in crate::lineage) fn of_children(run: &str, task: &str, count: usize) -> Vec<String> {
    if count == 1 {
        return vec![child(run, &format!("-{task}"))];
    }
    let numbered = |index: usize| {
        let end = format!("-{index}");
        let name = child(run, &format!("-{task}{end}"));
        if name.ends_with(&end) {
            return name;
        }
        let name = child(run, &format!("-{task}"));
        let room = LONGEST - format!("-{count}").len();
        format!("{}{end}", beginning(&name, room))
    };
    (0..count).map(numbered).collect()
}

fn digest(text: &str) -> String {
    hex(&Md5::digest(text.as_bytes()))
}

/// At most so many bytes of a text. Names are ASCII; of another text it is less.
fn beginning(text: &str, most: usize) -> &str {
    text.get(..text.floor_char_boundary(most))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected names are those of knative/pkg itself.
    #[test]
    fn a_name_is_shortened_with_a_digest_when_it_is_too_long() {
        for (parent, suffix, expected) in [
            ("run", "-task", "run-task"),
            (
                "nightly-release-of-the-payment-service-7x2kq",
                "-deploy-to-production",
                "nightly-re67760451c9c1efbb5aaa66e104b83a59-deploy-to-production",
            ),
            (
                "run",
                "-tttttttttttttttttttttttttttttttttttttttttttttttttttttttttttttt",
                "run0d4042e67ff141eeadf3ab2aec202c30-ttttttttttttttttttttttttttt",
            ),
            (
                "a-run-with-a-name-that-is-long-enough-to-be-cut",
                "-wait-for-the-approval-of-security",
                "a-run-with-a-name-that-is-long-3a28f88df884c5b1f5183f25ead44958",
            ),
            // A suffix of just 31 bytes, and one of a byte less.
            (
                "a-run-with-a-name-that-is-long-enough-to-be-cut",
                "-wait-for-the-security-approval",
                "a-run-with-a-name-that-is-long-98a07762575bcb0644587aba242e9c75",
            ),
            (
                "a-run-with-a-name-that-is-long-enough-to-be-cut",
                "-wait-for-the-security-approva",
                "ad7a38d5d1f54532902fa64b133a49e9b-wait-for-the-security-approva",
            ),
        ] {
            assert_eq!(child(parent, suffix), expected);
        }
        let fits = "a".repeat(58);
        assert_eq!(child(&fits, "-task"), format!("{fits}-task"));
        let cut = child(&"b".repeat(29), &"-".repeat(41));
        assert_eq!(cut.len(), 29 + 32, "{cut}");
    }

    #[test]
    fn no_letter_is_cut_in_two() {
        for (text, most, expected) in [
            ("abc", 2, "ab"),
            ("abc", 3, "abc"),
            ("abc", 4, "abc"),
            ("a\u{20ac}", 3, "a"),
            ("a\u{20ac}", 4, "a\u{20ac}"),
            ("\u{e9}", 1, ""),
        ] {
            assert_eq!(beginning(text, most), expected, "{text} {most}");
        }
    }

    #[test]
    fn the_digest_is_md5() {
        assert_eq!(digest(""), "d41d8cd98f00b204e9800998ecf8427e");
        assert_eq!(digest("abc"), "900150983cd24fb0d6963f7d28e17f72");
    }

    #[test]
    fn the_children_of_a_matrix_end_in_their_number() {
        assert_eq!(of_children("run", "t", 1), ["run-t"]);
        assert_eq!(of_children("run", "t", 2), ["run-t-0", "run-t-1"]);
        let task = "t".repeat(60);
        let names = of_children("run", &task, 11);
        assert_eq!(names.len(), 11);
        for (index, name) in names.iter().enumerate() {
            assert!(name.ends_with(&format!("-{index}")), "{name}");
            assert!(name.len() <= 63, "{name}");
        }
    }
}
