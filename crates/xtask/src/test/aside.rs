//! Parts that run beside those on a cluster, which wait most of the time.
//!
//! A part of this kind computes in simulated time, so that it takes what processor time is left without changing its
//! result. It is a process of its own with the lowest priority; its output is shown when it has ended.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Child, Stdio},
    time::Instant,
};

use anyhow::Context;
use e2e::Tool;

use super::parts::Part;

/// The lowest priority. Where the kernel groups processes by session, the priority of the group counts as well.
const LOWEST_PRIORITY: &str = r#"
if [ -w /proc/self/autogroup ]; then echo 19 >/proc/self/autogroup || true; fi
exec nice -n 19 "$@""#;

/// Parts that run one after the other in a process of their own; it ends when this is dropped.
pub(super) struct Aside {
    began: Instant,
    running: Vec<Running>,
}

struct Running {
    part: Part,
    child: Child,
    log: PathBuf,
}

/// What became of a part.
pub(super) struct Ended {
    pub(super) part: Part,
    pub(super) minutes: f64,
    pub(super) outcome: anyhow::Result<()>,
}

impl Aside {
    /// Begins these parts, each with this program's own command for a single part.
    pub(super) fn begin(xtask: &Path, parts: &[Part]) -> anyhow::Result<Self> {
        let logs = e2e::repository().join("target/test");
        fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
        let begin = |part: &Part| {
            let log = logs.join(format!("{part}.log"));
            let file = File::create(&log).with_context(|| log.display().to_string())?;
            let tool = Tool::ending_with_us("setsid")
                .args(["sh", "-c", LOWEST_PRIORITY, "sh"])
                .args([xtask])
                .args(["test".to_owned(), part.to_string()])
                .dir(e2e::repository());
            let child = tool
                .into_command()
                .stdout(file.try_clone()?)
                .stderr(file)
                .stdin(Stdio::null())
                .spawn()
                .with_context(|| format!("part {part}"))?;
            Ok(Running {
                part: *part,
                child,
                log,
            })
        };
        Ok(Self {
            began: Instant::now(),
            running: parts.iter().map(begin).collect::<anyhow::Result<_>>()?,
        })
    }

    /// Waits for all of them and prints what each said.
    pub(super) fn end(mut self) -> Vec<Ended> {
        let began = self.began;
        let end = |mut running: Running| {
            let status = running.child.wait();
            let minutes = began.elapsed().as_secs_f64() / 60.0;
            println!("── {} (beside the parts above)", running.part);
            println!("{}", fs::read_to_string(&running.log).unwrap_or_default());
            let outcome = match status {
                Ok(status) if status.success() => Ok(()),
                Ok(status) => Err(anyhow::anyhow!("its process ended with {status}")),
                Err(error) => Err(anyhow::Error::from(error)),
            };
            Ended {
                part: running.part,
                minutes,
                outcome,
            }
        };
        std::mem::take(&mut self.running)
            .into_iter()
            .map(end)
            .collect()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        for running in &mut self.running {
            // It may have ended by itself; there is nothing else to do about it then.
            let _ = running.child.kill();
            let _ = running.child.wait();
        }
    }
}
