//! Parts that run beside those on a cluster, which wait most of the time.
//!
//! Such a part is a process of its own; its output is shown when it has ended. A part that computes in simulated
//! time can use spare processor time without changing its result, and has the lowest priority.

use std::{
    fs::{self, File},
    io,
    path::{Path, PathBuf},
    process::{ExitStatus, Stdio},
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use anyhow::Context;
use e2e::Tool;

use super::parts::Part;

/// The lowest priority. Where the kernel groups processes by session, the priority of the group counts as well.
const LOWEST_PRIORITY: &str = r#"
if [ -w /proc/self/autogroup ]; then echo 19 >/proc/self/autogroup || true; fi
exec nice -n 19 "$@""#;

/// How much of the processors a part gets beside the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Priority {
    /// As much as they.
    Usual,
    /// Only what they leave.
    Lowest,
}

/// Parts that run, each in a process of its own; they end with this process.
pub(super) struct Aside {
    running: Vec<Running>,
}

struct Running {
    part: Part,
    log: PathBuf,
    /// Waits for the process, and says how long it took.
    waiter: JoinHandle<(io::Result<ExitStatus>, Duration)>,
}

/// The result of a part.
pub(super) struct Ended {
    pub(super) part: Part,
    pub(super) minutes: f64,
    pub(super) outcome: anyhow::Result<()>,
    /// Its output up to its own report, which repeats some lines.
    pub(super) output: String,
}

impl Aside {
    /// Begins these parts, each with this program's own command for a single part.
    pub(super) fn begin(xtask: &Path, parts: &[Part], priority: Priority) -> anyhow::Result<Self> {
        let logs = e2e::repository().join("target/test");
        fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
        let begin = |part: &Part| {
            let log = logs.join(format!("{part}.log"));
            let file = File::create(&log).with_context(|| log.display().to_string())?;
            let tool = match priority {
                Priority::Usual => Tool::ending_with_us(xtask),
                Priority::Lowest => Tool::ending_with_us("setsid")
                    .args(["sh", "-c", LOWEST_PRIORITY, "sh"])
                    .args([xtask]),
            };
            let tool = tool
                .args(["test".to_owned(), part.to_string()])
                .dir(e2e::repository());
            let mut child = tool
                .into_command()
                .stdout(file.try_clone()?)
                .stderr(file)
                .stdin(Stdio::null())
                .spawn()
                .with_context(|| format!("part {part}"))?;
            let began = Instant::now();
            Ok(Running {
                part: *part,
                log,
                waiter: thread::spawn(move || (child.wait(), began.elapsed())),
            })
        };
        Ok(Self {
            running: parts.iter().map(begin).collect::<anyhow::Result<_>>()?,
        })
    }

    /// Waits for all of them and prints the output of each.
    pub(super) fn end(self) -> Vec<Ended> {
        let end = |running: Running| {
            let waited = running.waiter.join();
            println!("── {} (beside the parts above)", running.part);
            let mut output = fs::read_to_string(&running.log).unwrap_or_default();
            println!("{output}");
            let report = output.find(&format!("\n── {} ", running.part));
            output.truncate(report.unwrap_or(output.len()));
            let (outcome, took) = match waited {
                Ok((Ok(status), took)) if status.success() => (Ok(()), took),
                Ok((Ok(status), took)) => {
                    let error = anyhow::anyhow!("its process ended with {status}");
                    (Err(error), took)
                }
                Ok((Err(error), took)) => (Err(error.into()), took),
                Err(_) => {
                    let error = anyhow::anyhow!("the thread that waits for it ended early");
                    (Err(error), Duration::ZERO)
                }
            };
            Ended {
                part: running.part,
                minutes: took.as_secs_f64() / 60.0,
                outcome,
                output,
            }
        };
        self.running.into_iter().map(end).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::env;

    use super::*;

    #[test]
    fn the_output_ends_before_the_parts_own_report() {
        let running = |text: &str| {
            let log = env::temp_dir().join(format!("aside-{}-{}", std::process::id(), text.len()));
            fs::write(&log, text).unwrap();
            let ended = (Ok(ExitStatus::default()), Duration::ZERO);
            let waiter = thread::spawn(move || ended);
            let part = Part::Layers;
            let running = vec![Running {
                part,
                log: log.clone(),
                waiter,
            }];
            let output = Aside { running }.end().remove(0).output;
            fs::remove_file(log).unwrap();
            output
        };
        let text = "── layers\ntest result: ok. 1 passed; 0 failed";
        let report = "\n── layers ✔ 0.1 min\ntest result: ok. 1 passed; 0 failed";
        assert_eq!(running(&format!("{text}{report}")), text);
        assert_eq!(running(text), text);
    }

    fn outcome(program: &str, priority: Priority) -> anyhow::Result<()> {
        let aside = Aside::begin(Path::new(program), &[Part::Layers], priority).unwrap();
        let mut ended = aside.end();
        assert_eq!(ended.len(), 1);
        ended.remove(0).outcome
    }

    #[test]
    fn a_part_is_run_by_its_own_command_and_its_failure_counts() {
        let log = e2e::repository().join("target/test/layers.log");
        for priority in [Priority::Usual, Priority::Lowest] {
            assert!(outcome("/bin/echo", priority).is_ok());
            assert_eq!(fs::read_to_string(&log).unwrap(), "test layers\n");
            assert!(outcome("/bin/false", priority).is_err());
            assert!(outcome("/no/such/program", priority).is_err());
        }
    }
}
