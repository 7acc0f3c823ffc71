//! Random reviews against a reference that is written from the documents and shares no decision with the webhook.
//!
//! A seed makes a world (pods, rights, stored objects, how the API server feels) and reviews as the API server sends them.
//! They go through the HTTP handler. The reference says whether each passes, what it becomes, why it is refused, and what
//! it is warned of. Besides, whatever the seed:
//!
//! - two worlds that differ only in what the author may not see give the same answer, after the same questions;
//! - each question about a right is about the whole author: name, UID, groups and extra;
//! - nothing is remembered: in a world that has changed the same reviews get the answers of that world;
//! - reviews that are answered at once are answered as one by one.
//!
//! `ORACLE_SEEDS` is how many seeds are tried, `ORACLE_SEED` tries one:
//! `ORACLE_SEED=7 cargo test -p webhook --all-features oracle`

mod answer;
mod dice;
mod generate;
mod hang_ups;
mod reference;
mod server;
mod world;

use std::{collections::BTreeSet, env, net::Ipv4Addr};

use evaluation_api::v1::Finding;
use http::Request;
use http_body_util::{BodyExt, Full};
use hyper::body::Bytes;
use prometheus::Registry;
use serde_json::{Value, json};
use tokio::{runtime::Builder, time::Instant};

use crate::{
    admission::Admission, evaluator::Evaluator, metrics::Metrics, peer_quota::PeerLimits,
    server::Handler,
};
use answer::Answer;
use dice::Dice;
use generate::{Case, PLUGIN};
use reference::{Expected, Why};
use server::{Asked, Server};
use world::{Mood, Target, World};

/// As many by default.
const SEEDS: u64 = 300;
/// Reviews of one world.
const CASES: usize = 12;

/// The webhook in front of an API server.
struct Webhook {
    handler: Handler,
    server: Server,
}

impl Webhook {
    fn of(world: World, rego: Option<Vec<Finding>>) -> Self {
        let server = Server::of(world);
        let metrics = Metrics::register(&Registry::new()).unwrap();
        let limits = PeerLimits::new(metrics.peers);
        let admission = Admission::new(
            server.client(),
            "connectors-system",
            PLUGIN.to_owned(),
            Evaluator::Fake(rego),
            &limits,
        );
        let handler = Handler::new(admission, metrics.reviews, limits);
        Self { handler, server }
    }

