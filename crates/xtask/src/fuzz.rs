//! `cargo xtask fuzz`: random inputs for all code that reads foreign input.
//!
//! Owns: how the targets of `fuzz/` are compiled, how long each runs and with which limits. Refuses to know:
//! the properties to check, which belong to each target. Invariant: nothing is written into the repository
//! but into `target/fuzz`.

use std::{
    collections::BTreeSet,
    env, fs,
    hash::{BuildHasher, Hasher, RandomState},
    io,
    path::{Path, PathBuf},
    thread,
};

use anyhow::Context;
use clap::{Args, ValueEnum};
use e2e::Tool;

/// Compiler options that count the edges that an input reaches, and record the values that it is compared
/// with. These are ordinary options of LLVM: the toolchain is the usual one.
const INSTRUMENTED: &str = "--cfg fuzzing -Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares";

/// As many as there are: one of them waits for the processes that it starts.
const AT_A_TIME: usize = 3;
/// How long each target runs in the test command. Longer runs find more, by hand: `cargo xtask fuzz --seconds 3600`.
const TEST_SECONDS: u32 = 10;
/// The end of a log that an error shows.
const SHOWN: usize = 25;

/// Random inputs for a while, beginning with those in fuzz/corpus. Findings stay in target/fuzz
#[derive(Args)]
pub(crate) struct FuzzArgs {
    /// One target; all of them when absent
    target: Option<Target>,
    /// How long each of them runs
    #[arg(long, default_value_t = TEST_SECONDS)]
    seconds: u32,
    /// Where chance begins; another each time when absent
    #[arg(long)]
    seed: Option<u32>,
    /// Tries this input alone, such as one that was found
    #[arg(long, value_name = "FILE", requires = "target")]
    input: Option<PathBuf>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Target {
    /// Texts with paths in braces
    Template,
    /// Templates of classes, in Go's language
    ClassTemplate,
    /// Rego modules
    Rego,
    /// Messages of the evaluation protocol
    Protobuf,
    /// The objects between a pod and its approval
    Lineage,
}

pub(crate) fn run(args: &FuzzArgs) -> anyhow::Result<()> {
    build()?;
    if let (Some(target), Some(input)) = (args.target, &args.input) {
        let input = input
            .canonicalize()
            .with_context(|| input.display().to_string())?;
        return Ok(Tool::ending_with_us(target.program()).args([input]).run()?);
    }
    let targets = args
        .target
        .map_or(Target::value_variants().to_vec(), |target| vec![target]);
    // Zero would tell the fuzzer to choose for itself.
    let seed = args.seed.unwrap_or_else(chance).max(1);
    for some in targets.chunks(AT_A_TIME) {
        let outcomes = thread::scope(|scope| {
            let begin = |target: &Target| {
                let target = *target;
                scope.spawn(move || target.try_inputs(args.seconds, seed))
            };
            let running: Vec<_> = some.iter().map(begin).collect();
            let end = |it: thread::ScopedJoinHandle<'_, _>| it.join();
            running.into_iter().map(end).collect::<Vec<_>>()
        });
        for outcome in outcomes {
            outcome.map_err(|_| anyhow::anyhow!("a target's thread ended early"))??;
        }
    }
    Ok(())
}

/// The part of the test command.
pub(crate) fn test() -> anyhow::Result<()> {
    run(&FuzzArgs {
        target: None,
        seconds: TEST_SECONDS,
        seed: None,
        input: None,
    })
}

impl Target {
    fn name(self) -> &'static str {
        match self {
            Self::Template => "template",
            Self::ClassTemplate => "class-template",
            Self::Rego => "rego",
            Self::Protobuf => "protobuf",
            Self::Lineage => "lineage",
        }
    }

