//! Programs of the registry that tasks run. Each is pinned like the toolchain, and built once into the cache.

use std::{env, path::PathBuf};

use anyhow::Context;
use e2e::Tool;

/// A program that cargo builds from a release of its package.
pub(crate) struct PinnedTool {
    /// The name of the package, and of its program.
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// The arguments of the build that choose its features.
    pub(crate) features: &'static [&'static str],
}

impl PinnedTool {
    /// The program; the first call on a machine builds it.
    pub(crate) fn program(&self) -> anyhow::Result<PathBuf> {
        let Self {
            name,
            version,
            features,
        } = self;
        let root = e2e::cache_dir().join(format!("{name}-{version}"));
        let program = root.join("bin").join(name);
        if !program.is_file() {
            println!("building {name} {version} (once)");
            Tool::ending_with_us(env!("CARGO"))
                .dir(env::temp_dir())
                .args(["install", "--quiet", "--locked", name, "--version", version])
                .args(*features)
                .args(["--root".as_ref(), root.as_os_str()])
                // Built to run for a second: optimising it takes minutes.
                .env("CARGO_PROFILE_RELEASE_LTO", "off")
                .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
                .run()
                .with_context(|| (*name).to_owned())?;
        }
        Ok(program)
    }
}
