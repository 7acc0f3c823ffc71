//! `cargo xtask images`: the images of this repository's own programs.

use e2e::images::{self, Image};

/// Builds the programs and makes an archive of each, or finds it made.
pub(crate) fn run() -> anyhow::Result<()> {
    let wanted = [&Image::SERVICES[..], &Image::WORKLOADS].concat();
    for archive in images::build(&wanted)? {
        println!("{}  {}", archive.reference, archive.path.display());
    }
    Ok(())
}