    /// The most bytes of an input, and its limits of time and memory.
    fn limits(self) -> &'static [&'static str] {
        match self {
            Self::Template | Self::ClassTemplate | Self::Protobuf => {
                &["-max_len=4096", "-timeout=30"]
            }
            // The smallest run that is proven has four thousand bytes.
            Self::Lineage => &["-max_len=16384", "-timeout=30"],
            // Modules may ask for more time or memory than there is: like a worker, the process that tries them ends
            // then, and another one goes on. Any other end counts.
            Self::Rego => &[
                "-max_len=4096",
                "-timeout=2",
                "-rss_limit_mb=1024",
                "-fork=1",
                "-ignore_timeouts=1",
                "-ignore_ooms=1",
            ],
        }
    }

    fn program(self) -> PathBuf {
        target_dir()
            .join(machine())
            .join("release")
            .join(self.name())
    }

    fn try_inputs(self, seconds: u32, seed: u32) -> anyhow::Result<()> {
        let name = self.name();
        let corpus = e2e::repository().join("fuzz/corpus").join(name);
        let [found, crashes, temporary] =
            ["found", "crashes", "tmp"].map(|dir| target_dir().join(dir).join(name));
        empty(&found)?;
        empty(&temporary)?;
        fs::create_dir_all(&crashes)?;
        let before = files(&crashes)?;
        let log = target_dir().join(format!("{name}.log"));
        println!("{name}: {seconds} s, seed {seed}");
        let ended = Tool::ending_with_us("sh")
            .args(["-c", r#"exec "$@" >"$0" 2>&1"#])
            .args([&log, &self.program()])
            .args(self.limits())
            .args([
                format!("-seed={seed}"),
                format!("-max_total_time={seconds}"),
                format!("-artifact_prefix={}/", crashes.display()),
            ])
            .args([found, corpus])
            .env("TMPDIR", temporary)
            .run();
        let said = fs::read(&log).unwrap_or_default();
        let said = String::from_utf8_lossy(&said);
        if ended.is_ok() {
            let last = said.lines().rfind(|line| line.contains(" cov: "));
            let last = last.with_context(|| format!("{name}: nothing was tried"))?;
            println!("{name}: {}", last.trim());
            return Ok(());
        }
        let lines: Vec<&str> = said.lines().collect();
        let shown = lines.get(lines.len().saturating_sub(SHOWN)..);
        println!("{}", shown.unwrap_or_default().join("\n"));
        let mut report = format!(
            "{name}: something does not hold (seed {seed}, all of it in {})",
            log.display()
        );
        for file in files(&crashes)?.difference(&before) {
            // An input that was only ended for its time or memory is no finding.
            if file
                .file_name()
                .is_some_and(|it| it.to_string_lossy().starts_with("crash-"))
            {
                let again = format!(
                    "\nagain: cargo xtask fuzz {name} --input {}",
                    file.display()
                );
                report += &again;
            }
        }
        anyhow::bail!(report)
    }
}

/// Compiles all targets. Cargo's results are keyed by their sources and options.
fn build() -> anyhow::Result<()> {
    Tool::ending_with_us(env!("CARGO"))
        .dir(e2e::repository().join("fuzz"))
        .args(["build", "--release", "--locked", "--bins"])
        // With the machine named, build scripts and macros, which run while compiling, are not instrumented.
        .args(["--target", &machine()])
        .args(["--target-dir".as_ref(), target_dir().as_os_str()])
        .without_env("CARGO_ENCODED_RUSTFLAGS")
        .env("RUSTFLAGS", INSTRUMENTED)
        .run()
        .context("the fuzz targets")
}

fn target_dir() -> PathBuf {
    e2e::repository().join("target/fuzz")
}

fn machine() -> String {
    format!("{}-unknown-linux-gnu", env::consts::ARCH)
}

fn chance() -> u32 {
    let random = RandomState::new().build_hasher().finish();
    u32::try_from(random >> 32).unwrap_or(1)
}

/// Creates a folder, or empties it.
fn empty(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        Ok(()) | Err(_) => fs::create_dir_all(dir),
    }
}

fn files(dir: &Path) -> io::Result<BTreeSet<PathBuf>> {
    fs::read_dir(dir)?.map(|entry| Ok(entry?.path())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every crate of a lock file, with its version.
    fn locked(path: &str) -> BTreeSet<(String, String)> {
        let text = fs::read_to_string(e2e::repository().join(path)).unwrap();
        let packages = text.split("[[package]]").skip(1);
        let field = |package: &str, name: &str| {
            let line = package.lines().find_map(|line| line.strip_prefix(name));
            line.unwrap().trim_matches([' ', '=', '"']).to_owned()
        };
        packages
            .map(|package| (field(package, "name"), field(package, "version")))
            .collect()
    }

    #[test]
    fn what_is_fuzzed_is_what_ships_and_the_fuzzer_is_all_that_comes_with_it() {
        let ours = locked("Cargo.lock");
        let fuzzed = locked("fuzz/Cargo.lock");
        let more: Vec<&str> = fuzzed.difference(&ours).map(|(name, _)| &**name).collect();
        assert_eq!(more, ["arbitrary", "fuzz", "jobserver", "libfuzzer-sys"]);
    }

    #[test]
    fn every_target_has_its_program_and_its_corpus() {
        let fuzz = e2e::repository().join("fuzz");
        for target in Target::value_variants() {
            let name = target.name();
            assert!(
                fuzz.join("targets").join(format!("{name}.rs")).is_file(),
                "{name}"
            );
            let corpus = files(&fuzz.join("corpus").join(name)).unwrap();
            assert!(corpus.len() >= 10, "{name}");
        }
        assert_eq!(
            files(&fuzz.join("targets")).unwrap().len(),
            Target::value_variants().len()
        );
    }
}
