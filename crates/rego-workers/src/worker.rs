//! The worker: reads jobs, answers each, and ends with its input.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::process::ExitCode;
use std::time::Duration;

use connectors_api::rego::{CheckModule, EvaluationError, ModuleError, ModuleOutput};
use rustix::process::{Resource, Rlimit, getrlimit, nice, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use sha2::{Digest, Sha256};

use super::frame::{self, AskedIn, JobIn, Reply, Sound};

/// The first argument of a worker. Milliseconds per job and bytes of memory follow.
pub const ARGUMENT: &str = "rego-worker";

/// The number of parsed modules that are kept. Each is at most as long as a policy can hold.
const MODULES: usize = 32;

/// The niceness of a worker. Without enough processor time it gets about a ninth of the service's share. A module
/// that never ends would otherwise take the time that calls without Rego need.
const NICE: i32 = 10;

type Digested = [u8; 32];

struct Worker {
    limit: Duration,
    modules: HashMap<Digested, Result<CheckModule, ModuleError>>,
}

/// Works until the input ends. Writes nothing to standard error, because it could be a secret.
#[must_use]
pub fn run(arguments: &[String]) -> ExitCode {
    let Some((limit, memory)) = parse(arguments) else {
        return ExitCode::FAILURE;
    };
    let mut worker = Worker {
        limit,
        modules: HashMap::new(),
    };
    let work = |()| worker.work(io::stdin().lock(), io::stdout().lock(), allow_time);
    match confine(memory).and_then(work) {
        Ok(()) => ExitCode::SUCCESS,
        Err(_) => ExitCode::FAILURE,
    }
}

fn parse(arguments: &[String]) -> Option<(Duration, u64)> {
    let [limit, memory] = arguments else {
        return None;
    };
    let limit = Duration::from_millis(limit.parse().ok()?);
    Some((limit, memory.parse().ok()?))
}

/// After this call the worker reaches nothing outside, and little inside.
fn confine(memory: u64) -> io::Result<()> {
    let at_most = |most| Rlimit {
        current: Some(most),
        maximum: Some(most),
    };
    setrlimit(Resource::As, at_most(memory))?;
    // A core file would contain the objects.
    setrlimit(Resource::Core, at_most(0))?;
    setrlimit(Resource::Fsize, at_most(0))?;
    // The pipes stay open. The worker opens no file, such as the service's token, and no connection.
    setrlimit(Resource::Nofile, at_most(0))?;
    setrlimit(Resource::Nproc, at_most(0))?;
    nice(NICE)?;
    Ok(())
}

/// The service kills a worker that is late. This limit is for a worker whose service is gone.
fn allow_time(limit: Duration) -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    let used = u64::try_from(used).unwrap_or_default();
    // Only root may raise a maximum that the process was started with.
    let Rlimit { maximum, .. } = getrlimit(Resource::Cpu);
    let most = used + limit.as_secs() + 2;
    let most = Rlimit {
        current: Some(maximum.map_or(most, |maximum| maximum.min(most))),
        maximum,
    };
    Ok(setrlimit(Resource::Cpu, most)?)
}

impl Worker {
    /// Answers the jobs of the input. Each of them is allowed its time when it begins.
    fn work(
        &mut self,
        mut input: impl Read,
        mut output: impl Write,
        mut allow_time: impl FnMut(Duration) -> io::Result<()>,
    ) -> io::Result<()> {
        while let Some(job) = frame::read(&mut input)? {
            allow_time(self.limit)?;
            let reply = match serde_json::from_slice(&job) {
                Ok(job) => self.answer(&job),
                Err(_) => Reply::Failed("the job cannot be read".to_owned()),
            };
            let frame = frame::encode(&reply).ok_or(io::ErrorKind::InvalidData)?;
            frame::write(&mut output, &frame)?;
        }
        Ok(())
    }

    fn answer(&mut self, job: &JobIn<'_>) -> Reply {
        let JobIn {
            module,
            asked,
            wants_program,
        } = job;
        let module = match self.module(module) {
            Ok(module) => module,
            Err(error @ ModuleError::Evaluation(EvaluationError::Timeout)) => {
                return Reply::Limit(error.to_string());
            }
            Err(error) => return Reply::Failed(error.to_string()),
        };
        // The module was evaluated once when it was parsed.
        let Some(AskedIn { input, context }) = asked else {
            return Reply::Sound(Sound {
                reads_object: module.reads_object(),
            });
        };
        match module.evaluate_json(input.get(), context.get()) {
            Ok(ModuleOutput { state, message }) => {
                let state = state.as_str().to_owned();
                match module.program().filter(|_| *wants_program) {
                    None => Reply::Answer { state, message },
                    Some(program) => Reply::Compiled {
                        state,
                        message,
                        program: program.clone(),
                    },
                }
            }
            Err(error @ EvaluationError::Timeout) => Reply::Limit(error.to_string()),
            Err(error) => Reply::Failed(error.to_string()),
        }
    }

