//! What a worker does with jobs of every kind, and what it keeps of them.

use std::thread;

use super::*;

/// The replies to some contents of frames, one after another in one worker.
fn replies(worker: &mut Worker, contents: &[&[u8]]) -> Vec<Reply> {
    let mut input = Vec::new();
    for content in contents {
        input.extend(u32::try_from(content.len()).unwrap().to_be_bytes());
        input.extend(*content);
    }
    let mut output = Vec::new();
    worker
        .work(input.as_slice(), &mut output, |_| Ok(()))
        .unwrap();
    let mut output = output.as_slice();
    let mut replies = Vec::new();
    while let Some(reply) = frame::read(&mut output).unwrap() {
        replies.push(serde_json::from_slice(&reply).unwrap());
    }
    replies
}

fn answered(state: &str, message: Option<&str>) -> Reply {
    Reply::Answer {
        state: state.to_owned(),
        message: message.map(str::to_owned),
    }
}

/// It may hold a secret, and the job behind it is another one's.
#[test]
fn a_job_that_cannot_be_read_fails_without_its_content_and_the_next_one_is_done() {
    let good = json!({"module": STATE, "asked": {"input": {"state": "approved"}, "context": {}}});
    let good = good.to_string();
    let odd: [&[u8]; 12] = [
        b"",
        b"hunter2",
        b"null",
        b"{}",
        b"[]",
        br#"{"module":"hunter2""#,
        br#"{"module":7}"#,
        br#"{"module":"hunter2","hunter2":1}"#,
        br#"{"module":"hunter2","asked":{"input":"hunter2"}}"#,
        br#"{"module":"hunter2","asked":{"context":"hunter2"}}"#,
        br#"{"module":"hunter2","asked":{"input":1,"context":1,"hunter2":1}}"#,
        b"{\"module\":\"hunter2\xff\"}",
    ];
    let mut worker = worker();
    for odd in odd {
        let said = replies(&mut worker, &[odd, good.as_bytes(), odd]);
        let failed = Reply::Failed("the job cannot be read".to_owned());
        let [first, second, third] = &said[..] else {
            panic!("{said:?}");
        };
        assert_eq!((first, third), (&failed, &failed));
        assert_eq!(*second, answered("approved", None));
    }
    assert_eq!(worker.modules.len(), 1);
}

#[test]
fn the_object_and_its_context_are_told_apart_and_forgotten_with_their_job() {
    let both =
        "package approval\noutput := {\"state\": input.name, \"message\": data.context.name}";
    let mut worker = worker();
    let job = |input: &serde_json::Value, context: &serde_json::Value| {
        json!({"module": both, "asked": {"input": input, "context": context}}).to_string()
    };
    let full = job(&json!({"name": "object"}), &json!({"name": "pod"}));
    let empty = job(&json!({}), &json!({}));
    let other = job(&json!({"name": "o"}), &json!({"name": "p"}));
    let said = replies(
        &mut worker,
        &[
            full.as_bytes(),
            empty.as_bytes(),
            other.as_bytes(),
            full.as_bytes(),
        ],
    );
    assert_eq!(said[0], answered("object", Some("pod")));
    assert!(matches!(said[1], Reply::Failed(_)), "{said:?}");
    assert_eq!(said[2], answered("o", Some("p")));
    assert_eq!(said[3], said[0]);
    assert_eq!(said.len(), 4);
}

#[test]
fn a_message_is_kept_as_it_is_and_absent_where_the_module_says_none() {
    let mut worker = worker();
    for (output, message) in [
        ("{\"state\": \"pending\"}", None),
        ("{\"state\": \"pending\", \"message\": \"\"}", Some("")),
        ("{\"state\": \"pending\", \"message\": \"ä\"}", Some("ä")),
    ] {
        let module = format!("package approval\noutput := {output}");
        let said = answer(&mut worker, &module, &json!({}));
        assert_eq!(said, answered("pending", message));
    }
}

/// The lack of time is a matter of one object. The module is still known, and answers about others.
#[test]
fn an_object_for_which_the_time_is_too_short_exceeds_a_limit_alone() {
    let slow = "package approval\nn := numbers.range(1, input.n)\n\
        output := {\"state\": \"approved\"} { count([1 | n[_]; n[_]; n[_]]) > 0 }";
    let mut worker = worker();
    let said = answer(&mut worker, slow, &json!({"n": 1}));
    assert_eq!(said, answered("approved", None));
    // The time belongs to the module from when it was parsed.
    worker.modules.clear();
    worker.limit = Duration::from_millis(200);
    let said = answer(&mut worker, slow, &json!({"n": 5000}));
    let expected = Reply::Limit("took longer than allowed".to_owned());
    assert_eq!(said, expected);
    let said = answer(&mut worker, slow, &json!({"n": 1}));
    assert_eq!(said, answered("approved", None));
    assert_eq!(worker.modules.len(), 1);
}

/// The reason why a module is none is told each time, and never that of another one.
#[test]
fn the_error_of_a_module_is_its_own() {
    let odd = [
        "",
        "package other",
        "package approval",
        "package approval\noutput := {",
    ];
    let mut worker = worker();
    for _ in 0..2 {
        for module in odd {
            let why = CheckModule::parse(module, worker.limit).unwrap_err();
            let said = answer(&mut worker, module, &json!({}));
            assert_eq!(said, Reply::Failed(why.to_string()), "{module}");
        }
        assert_eq!(worker.modules.len(), odd.len());
    }
}

#[test]
fn what_is_kept_is_dropped_for_a_new_module_alone() {
    let mut worker = worker();
    let module = |number: usize| {
        // Half of them are no modules at all.
        let odd = if number.is_multiple_of(2) { "" } else { "{" };
        format!("{STATE}\n# {number}\n{odd}")
    };
    for number in 0..MODULES {
        answer(&mut worker, &module(number), &json!({"state": ""}));
        assert_eq!(worker.modules.len(), number + 1);
    }
    for number in 0..MODULES {
        answer(&mut worker, &module(number), &json!({"state": ""}));
        assert_eq!(worker.modules.len(), MODULES);
    }
    let said = answer(&mut worker, &module(MODULES), &json!({"state": "passed"}));
    assert_eq!(said, answered("passed", None));
    assert!(worker.modules.len() <= MODULES);
    let said = answer(&mut worker, &module(0), &json!({"state": "pending"}));
    assert_eq!(said, answered("pending", None));
}

/// The limit is one of the whole process, so what the jobs before used must not count.
#[test]
fn the_processor_time_of_a_job_counts_from_its_beginning() {
    let used = || u64::try_from(clock_gettime(ClockId::ProcessCPUTime).tv_sec).unwrap();
    let burn = || {
        let mut digest = [0; 32];
        while used() < 1 {
            digest = Sha256::digest(digest).into();
        }
        digest
    };
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(burn);
        }
    });
    let of_before = getrlimit(Resource::Cpu).maximum;
    for (limit, seconds) in [
        (Duration::from_hours(1), 3_600),
        (Duration::from_millis(4_000_999), 4_000),
    ] {
        let before = used();
        allow_time(limit).unwrap();
        let Rlimit { current, maximum } = getrlimit(Resource::Cpu);
        let due = before + seconds + 2..=used() + seconds + 2;
        let current = current.unwrap();
        assert!(due.contains(&current), "{current} {due:?}");
        // A lower one could not be raised again for the next job.
        assert_eq!(maximum, of_before);
    }
}
