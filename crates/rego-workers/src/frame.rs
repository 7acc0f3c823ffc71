//! The frames in the pipes between service and worker: a length, then JSON.

use std::borrow::Cow;
use std::io::{self, Read, Write};

use connectors_api::check_state::ObjectState;
use connectors_api::judge::{RegoAnswer, RegoFailure, RegoJob};
use connectors_api::rego::NativeProgram;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;

/// The bytes of the length.
pub(super) const HEAD: usize = 4;

/// A job as the service sends it.
#[derive(Clone, Copy, Serialize)]
pub(super) struct JobOut<'a> {
    pub(super) module: &'a str,
    /// The object and its context. None when the worker only checks the module.
    asked: Option<AskedOut<'a>>,
    /// The service has no program of the module.
    pub(super) wants_program: bool,
}

#[derive(Clone, Copy, Serialize)]
struct AskedOut<'a> {
    input: &'a Value,
    context: &'a Value,
}

/// A job as the worker receives it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct JobIn<'a> {
    #[serde(borrow)]
    pub(super) module: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) asked: Option<AskedIn<'a>>,
    #[serde(default)]
    pub(super) wants_program: bool,
}

/// The object and its context as the worker receives them. The module decides which of it is read.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskedIn<'a> {
    #[serde(borrow)]
    pub(super) input: &'a RawValue,
    #[serde(borrow)]
    pub(super) context: &'a RawValue,
}

/// A module that could decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Sound {
    /// It reads the object.
    pub reads_object: bool,
}

/// The answer to a job.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) enum Reply {
    /// The module answered.
    Answer {
        state: String,
        message: Option<String>,
    },
    /// The module answered, and this is all that it says.
    Compiled {
        state: String,
        message: Option<String>,
        program: NativeProgram,
    },
    /// The module could decide, and no object was sent.
    Sound(Sound),
    /// The module exceeded the time that the worker allows.
    Limit(String),
    /// The module gives no answer.
    Failed(String),
}

impl<'a> From<RegoJob<'a>> for JobOut<'a> {
    fn from(job: RegoJob<'a>) -> Self {
        let RegoJob {
            module,
            input,
            context,
        } = job;
        Self {
            module,
            asked: Some(AskedOut { input, context }),
            wants_program: false,
        }
    }
}

impl<'a> JobOut<'a> {
    /// A job that only checks the module.
    pub(super) const fn of_module(module: &'a str) -> Self {
        Self {
            module,
            asked: None,
            wants_program: false,
        }
    }

    /// The same job, with the module's program if it has one.
    pub(super) const fn with_program(self) -> Self {
        Self {
            wants_program: true,
            ..self
        }
    }
}

impl Reply {
    /// The program of the module, if it was sent.
    pub(super) fn take_program(self) -> (Self, Option<NativeProgram>) {
        match self {
            Self::Compiled {
                state,
                message,
                program,
            } => (Self::Answer { state, message }, Some(program)),
            other @ (Self::Answer { .. } | Self::Sound(_) | Self::Limit(_) | Self::Failed(_)) => {
                (other, None)
            }
        }
    }
}

impl From<Reply> for Result<RegoAnswer, RegoFailure> {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Answer { state, message } | Reply::Compiled { state, message, .. } => {
                let state = ObjectState::from_word(&state);
                let too_long = || RegoFailure::Failed("the state is too long".to_owned());
                let state = state.ok_or_else(too_long)?;
                Ok(RegoAnswer { state, message })
            }
            Reply::Sound(_) => Err(RegoFailure::Failed("there is no answer".to_owned())),
            Reply::Limit(why) => Err(RegoFailure::Limit(why)),
            Reply::Failed(why) => Err(RegoFailure::Failed(why)),
        }
    }
}

impl From<Reply> for Result<Sound, RegoFailure> {
    fn from(reply: Reply) -> Self {
        match reply {
            Reply::Sound(sound) => Ok(sound),
            Reply::Answer { .. } | Reply::Compiled { .. } => {
                Err(RegoFailure::Failed("nothing was asked".to_owned()))
            }
            Reply::Limit(why) => Err(RegoFailure::Limit(why)),
            Reply::Failed(why) => Err(RegoFailure::Failed(why)),
        }
    }
}

