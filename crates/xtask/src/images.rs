//! `cargo xtask images`: the images of this repository's own programs.

use e2e::images::{self, Image};

/// Builds the programs and makes an archive of each, or finds it made.
pub(crate) fn run() -> anyhow::Result<()> {
    let programs = images::build_programs()?;
    for image in Image::OWN {
        let archive = images::make(image, &programs.program(image))?;
        println!("{}  {}", archive.reference, archive.path.display());
    }
    Ok(())
}
