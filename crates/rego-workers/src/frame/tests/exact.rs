//! Only a reply in the exact form is one, and only a job in the exact form is done.

use serde_json::json;

use super::*;

type Both = (Result<RegoAnswer, RegoFailure>, Result<Sound, RegoFailure>);

fn reply(content: &[u8]) -> Option<Reply> {
    serde_json::from_slice(content).ok()
}

fn failed<T>(why: &str) -> Result<T, RegoFailure> {
    Err(RegoFailure::Failed(why.to_owned()))
}

#[test]
fn each_reply_answers_one_kind_of_job_and_is_a_failure_for_the_other() {
    let sound = |reads_object| Reply::Sound(Sound { reads_object });
    let answer = |message: Option<&str>| Reply::Answer {
        state: "approved".to_owned(),
        message: message.map(str::to_owned),
    };
    let state = ObjectState::from_word("approved").unwrap();
    let answered = |message: Option<&str>| {
        Ok(RegoAnswer {
            state: state.clone(),
            message: message.map(str::to_owned),
        })
    };
    let text = str::to_owned;
    let limit = || RegoFailure::Limit(text("l"));
    let cases: [(fn() -> Reply, Both); 4] = [
        (
            || Reply::Limit("l".to_owned()),
            (Err(limit()), Err(limit())),
        ),
        (|| Reply::Failed("f".to_owned()), (failed("f"), failed("f"))),
        (
            || Reply::Sound(Sound { reads_object: true }),
            (
                failed("there is no answer"),
                Ok(Sound { reads_object: true }),
            ),
        ),
        (
            || {
                Reply::Sound(Sound {
                    reads_object: false,
                })
            },
            (
                failed("there is no answer"),
                Ok(Sound {
                    reads_object: false,
                }),
            ),
        ),
    ];
    for (reply, (to_a_question, to_a_module)) in cases {
        assert_eq!(Result::<RegoAnswer, _>::from(reply()), to_a_question);
        assert_eq!(Result::<Sound, _>::from(reply()), to_a_module);
    }
    for message in [None, Some(""), Some("why")] {
        assert_eq!(
            Result::<RegoAnswer, _>::from(answer(message)),
            answered(message)
        );
        let said = Result::<Sound, _>::from(answer(message));
        assert_eq!(said, failed("nothing was asked"));
    }
    assert_ne!(sound(true), sound(false));
}

#[test]
fn a_state_is_as_long_in_bytes_as_a_status_can_show() {
    for (word, fits) in [
        ("x".repeat(63), true),
        ("x".repeat(64), false),
        ("ä".repeat(31), true),
        // Fewer letters than the limit, and more bytes.
        ("ä".repeat(32), false),
    ] {
        let reply = Reply::Answer {
            state: word.clone(),
            message: None,
        };
        let answer = Result::<RegoAnswer, _>::from(reply);
        if fits {
            assert_eq!(answer.unwrap().state.as_str(), word);
        } else {
            assert_eq!(answer, failed("the state is too long"), "{word}");
        }
    }
}

#[test]
fn every_reply_comes_back_as_it_was_sent() {
    let text = str::to_owned;
    for sent in [
        Reply::Sound(Sound { reads_object: true }),
        Reply::Sound(Sound {
            reads_object: false,
        }),
        Reply::Limit(text("l\n\"\\")),
        Reply::Failed(text("ä\u{0}")),
        Reply::Answer {
            state: text("PASSED"),
            message: Some(text("{\"answer\":1}")),
        },
        Reply::Answer {
            state: text(""),
            message: None,
        },
    ] {
        let frame = encode(&sent).unwrap();
        let content = read(&mut frame.as_slice()).unwrap().unwrap();
        assert_eq!(content.len(), frame.len() - HEAD);
        assert_eq!(reply(&content), Some(sent));
    }
}