/// The length and the content in one buffer. None when the content is too long for a length.
pub(super) fn encode<T: Serialize>(message: &T) -> Option<Vec<u8>> {
    let mut frame = vec![0; HEAD];
    serde_json::to_writer(&mut frame, message).ok()?;
    let length = u32::try_from(frame.len() - HEAD).ok()?;
    frame
        .get_mut(..HEAD)?
        .copy_from_slice(&length.to_be_bytes());
    Some(frame)
}

/// The length at the beginning of a frame.
pub(super) fn length(head: [u8; HEAD]) -> Option<usize> {
    usize::try_from(u32::from_be_bytes(head)).ok()
}

/// The next frame. None at the end of the input.
pub(super) fn read(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; HEAD];
    match from.read_exact(&mut head) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
        Err(error) => return Err(error),
    }
    let length = length(head).ok_or(io::ErrorKind::InvalidData)?;
    let mut content = vec![0; length];
    from.read_exact(&mut content)?;
    Ok(Some(content))
}

/// Writes a frame at once.
pub(super) fn write(to: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    to.write_all(frame)?;
    to.flush()
}

#[cfg(test)]
mod tests {
    use super::*;

    mod exact;

    #[test]
    fn frames_come_back_one_by_one() {
        let mut pipe = Vec::new();
        for reply in [
            Reply::Failed("a".to_owned()),
            Reply::Answer {
                state: "approved".to_owned(),
                message: None,
            },
        ] {
            write(&mut pipe, &encode(&reply).unwrap()).unwrap();
        }
        let mut pipe = pipe.as_slice();
        let first = read(&mut pipe).unwrap().unwrap();
        assert_eq!(
            serde_json::from_slice::<Reply>(&first).unwrap(),
            Reply::Failed("a".to_owned())
        );
        assert!(read(&mut pipe).unwrap().is_some());
        assert!(read(&mut pipe).unwrap().is_none());
    }

    /// A job is one of several objects of the API server, each of which may have 1.5 MiB, and a module.
    #[test]
    fn a_job_may_be_as_long_as_any_question_to_the_service() {
        for length in [
            0,
            1,
            1 << 16,
            1 << 20,
            (1 << 20) * 3 / 2 + 1,
            3 << 20,
            9 << 20,
        ] {
            let module = "m".repeat(length);
            let frame = encode(&JobOut::of_module(&module)).unwrap();
            let content = read(&mut frame.as_slice()).unwrap().unwrap();
            let job: JobIn<'_> = serde_json::from_slice(&content).unwrap();
            assert_eq!(job.module.len(), length);
        }
    }

    #[test]
    fn half_a_frame_is_an_error() {
        let frame = encode(&Reply::Limit(String::new())).unwrap();
        assert!(read(&mut &frame[..frame.len() - 1]).is_err());
        assert!(read(&mut &frame[..2]).unwrap().is_none());
    }

    #[test]
    fn a_pipe_that_cannot_be_read_has_not_ended() {
        // A directory can be opened, and never read.
        let mut pipe = std::fs::File::open("/").unwrap();
        assert!(read(&mut pipe).is_err());
    }

    #[test]
    fn a_state_is_the_word_of_the_reply_letter_by_letter() {
        for word in [
            "approved", "Approved", "PASSED", "passed", "passed ", "", "rejected", "Rejected",
        ] {
            let reply = Reply::Answer {
                state: word.to_owned(),
                message: None,
            };
            let answer: Result<RegoAnswer, RegoFailure> = reply.into();
            let expected = ObjectState::from_word(word).unwrap();
            assert_eq!(answer.unwrap().state, expected, "{word:?}");
        }
    }

    #[test]
    fn a_reply_that_is_no_state_is_a_failure() {
        let reply = Reply::Answer {
            state: "x".repeat(64),
            message: None,
        };
        let answer: Result<RegoAnswer, RegoFailure> = reply.into();
        assert!(matches!(answer, Err(RegoFailure::Failed(_))));
    }
}