    /// The module, parsed once. The error of an invalid module is kept as well. A lack of time is not kept, because
    /// the machine may have been busy.
    fn module(&mut self, source: &str) -> &Result<CheckModule, ModuleError> {
        let digest = Sha256::digest(source).into();
        if self.modules.len() >= MODULES && !self.modules.contains_key(&digest) {
            self.modules.clear();
        }
        let known = self.modules.get(&digest);
        if let Some(Err(ModuleError::Evaluation(EvaluationError::Timeout))) = known {
            self.modules.remove(&digest);
        }
        let limit = self.limit;
        self.modules
            .entry(digest)
            .or_insert_with(|| CheckModule::parse(source, limit))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    mod jobs;

    const STATE: &str = "package approval\noutput := {\"state\": input.state}";

    fn worker() -> Worker {
        Worker {
            limit: Duration::from_secs(5),
            modules: HashMap::new(),
        }
    }

    /// The worker's reply to a job from the pipe.
    fn answer(worker: &mut Worker, module: &str, input: &serde_json::Value) -> Reply {
        let job = json!({"module": module, "asked": {"input": input, "context": {}}}).to_string();
        worker.answer(&serde_json::from_str(&job).unwrap())
    }

    #[test]
    fn jobs_are_answered_each_by_its_own_module() {
        let mut worker = worker();
        let constant = "package approval\noutput := {\"state\": \"rejected\"}";
        for (module, input, state) in [
            (STATE, json!({"state": "approved"}), "approved"),
            (constant, json!({}), "rejected"),
            (STATE, json!({"state": "pending"}), "pending"),
        ] {
            match answer(&mut worker, module, &input) {
                Reply::Answer { state: said, .. } => assert_eq!(said, state),
                other @ (Reply::Compiled { .. }
                | Reply::Sound(_)
                | Reply::Limit(_)
                | Reply::Failed(_)) => {
                    panic!("{other:?}")
                }
            }
        }
        let failed = answer(&mut worker, "package other", &json!({}));
        assert!(matches!(failed, Reply::Failed(_)), "{failed:?}");
        assert_eq!(worker.modules.len(), 3);
    }

    /// However little they differ: a module of another policy decides nothing here.
    #[test]
    fn modules_that_are_nearly_the_same_are_different_modules() {
        let long = "x".repeat(12_000);
        let ways = [
            format!("package approval\n# {long}\noutput := {{\"state\": \"STATE\"}}"),
            format!("package approval\noutput := {{\"state\": \"STATE\"}}\n# {long}"),
            "package approval\noutput := {\"message\": \"#\", \"state\": \"STATE\"}".to_owned(),
            "package approval\noutput := {\"message\": `#\n\n STATE`, \"state\": \"STATE\"}"
                .to_owned(),
            "package approval\noutput := {\"state\": split(\"a#STATE\", \"#\")[1]}".to_owned(),
        ];
        // Words, cases and spaces.
        let states = [
            "rejected",
            "approved",
            "Approved",
            " approved",
            "approved ",
            "rejected",
        ];
        let mut worker = worker();
        for way in ways {
            for state in states {
                let module = way.replace("STATE", state);
                let own = CheckModule::parse(&module, worker.limit).unwrap();
                let own = own.evaluate_json("{}", "{}").unwrap().state;
                match answer(&mut worker, &module, &json!({})) {
                    Reply::Answer { state: said, .. } => assert_eq!(said, own.as_str(), "{module}"),
                    other @ (Reply::Compiled { .. }
                    | Reply::Sound(_)
                    | Reply::Limit(_)
                    | Reply::Failed(_)) => {
                        panic!("{module}: {other:?}")
                    }
                }
            }
        }
        assert_eq!(worker.modules.len(), 25);
    }

    /// A change that means nothing here, such as a line end, means something elsewhere, such as behind a comment.
    #[test]
    fn every_change_of_a_letter_makes_another_module() {
        let module = "package approval\n# as it was\noutput := {\"state\": \"a  b\"}";
        let mut others = std::collections::BTreeSet::new();
        for (at, letter) in module.char_indices() {
            let (before, after) = module.split_at(at);
            let rest = &after[letter.len_utf8()..];
            for by in ["", " ", "\n", "\t", "#", "\r\n", "\u{a0}"] {
                others.insert(format!("{before}{by}{after}"));
                others.insert(format!("{before}{by}{rest}"));
            }
            others.insert(format!("{before}{}{rest}", letter.to_ascii_uppercase()));
        }
        others.remove(module);
        assert!(others.len() > 500);
        for other in &others {
            let mut worker = worker();
            for source in [module, other.as_str()] {
                let _ = worker.module(source);
            }
            assert_eq!(worker.modules.len(), 2, "{other}");
        }
    }

    /// Otherwise all jobs of a worker would share the time of one.
    #[test]
    fn each_job_is_allowed_its_time_when_it_begins() {
        let job = json!({"module": STATE, "asked": {"input": {"state": "a"}, "context": {}}});
        let job = frame::encode(&job).unwrap();
        let (mut output, mut allowed) = (Vec::new(), Vec::new());
        let mut worker = worker();
        let allow = |limit| {
            allowed.push(limit);
            Ok(())
        };
        worker
            .work(job.repeat(3).as_slice(), &mut output, allow)
            .unwrap();
        assert_eq!(allowed, [Duration::from_secs(5); 3]);
        let mut output = output.as_slice();
        let mut replies = 0;
        while frame::read(&mut output).unwrap().is_some() {
            replies += 1;
        }
        assert_eq!(replies, 3);
        // Without the permission there is no work.
        let refused = worker.work(job.as_slice(), Vec::new(), |_| {
            Err(io::ErrorKind::Other.into())
        });
        assert!(refused.is_err());
    }

    #[test]
    fn a_module_alone_is_sound_or_says_why_not() {
        let mut worker = worker();
        let look = |worker: &mut Worker, module: &str| {
            worker.answer(&JobIn {
                module: module.into(),
                asked: None,
                wants_program: true,
            })
        };
        for (module, reads_object) in [
            (STATE, true),
            (
                "package approval\noutput := {\"state\": \"approved\"}",
                false,
            ),
        ] {
            let sound = Reply::Sound(Sound { reads_object });
            assert_eq!(look(&mut worker, module), sound, "{module}");
        }
        for odd in [
            "",
            "package other",
            "package approval",
            "package approval\noutput := {\"state\": http.send({})}",
            "package approval\noutput := {",
        ] {
            let reply = look(&mut worker, odd);
            assert!(matches!(reply, Reply::Failed(_)), "{odd}: {reply:?}");
        }
    }

    /// A service that has it already needs no copy, and a module that needs the engine has none.
    #[test]
    fn the_program_of_a_module_comes_with_an_answer_when_it_is_wanted() {
        let mut worker = worker();
        let mut ask = |module: &str, state: &str, wants_program: bool| {
            let job = json!({
                "module": module, "asked": {"input": {"state": state}, "context": {}},
                "wants_program": wants_program,
            });
            worker.answer(&serde_json::from_str(&job.to_string()).unwrap())
        };
        let called = STATE.replace("input.state", "lower(input.state)");
        for (module, wants, comes) in [
            (STATE, true, true),
            (STATE, false, false),
            (STATE, true, true),
            (&*called, true, false),
        ] {
            let (reply, program) = ask(module, "approved", wants).take_program();
            let state = "approved".to_owned();
            let message = None;
            assert_eq!(reply, Reply::Answer { state, message }, "{module}");
            let own = CheckModule::parse(module, Duration::from_secs(5)).unwrap();
            assert_eq!(
                program.as_ref(),
                own.program().filter(|_| wants),
                "{module}"
            );
            assert_eq!(program.is_some(), comes, "{module}");
        }
        // A failure says nothing more than that.
        let failed = ask(STATE, &"x".repeat(64), true);
        assert!(matches!(failed, Reply::Failed(_)), "{failed:?}");
    }

    #[test]
    fn a_module_that_had_no_time_is_tried_again() {
        let mut worker = worker();
        let slow = "package approval\noutput := {\"state\": \"approved\"} { count([1 | numbers.range(1, 200)[_]; numbers.range(1, 200)[_]]) > 1 }";
        worker.limit = Duration::ZERO;
        let reply = answer(&mut worker, slow, &json!({}));
        assert!(matches!(reply, Reply::Limit(_)), "{reply:?}");
        worker.limit = Duration::from_secs(5);
        let reply = answer(&mut worker, slow, &json!({}));
        assert!(matches!(reply, Reply::Answer { .. }), "{reply:?}");
    }

    #[test]
    fn no_more_modules_are_kept_than_allowed() {
        let mut worker = worker();
        for number in 0..=MODULES {
            let module = format!("{STATE}\n# {number}");
            answer(&mut worker, &module, &json!({"state": ""}));
            assert!(worker.modules.len() <= MODULES);
        }
    }

    #[test]
    fn arguments_are_two_numbers() {
        let arguments = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let parse = |texts| {
            let arguments: Vec<String> = arguments(texts);
            parse(&arguments)
        };
        assert_eq!(parse(&["5", "7"]), Some((Duration::from_millis(5), 7)));
        for wrong in [&[][..], &["5"], &["5", "7", "9"], &["a", "7"], &["5", "-7"]] {
            assert_eq!(parse(wrong), None);
        }
    }
}
