//! `cargo xtask images`: the images of this repository's own programs.

use e2e::images::{self, Image, Profile};

/// Builds the programs and makes an archive of each, or finds it made.
pub(crate) fn run() -> anyhow::Result<()> {
    let wanted = [&Image::SERVICES[..], &Image::WORKLOADS].concat();
    for archive in images::build(&wanted, Profile::Dev)? {
        println!("{}  {}", archive.reference, archive.path.display());
    }
    Ok(())
}
