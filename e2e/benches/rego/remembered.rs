//! How long a verdict takes that was found before: as the service finds it again, inside its process.
//!
//! The median of many batches, in the time of this thread alone.

use std::hint::black_box;
use std::sync::Arc;

use connectors_api::check_state::ObjectState;
use connectors_api::judge::{self, NeededParts, RegoAnswer};
use evaluation_api::judgement;
use evaluation_api::v1::{CheckVerdict, EvaluateChecksRequest};
use evaluation_service::evaluate::answer_cache::AnswerCache;
use evaluation_service::evaluate::policies::ParsedPolicies;
use evaluation_service::evaluate::read;

use crate::check::Check;
use crate::clock::Clock;
use crate::support::table::Table;

/// Questions that are asked again in turn.
const QUESTIONS: usize = 64;
/// Batches of a figure, and how often each question is asked in one.
const BATCHES: usize = 31;
const TIMES: usize = 50;

pub(crate) fn rows(table: &mut Table, check: &Check) {
    let remembered = AnswerCache::default();
    let questions = || (0..QUESTIONS).map(|number| Arc::new(asked(check, number)));
    for asked in questions() {
        let policy = ParsedPolicies::default().find(&asked.policy).unwrap();
        let namespace = policy.namespace();
        let question = read(&asked, &NeededParts::ALL)
            .unwrap()
            .about(policy.read(&asked.policy).unwrap());
        let prepared = judge::prepare(question).unwrap();
        // The answer of the module. It is not measured here.
        let answers: Vec<_> = prepared.rego_jobs().map(|job| says(job.input)).collect();
        let answer = judgement::to_wire(prepared.finish(answers.into_iter().map(Ok)));
        assert_ne!(answer.verdict(), CheckVerdict::Failed, "{answer:?}");
        let key = remembered.key(&asked).unwrap();
        remembered.remember(key, namespace, answer);
    }
    // Copies, as the next call brings them.
    let again: Vec<_> = questions().collect();
    let bytes = length(&again[0]);
    let found = |asked| {
        let key = remembered.key(black_box(asked)).unwrap();
        remembered.recall(&key).unwrap()
    };
    let recall = || {
        for asked in &again {
            black_box(found(asked));
        }
    };
    let what = format!("the verdict on a question that was asked before, of {bytes} bytes");
    table.at_most(&what, nanoseconds(recall), "ns", 500.0, 150.0);
    let copy = || {
        for asked in &again {
            black_box(found(asked).answer.clone());
        }
    };
    table.figure(
        &format!("{what}, and a copy of its reasons and rules"),
        nanoseconds(copy),
        "ns",
    );
}

fn asked(check: &Check, number: usize) -> EvaluateChecksRequest {
    let object = check.object(number).to_string();
    check.question(number, object.as_bytes())
}

fn length(asked: &EvaluateChecksRequest) -> usize {
    let objects = asked.candidates.iter().flat_map(|found| &found.objects);
    asked.policy.len() + asked.context_object.len() + objects.map(Vec::len).sum::<usize>()
}

fn says(object: &serde_json::Value) -> RegoAnswer {
    let state = ObjectState::of(object).unwrap();
    let message = None;
    RegoAnswer { state, message }
}

/// The time for one question, of batches that ask all of them.
fn nanoseconds(batch: impl Fn()) -> f64 {
    let mut times: Vec<f64> = (0..BATCHES)
        .map(|_| {
            let clock = Clock::start();
            (0..TIMES).for_each(|_| batch());
            clock.elapsed().as_nanos() as f64 / (TIMES * QUESTIONS) as f64
        })
        .collect();
    times.sort_unstable_by(f64::total_cmp);
    times[BATCHES / 2]
}
