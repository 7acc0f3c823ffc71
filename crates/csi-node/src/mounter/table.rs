//! The kernel's table of mounts, to find mounts that an earlier process left.

use std::{ffi::OsString, os::unix::ffi::OsStringExt, path::PathBuf};

/// Mount points of file systems of this type and source.
pub(super) fn mount_points(mountinfo: &str, kind: &str, source: &str) -> Vec<PathBuf> {
    let point = |line: &str| {
        let (mount, file_system) = line.split_once(" - ")?;
        let mut fields = file_system.split(' ');
        let ours = fields.next() == Some(kind) && fields.next() == Some(source);
        let path = mount.split(' ').nth(4).filter(|_| ours)?;
        Some(unescaped(path))
    };
    mountinfo.lines().filter_map(point).collect()
}

/// Decodes blanks and similar characters, which the table writes as a backslash and three octal digits.
fn unescaped(path: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        let octal = (first == b'\\')
            .then(|| tail.get(..3))
            .flatten()
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        if let Some(byte) = octal {
            bytes.push(byte);
            rest = &tail[3..];
        } else {
            bytes.push(first);
            rest = tail;
        }
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_type_and_source() {
        let table = "\
22 1 0:20 / / rw - ext4 /dev/vda rw
23 22 0:21 / /pods/a\\040b/mount rw,nosuid shared:7 - tmpfs connectors-csi ro,size=1m
24 22 0:22 / /pods/c/mount rw - tmpfs tmpfs rw
25 22 0:23 / /pods/d/mount rw - ramfs connectors-csi rw
26 22 0:24 / /pods/e\\134/mount rw - tmpfs connectors-csi rw
a broken line
";
        let found = mount_points(table, "tmpfs", "connectors-csi");
        assert_eq!(
            found,
            [
                PathBuf::from("/pods/a b/mount"),
                PathBuf::from("/pods/e\\/mount")
            ]
        );
        assert!(mount_points("", "tmpfs", "connectors-csi").is_empty());
    }
}
