//! The contents of the tools: small, and in the form that their clients read.

use std::{
    fs, io,
    io::Write as _,
    path::{Component, Path, PathBuf},
    process::{Command, ExitStatus, Stdio},
};

use crate::credentials::StandIn;

/// The manifest of the image `demo/app:1.0`.
const MANIFEST: &str = r#"{"schemaVersion":2,"mediaType":"application/vnd.oci.image.manifest.v1+json","config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"sha256:44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","size":2},"layers":[]}"#;
const MANIFEST_TYPE: &str = "application/vnd.oci.image.manifest.v1+json";

/// The one commit of the repository `demo.git`, for `git fast-import`.
const HISTORY: &str = "commit refs/heads/main\n\
    committer Demo <demo@example.com> 0 +0000\n\
    data 6\nfirst\n\
    M 644 inline README\n\
    data 19\nhello from the git\n\n";

/// Why there is no repository.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ContentsError {
    /// The program did not start.
    #[error("cannot run git: {0}")]
    Start(#[from] io::Error),
    /// It failed.
    #[error("`git {0}` failed: {1}")]
    Git(&'static str, ExitStatus),
}

/// The contents of all tools.
#[derive(Debug)]
pub(crate) struct Contents {
    repositories: PathBuf,
}

/// A piece of content with its media type.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Content {
    pub(crate) media_type: &'static str,
    pub(crate) bytes: Vec<u8>,
}

impl Content {
    fn text(media_type: &'static str, text: impl Into<String>) -> Self {
        let bytes = text.into().into_bytes();
        Self { media_type, bytes }
    }
}

impl Contents {
    /// Makes the git repository in this directory. It is served as files, which is git's dumb protocol.
    pub(crate) fn make(work: &Path) -> Result<Self, ContentsError> {
        let repository = work.join("demo.git");
        let git = |words: &'static str, input: &str| -> Result<(), ContentsError> {
            let mut child = Command::new("git")
                .args(words.split(' '))
                .env("GIT_DIR", &repository)
                .env("GIT_CONFIG_NOSYSTEM", "1")
                .stdin(Stdio::piped())
                .spawn()?;
            if let Some(mut stdin) = child.stdin.take() {
                stdin.write_all(input.as_bytes())?;
            }
            let status = child.wait()?;
            let is_good = status.success();
            is_good
                .then_some(())
                .ok_or(ContentsError::Git(words, status))
        };
        git("init --quiet --bare --initial-branch=main", "")?;
        git("fast-import --quiet", HISTORY)?;
        git("update-server-info", "")?;
        Ok(Self {
            repositories: work.to_owned(),
        })
    }

    /// The content of a tool for a pod that was let in; none for an unknown path.
    pub(crate) fn get(&self, tool: StandIn, path: &str, pod: &str) -> Option<Content> {
        match (tool, path) {
            (StandIn::Docker, "/v2/") => Some(Content::text("application/json", "{}")),
            (StandIn::Docker, "/v2/demo/app/manifests/1.0") => {
                Some(Content::text(MANIFEST_TYPE, MANIFEST))
            }
            (StandIn::Http, "/api/hello") => {
                Some(Content::text("text/plain", format!("hello {pod}\n")))
            }
            (StandIn::Kubernetes, "/readyz") => {
                Some(Content::text("text/plain", format!("ready for {pod}")))
            }
            (StandIn::Maven, "/com/example/app/1.0/app-1.0.pom") => {
                let text = "<project><artifactId>app</artifactId></project>\n";
                Some(Content::text("application/xml", text))
            }
            (StandIn::Git, path) => self.file(path),
            _ => None,
        }
    }

    /// A file of a repository. A path that leaves the directory is unknown.
    fn file(&self, path: &str) -> Option<Content> {
        let path = Path::new(path.strip_prefix('/')?);
        let is_below = |it: Component<'_>| matches!(it, Component::Normal(_));
        if !path.components().all(is_below) {
            return None;
        }
        let bytes = fs::read(self.repositories.join(path)).ok()?;
        Some(Content {
            media_type: "text/plain",
            bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_outside_the_repositories_is_unknown() {
        let contents = Contents {
            repositories: "/proc".into(),
        };
        assert!(contents.file("/self/stat").is_some());
        for path in [
            "/../etc/passwd",
            "/self/../../etc/passwd",
            "//etc/passwd",
            "self/stat",
        ] {
            assert_eq!(contents.file(path), None, "{path}");
        }
    }
}
