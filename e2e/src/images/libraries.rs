//! The shared libraries of a program, as its own loader resolves them.

use std::{
    ffi::OsStr,
    fs, io,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
};

use object::{
    Endianness,
    elf::FileHeader64,
    read::elf::{FileHeader, ProgramHeader},
};

use crate::command::{CommandError, Tool};

/// Why a program's libraries are unknown.
#[derive(Debug, thiserror::Error)]
pub enum LibrariesError {
    /// The program could not be read.
    #[error("cannot read {path}")]
    Read {
        /// Which program.
        path: PathBuf,
        /// The error of the operating system.
        #[source]
        source: io::Error,
    },
    /// It is no program for this kind of machine.
    #[error("{path} is not an executable of this machine")]
    Format {
        /// Which program.
        path: PathBuf,
        /// The reader's reason.
        #[source]
        source: object::Error,
    },
    /// The loader could not resolve a library.
    #[error("cannot resolve the shared libraries of {path}")]
    Resolve {
        /// Which program.
        path: PathBuf,
        /// The loader's words.
        #[source]
        source: CommandError,
    },
}

/// The loader and the libraries, by their paths on this machine; nothing for a static program.
pub(super) fn of(program: &Path) -> Result<Vec<PathBuf>, LibrariesError> {
    let Some(loader) = loader(program)? else {
        return Ok(Vec::new());
    };
    let listing = Tool::new(&loader)
        // Inside the image these are never set.
        .without_env("LD_LIBRARY_PATH")
        .without_env("LD_PRELOAD")
        .args(["--list".as_ref(), program.as_os_str()])
        .output()
        .map_err(|source| LibrariesError::Resolve {
            path: program.to_path_buf(),
            source,
        })?;
    let mut paths: Vec<PathBuf> = listing.lines().filter_map(resolved).collect();
    paths.push(loader);
    paths.sort();
    paths.dedup();
    Ok(paths)
}

/// The loader that a program names, none for a static one.
fn loader(program: &Path) -> Result<Option<PathBuf>, LibrariesError> {
    let data = fs::read(program).map_err(|source| LibrariesError::Read {
        path: program.to_path_buf(),
        source,
    })?;
    let interpreter = || -> object::Result<Option<PathBuf>> {
        let data = data.as_slice();
        let header = FileHeader64::<Endianness>::parse(data)?;
        let endian = header.endian()?;
        for segment in header.program_headers(endian, data)? {
            if let Some(path) = segment.interpreter(endian, data)? {
                return Ok(Some(PathBuf::from(OsStr::from_bytes(path))));
            }
        }
        Ok(None)
    };
    interpreter().map_err(|source| LibrariesError::Format {
        path: program.to_path_buf(),
        source,
    })
}

/// `libc.so.6 => /lib/libc.so.6 (0x…)`; the kernel's own page (`linux-vdso`) has no path, and the loader
/// itself is listed without an arrow.
fn resolved(line: &str) -> Option<PathBuf> {
    let (_, path) = line.split_once("=> ")?;
    let path = path.split(" (").next()?.trim();
    path.starts_with('/').then(|| PathBuf::from(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_with_a_path_name_a_library() {
        let library = resolved("\tlibc.so.6 => /lib/x/libc.so.6 (0x00007f)");
        assert_eq!(library, Some(PathBuf::from("/lib/x/libc.so.6")));
        assert_eq!(resolved("\tlinux-vdso.so.1 (0x00007ffe)"), None);
        assert_eq!(resolved("\t/lib64/ld-linux-x86-64.so.2 (0x00007f)"), None);
        assert_eq!(resolved("\tlibx.so => not found"), None);
        assert_eq!(resolved(""), None);
    }

    #[test]
    fn a_text_file_is_refused_by_name() {
        let file = tempfile::NamedTempFile::new().unwrap();
        fs::write(file.path(), "#!/bin/sh\n").unwrap();
        let error = of(file.path()).unwrap_err().to_string();
        assert!(
            error.ends_with("is not an executable of this machine"),
            "{error}"
        );
    }
}
