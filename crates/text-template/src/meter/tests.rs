#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

use super::*;

fn limited(change: impl FnOnce(&mut TemplateLimits)) -> Meter {
    let mut limits = TemplateLimits::default();
    change(&mut limits);
    Meter::new(&limits)
}

#[test]
fn a_limit_may_be_reached_and_not_exceeded() {
    let meter = limited(|it| it.steps = 10);
    assert_eq!(meter.steps(10), Ok(()));
    assert_eq!(meter.steps(1), Err(TemplateLimit::Steps(10)));

    let meter = limited(|it| it.value = 10);
    assert_eq!(meter.room(10), Ok(()));
    assert_eq!(meter.room(11), Err(TemplateLimit::Value(10)));

    let meter = limited(|it| it.memory = 10);
    assert_eq!(meter.room(4), Ok(()));
    assert_eq!(meter.room(6), Ok(()));
    assert_eq!(meter.room(1), Err(TemplateLimit::Memory(10)));

    let meter = limited(|it| it.depth = 10);
    assert_eq!(meter.depth(10), Ok(()));
    for deeper in [11, 12] {
        assert_eq!(meter.depth(deeper), Err(TemplateLimit::Depth(10)));
    }
}

/// What is refused is not held, so that less may be held after it.
#[test]
fn memory_is_held_up_to_the_limit_until_it_is_given_back() {
    let meter = limited(|it| it.memory = 10);
    assert_eq!(meter.hold(4), Ok(()));
    assert_eq!(meter.hold(7), Err(TemplateLimit::Memory(10)));
    assert_eq!(meter.hold(6), Ok(()));
    assert_eq!(meter.hold(1), Err(TemplateLimit::Memory(10)));
    meter.give_back(6);
    assert_eq!(meter.hold(6), Ok(()));
}

/// The dictionary as a whole is one value, the entry with its key is what is added to all values.
#[test]
fn an_entry_counts_with_its_key_and_with_those_before_it() {
    let dict = |entries: usize| Dict {
        of_texts: false,
        entries: Rc::new(RefCell::new(
            (0..entries)
                .map(|it| (it.to_string().into(), Value::Nil))
                .collect(),
        )),
    };
    let meter = limited(|it| it.value = 3 * ENTRY);
    assert_eq!(meter.entry(&dict(2), "seven b"), Ok(()));
    assert_eq!(meter.bytes.get(), ENTRY + 7);
    for entries in [3, 4] {
        let beyond = Err(TemplateLimit::Value(3 * ENTRY));
        assert_eq!(meter.entry(&dict(entries), ""), beyond);
    }
    assert_eq!(meter.bytes.get(), ENTRY + 7);
}

#[test]
fn a_written_text_is_as_long_as_its_limit_and_no_longer() {
    let meter = limited(|it| {
        it.output = 4;
        it.value = 5;
    });
    for (is_output, most) in [(true, 4), (false, 5)] {
        let room_for_two = || {
            let mut sink = if is_output {
                MeteredOutput::output(&meter)
            } else {
                MeteredOutput::value(&meter)
            };
            sink.push(&"x".repeat(most - 2)).unwrap();
            sink
        };
        let beyond = if is_output {
            Err(TemplateLimit::Output(most))
        } else {
            Err(TemplateLimit::Value(most))
        };
        let mut sink = room_for_two();
        assert_eq!(sink.push_char('é'), Ok(()));
        assert_eq!(sink.push_char('x'), beyond);
        assert_eq!(sink.push("x"), beyond);
        assert_eq!(sink.pad('x', 1), beyond);
        assert_eq!(sink.text.len(), most);
        let mut sink = room_for_two();
        assert_eq!(sink.push("xyz"), beyond);
        assert_eq!(sink.push("xy"), Ok(()));
        let mut sink = room_for_two();
        assert_eq!(sink.pad('é', 2), beyond);
        assert_eq!(sink.pad('é', 1), Ok(()));
    }

    // A character that is longer than the whole limit.
    let meter = limited(|it| it.value = 1);
    let mut sink = MeteredOutput::value(&meter);
    assert_eq!(sink.push_char('é'), Err(TemplateLimit::Value(1)));
    assert_eq!(sink.push_char('e'), Ok(()));
}