    async fn ask(&self, case: &Case) -> Answer {
        let start = Instant::now();
        let body = Full::new(Bytes::from(case.review.to_string()));
        let request = Request::post(case.page)
            .header("content-type", "application/json")
            .body(body)
            .unwrap();
        let peer = Ipv4Addr::new(10, 0, 0, 1).into();
        let response = self.handler.answer(peer, request).await;
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        Answer {
            status,
            body: serde_json::from_slice(&body).unwrap_or_default(),
            took: start.elapsed(),
        }
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

fn seeds(share: u64) -> impl Iterator<Item = u64> {
    let one = number("ORACLE_SEED");
    let first = one.unwrap_or(0);
    let count = one.map_or_else(|| number("ORACLE_SEEDS").unwrap_or(SEEDS) / share, |_| 1);
    first..first + count
}

/// Runs a test for each seed, or for one part in so many of them, in virtual time.
fn for_each_seed<F: Future<Output = Result<(), String>>>(share: u64, test: impl Fn(u64) -> F) {
    for seed in seeds(share) {
        let runtime = Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .unwrap();
        if let Err(complaint) = runtime.block_on(test(seed)) {
            panic!("ORACLE_SEED={seed}: {complaint}");
        }
    }
}

/// A world with reviews in it, from a seed.
fn scene(seed: u64) -> (World, Vec<Case>, Option<Vec<Finding>>) {
    let mut dice = Dice::of(seed);
    let mut world = generate::world(&mut dice);
    let cases = (0..CASES).map(|_| generate::case(&mut dice, &mut world));
    let cases = cases.collect();
    (world, cases, generate::evaluator(&mut dice))
}

fn told(case: &Case, expected: &Expected, answer: &Answer, complaint: &str) -> String {
    format!(
        "{complaint}\nexpected: {}\nanswer: {}\nafter {:?}\nflaws: {:?}\n{} of {}",
        expected.told(),
        answer.body,
        answer.took,
        case.flaws,
        case.review,
        case.page
    )
}

/// Asks and compares; a request that was filled in goes on to the validation, as it is then.
async fn compare(
    webhook: &Webhook,
    world: &World,
    rego: Option<&[Finding]>,
    case: &Case,
) -> Result<(), String> {
    let mut case = case.clone();
    loop {
        let expected = reference::expected(world, rego, &case);
        webhook.server.asked();
        let answer = webhook.ask(&case).await;
        if let Some(complaint) = answer.complaint(&case, &expected) {
            return Err(told(&case, &expected, &answer, &complaint));
        }
        for Asked(line, _, body) in webhook.server.asked() {
            if line.starts_with("POST ") {
                about_the_whole_author(&case, &body)?;
            }
        }
        if case.page != "/mutate/accessrequests" || !answer.is_allowed() {
            return Ok(());
        }
        let object = &mut case.review["request"]["object"];
        *object = answer.patched(object);
        case.page = "/validate/accessrequests";
    }
}

fn about_the_whole_author(case: &Case, body: &str) -> Result<(), String> {
    let review: Value = serde_json::from_str(body).unwrap();
    let (asked, user) = (&review["spec"], &case.review["request"]["userInfo"]);
    let is_whole = asked["user"] == user["username"]
        && asked["uid"] == user["uid"]
        && asked["groups"] == user["groups"]
        && asked["extra"] == user["extra"];
    if is_whole {
        return Ok(());
    }
    Err(format!("{user} was asked about as {asked}"))
}

/// A reason that is never expected is never judged.
#[test]
fn the_seeds_meet_each_reason_and_let_reviews_of_each_page_pass() {
    let (mut met, mut passed, mut warned) = (BTreeSet::new(), BTreeSet::new(), 0);
    for seed in 0..SEEDS {
        let (world, cases, rego) = scene(seed);
        for case in &cases {
            match reference::expected(&world, rego.as_deref(), case) {
                Expected::Refused(why) | Expected::RefusedForSome(why) => met.extend(why),
                Expected::Passes { warned: words, .. } => {
                    passed.insert((case.page, case.review["request"]["operation"].to_string()));
                    warned += words.with.len();
                }
            }
        }
    }
    assert_eq!(met, Why::all());
    // Each page with creations, changes and deletions.
    assert!(passed.len() >= 4 * 3, "{passed:?}");
    assert!(warned >= 50, "{warned}");
}

#[test]
fn every_review_gets_the_answer_of_the_documents() {
    for_each_seed(1, async |seed| {
        let (world, cases, rego) = scene(seed);
        let webhook = Webhook::of(world.clone(), rego.clone());
        for case in &cases {
            compare(&webhook, &world, rego.as_deref(), case).await?;
        }
        Ok(())
    });
}

#[test]
fn nothing_is_remembered_of_a_world_that_has_changed() {
    for_each_seed(4, async |seed| {
        let (world, cases, rego) = scene(seed);
        let webhook = Webhook::of(world.clone(), rego.clone());
        for case in &cases {
            webhook.ask(case).await;
            let mut later = generate::world(&mut Dice::of(!seed));
            // Most rights are the same, and one is gone.
            later.rights.clone_from(&world.rights);
            if !later.rights.is_empty() {
                let gone = Dice::of(seed).below(later.rights.len());
                later.rights.remove(gone);
            }
            webhook.server.becomes(later.clone());
            let changed = compare(&webhook, &later, rego.as_deref(), case).await;
            changed.map_err(|it| format!("after the world has changed: {it}"))?;
            webhook.server.becomes(world.clone());
        }
        Ok(())
    });
}

#[test]
fn reviews_at_once_are_answered_as_one_by_one() {
    for_each_seed(4, async |seed| {
        let (mut world, cases, rego) = scene(seed);
        // What hangs takes places that others wait for.
        world.moods.clear();
        let Some(rego) = rego else { return Ok(()) };
        let webhook = Webhook::of(world, Some(rego));
        let mut alone = Vec::new();
        for case in &cases {
            alone.push(webhook.ask(case).await.body);
        }
        let together = futures::future::join_all(cases.iter().map(|case| webhook.ask(case))).await;
        for ((case, alone), together) in cases.iter().zip(alone).zip(together) {
            // At most four connectors at a time are warned of a class.
            if case.page != "/mutate/connectors" && alone != together.body {
                return Err(format!(
                    "{alone} alone, {} together: {}",
                    together.body, case.review
                ));
            }
        }
        Ok(())
    });
}

#[test]
fn what_an_author_may_not_see_changes_no_answer() {
    for_each_seed(2, async |seed| {
        let (world, cases, rego) = scene(seed);
        for case in &cases {
            let Some(other) = unseen(&world, rego.as_deref(), case) else {
                continue;
            };
            let mut answers = Vec::new();
            for world in [world.clone(), other] {
                let webhook = Webhook::of(world, rego.clone());
                let answer = webhook.ask(case).await;
                let asked: BTreeSet<Asked> = webhook.server.asked().into_iter().collect();
                answers.push((answer, asked));
            }
            let [(one, asked), (two, asked_too)] = &answers[..] else {
                return Err("two answers".to_owned());
            };
            if let Some(look) = asked.iter().find(|it| is_hidden(&world, case, it)) {
                return Err(format!("{look:?} of {}", case.review));
            }
            // Pauses between tries are random.
            let is_timed = world.moods.values().all(|it| matches!(it, Mood::Slow(_)));
            if one.body != two.body || asked != asked_too || is_timed && one.took != two.took {
                return Err(format!(
                    "{} in one world, {} in the other; {asked:?}, {asked_too:?}\n{}",
                    one.body, two.body, case.review
                ));
            }
        }
        Ok(())
    });
}

/// Whether that looks at a pod which the author of a review may not get.
fn is_hidden(world: &World, case: &Case, Asked(line, ..): &Asked) -> bool {
    let Some(pod) = line.strip_prefix("GET /api/v1/namespaces/") else {
        return false;
    };
    let Some((namespace, name)) = pod.split_once("/pods/") else {
        return false;
    };
    let request = &case.review["request"];
    let may = world.may(&request["userInfo"], &world::get_pods(), namespace, name);
    !may && !reference::is_plugin(request)
}

/// Another world, in which all is different that the author of a review may not see. A large user is not looked at.
fn unseen(world: &World, rego: Option<&[Finding]>, case: &Case) -> Option<World> {
    let request = &case.review["request"];
    let user = &request["userInfo"];
    let home = request["namespace"].as_str()?;
    let named = &request["object"]["spec"]["context"]["objectRef"];
    let mut other = world.clone();
    for ((namespace, name), pod) in &mut other.pods {
        let is_named = named["namespace"] == namespace.as_str() && named["name"] == name.as_str();
        let may_get = world.may(user, &world::get_pods(), namespace, name);
        let is_seen = if reference::is_plugin(request) {
            is_named
        } else {
            may_get && world.answers(&Target::PodRight)
        };
        if !is_seen {
            pod["metadata"]["uid"] = json!("another");
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            pod["spec"] = json!({"serviceAccountName": "another", "nodeName": "another"});
            pod["status"] = json!({"phase": "Failed"});
        }
    }
    let (pods, gone) = (&world.pods, named["name"].as_str().unwrap_or_default());
    let key = (
        named["namespace"].as_str().unwrap_or_default().to_owned(),
        gone.to_owned(),
    );
    let is_hidden =
        !reference::is_plugin(request) && !world.may(user, &world::get_pods(), &key.0, &key.1);
    if is_hidden && Dice::of(u64::try_from(pods.len()).unwrap()).one_in(2) {
        other.pods.remove(&key);
    }
    // What is in other namespaces, and how much.
    other.requests.retain(|it| it.0 == home);
    let expected = reference::expected(world, rego, case);
    let is_barred = matches!(expected, Expected::RefusedForSome(why)
        if why.contains(&Why::NotAll) || why.contains(&Why::NotNamed));
    for (namespace, count) in &mut other.policies {
        if namespace != home {
            *count = 256 - *count % 2;
        }
    }
    // For an author who may not write the policy, no policies are counted.
    if is_barred {
        let count = other.policies.entry(home.to_owned()).or_default();
        *count = if *count < 256 { 256 } else { 0 };
    }
    Some(other)
}
