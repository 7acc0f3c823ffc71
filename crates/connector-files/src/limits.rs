//! The limits of the files of a volume.

use text_template::TemplateLimits;

/// The most files of a volume, those of `.connector` apart.
pub(crate) const MOST_FILES: usize = 64;
/// The most templates of a volume, those of files that others replace among them.
pub(crate) const MOST_TEMPLATES: u64 = 256;
/// The most bytes of all files of a volume.
pub const MOST_BYTES: usize = 256 << 10;
/// The most steps of all templates of a volume. A file of 1,000 lines takes some thousands.
pub(crate) const MOST_STEPS: u64 = 200_000;
/// The most steps of the template of one file.
pub(crate) const MOST_STEPS_OF_ONE: u64 = 50_000;

/// The limits of the template of one file.
pub(crate) fn template_limits(steps: u64) -> TemplateLimits {
    TemplateLimits {
        text: MOST_BYTES,
        output: MOST_BYTES,
        value: MOST_BYTES,
        steps,
        ..TemplateLimits::default()
    }
}