#[test]
fn what_is_nearly_a_reply_is_none() {
    assert!(reply(br#"{"answer":{"state":"passed","message":null}}"#).is_some());
    for odd in [
        &b""[..],
        b"null",
        b"{}",
        b"\"passed\"",
        b"\"answer\"",
        br#"{"state":"passed","message":null}"#,
        br#"{"Answer":{"state":"passed","message":null}}"#,
        br#"{"answer":{"message":null}}"#,
        br#"{"answer":{"state":null,"message":null}}"#,
        br#"{"answer":{"state":true,"message":null}}"#,
        br#"{"answer":{"state":["passed"],"message":null}}"#,
        br#"{"answer":{"state":"passed","message":1}}"#,
        br#"{"answer":{"state":"passed","message":null,"more":1}}"#,
        br#"{"answer":{"state":"passed","state":"passed","message":null}}"#,
        br#"{"answer":{"state":"passed","message":null},"failed":"f"}"#,
        br#"{"answer":{"state":"passed","message":null}}{}"#,
        br#"{"answer":{"state":"passed","message":null}"#,
        b"{\"answer\":{\"state\":\"\xff\",\"message\":null}}",
        br#"{"sound":{}}"#,
        br#"{"sound":{"readsObject":null}}"#,
        br#"{"sound":{"readsObject":"true"}}"#,
        br#"{"sound":{"readsObject":true,"state":"passed"}}"#,
        br#"{"limit":null}"#,
        br#"{"failed":{"state":"passed"}}"#,
    ] {
        let said = reply(odd);
        assert_eq!(said, None, "{}", String::from_utf8_lossy(odd));
    }
}

#[test]
fn a_job_arrives_with_its_object_and_its_context_each_in_its_place() {
    let objects = [
        Value::Null,
        json!({}),
        json!([]),
        json!("text"),
        json!({"state": "approved", "n": 1.5, "ä": [null, true, {"deep": "\n\"\\\u{1f600}"}]}),
    ];
    for module in ["", "package approval\n# ä\t\"quoted\"\\\u{0}"] {
        for input in &objects {
            for context in &objects {
                let job = RegoJob {
                    module,
                    input,
                    context,
                };
                let frame = encode(&JobOut::from(job)).unwrap();
                let content = read(&mut frame.as_slice()).unwrap().unwrap();
                let job: JobIn<'_> = serde_json::from_slice(&content).unwrap();
                assert_eq!(job.module, module);
                // A question about nothing is still a question.
                let asked = job.asked.unwrap();
                let value = |raw: &RawValue| serde_json::from_str::<Value>(raw.get()).unwrap();
                assert_eq!(value(asked.input), *input);
                assert_eq!(value(asked.context), *context);
            }
        }
        let frame = encode(&JobOut::of_module(module)).unwrap();
        let content = read(&mut frame.as_slice()).unwrap().unwrap();
        let job: JobIn<'_> = serde_json::from_slice(&content).unwrap();
        assert!(job.module == module && job.asked.is_none());
    }
}

/// A pipe that gives and takes one byte at a time.
#[derive(Default)]
struct Slow {
    bytes: Vec<u8>,
    at: usize,
    flushed: usize,
}

impl Read for Slow {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let rest = self.bytes.get(self.at..).unwrap_or_default();
        let length = rest.len().min(buffer.len()).min(1);
        buffer[..length].copy_from_slice(&rest[..length]);
        self.at += length;
        Ok(length)
    }
}

impl Write for Slow {
    fn write(&mut self, piece: &[u8]) -> io::Result<usize> {
        let length = piece.len().min(1);
        self.bytes.extend(&piece[..length]);
        Ok(length)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.flushed = self.bytes.len();
        Ok(())
    }
}

#[test]
fn frames_are_whole_however_the_pipe_divides_them() {
    let frames = ["a", "", "longer than the one before it"]
        .map(|why| encode(&Reply::Failed(why.to_owned())).unwrap());
    let mut pipe = Slow::default();
    for frame in &frames {
        write(&mut pipe, frame).unwrap();
        assert_eq!(pipe.flushed, pipe.bytes.len());
    }
    assert_eq!(pipe.bytes, frames.concat());
    for frame in &frames {
        let content = read(&mut pipe).unwrap().unwrap();
        assert_eq!(content, frame[HEAD..]);
    }
    assert_eq!(read(&mut pipe).unwrap(), None);
}

#[test]
fn a_pipe_that_ends_within_a_frame_has_an_error_and_before_one_an_end() {
    let whole = encode(&Reply::Failed("why".to_owned())).unwrap();
    for length in 0..whole.len() {
        let end = read(&mut &whole[..length]);
        if length < HEAD {
            assert_eq!(end.unwrap(), None, "{length}");
        } else {
            assert!(end.is_err(), "{length}");
        }
    }
    for (head, expected) in [
        ([0, 0, 0, 0], 0),
        ([0, 0, 0, 7], 7),
        ([0, 0, 1, 0], 256),
        ([1, 0, 0, 2], 16_777_218),
        ([255, 255, 255, 255], 4_294_967_295),
    ] {
        assert_eq!(length(head), Some(expected));
    }
}

/// Neither a program beyond its bounds nor one of another form is read, so that none can run.
#[test]
fn a_reply_with_an_odd_program_is_none() {
    let with = |rules: serde_json::Value, more: &str| {
        let body = json!({"state": "approved", "message": null, "program": rules});
        let mut reply = json!({"compiled": body});
        if !more.is_empty() {
            reply["compiled"][more] = json!(1);
        }
        reply.to_string().into_bytes()
    };
    let rules = |fields: usize| {
        let output = json!({"state": {"path": vec!["a"; fields]}, "message": null});
        json!({"rules": [[{"steps": [], "output": output}]], "default": null})
    };
    let good = reply(&with(rules(2), "")).unwrap();
    let (answer, program) = good.take_program();
    assert!(program.is_some());
    assert_eq!(
        answer,
        Reply::Answer {
            state: "approved".to_owned(),
            message: None
        }
    );
    for odd in [
        with(rules(0), ""),
        with(rules(1000), ""),
        with(json!(null), ""),
        with(json!({"default": null}), ""),
        with(rules(2), "more"),
    ] {
        assert_eq!(reply(&odd), None);
    }
}
