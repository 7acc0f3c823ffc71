//! What the files of a volume may come to.

/// The most files of a volume, those of `.connector` apart.
pub const MOST_FILES: usize = 64;
/// The most bytes of all files of a volume.
pub const MOST_BYTES: usize = 1 << 20;
/// The most steps of the template of one file. A file of 1,000 lines takes some thousands.
pub(crate) const MOST_STEPS: u64 = 50_000;
