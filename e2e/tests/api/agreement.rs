//! The index answers as the real API server does.
//!
//! Random worlds are made in both; both are asked the same; nothing may differ: neither the answers, nor
//! the reasons, nor the lists of rules. And none of that may be by accident: every feature of RBAC has to
//! decide its share of the answers.
//!
//! `AGREEMENT=full` makes it 500 worlds, `E2E_SEED` repeats a run.

mod aim;
mod features;
mod object;
mod question;
mod tally;
mod worlds;

use std::collections::BTreeSet;
use std::env;

use authz::{RbacIndex, RuleResolver, SystemMasters, User};
use e2e::harness;
use futures::{StreamExt, stream};
use k8s_openapi::api::rbac::v1::{PolicyRule, Subject};
use kube::Client;
use rand::seq::SliceRandom;
use rand::{SeedableRng, rngs::StdRng};

use crate::support::eventually;
use features::Lens;
use object::Object;
use question::{Answer, Question, RuleSets, What, authenticated};
use tally::{Tally, difference, tell};
use worlds::{Change, Place};

/// Requests to the API server at one time.
const AT_ONCE: usize = 16;

/// Worlds that live beside each other.
const BESIDE: usize = 20;

/// Each is asked before and after the change in the middle.
const QUESTIONS: usize = 12;

/// One world, from its first objects to its last.
struct World {
    place: Place,
    random: StdRng,
    objects: Vec<Object>,
    /// The objects that the change in the middle deleted.
    deleted: Vec<Object>,
    questions: Vec<Question>,
}

/// The API server, and the index that is to agree with it.
struct Arena {
    client: Client,
    place: Place,
    index: RbacIndex,
    tally: Tally,
    /// Numbers the sentinels.
    steps: usize,
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_is_the_api_servers_and_every_feature_decides_some() {
    let is_full = is_full();
    let worlds = if is_full { 500 } else { 40 };
    let seed = seed();
    tell(&format!("{worlds} worlds, E2E_SEED={seed}"));

    let home = harness::Scene::new("agreement");
    let other = harness::Scene::new("agreement-other");
    let client = home.api().asynchronous().unwrap();
    let mut arena = Arena {
        index: object::index_of_all(&client).await,
        client,
        place: Place {
            run: home.namespace().to_owned(),
            namespaces: [home.namespace().to_owned(), other.namespace().to_owned()],
            world: String::new(),
        },
        tally: Tally {
            decided: features::none_yet(),
            ..Tally::default()
        },
        steps: 0,
    };
    for first in (0..worlds).step_by(BESIDE) {
        let numbers = first..worlds.min(first + BESIDE);
        arena.play(numbers.map(|number| (number, seed))).await;
    }
    object::remove_all(&arena.client, &arena.place.run).await;
    arena.tally.judge(is_full);
}

impl Arena {
    /// Some worlds beside each other, from their first objects to their last.
    async fn play(&mut self, numbers: impl Iterator<Item = (usize, u64)>) {
        let mut worlds: Vec<World> = numbers
            .map(|(number, seed)| World::new(&self.place, number, seed))
            .collect();
        self.create(&mut worlds).await;
        let before: Vec<Lens> = worlds.iter().map(|it| Lens::new(&it.objects)).collect();
        self.compare(&worlds, None).await;
        self.compare_rules(&worlds).await;
        self.change(&mut worlds).await;
        self.compare(&worlds, Some(&before)).await;
        self.compare_rules(&worlds).await;
        self.compare_with_a_new_index(&worlds).await;
        self.delete(&worlds).await;
    }

    async fn create(&mut self, worlds: &mut [World]) {
        let client = &self.client;
        let all = worlds.iter_mut().enumerate().flat_map(|(at, world)| {
            let objects = std::mem::take(&mut world.objects);
            objects.into_iter().map(move |object| (at, object))
        });
        let all: Vec<_> = all.collect();
        let created = stream::iter(all)
            .map(async |(at, object)| (at, object.create(client).await))
            .buffer_unordered(AT_ONCE)
            .collect::<Vec<_>>()
            .await;
        for (at, object) in created {
            worlds[at].objects.push(object);
        }
        for world in worlds {
            // The order does not matter to the index.
            world.objects.shuffle(&mut world.random);
            for object in world.objects.clone() {
                object.put(&mut self.index).unwrap();
            }
            world.ask();
        }
        self.catch_up().await;
    }

    /// Deletes and replaces objects of every world.
    async fn change(&mut self, worlds: &mut [World]) {
        for world in worlds {
            let World {
                place,
                random,
                objects,
                deleted,
                ..
            } = world;
            let client = &self.client;
            let old = objects.drain(..);
            let changes: Vec<_> = old
                .map(|object| worlds::change(place, random, object))
                .collect();
            let done = stream::iter(changes)
                .map(async |change| match change {
                    Change::Stay(object) => Change::Stay(object),
                    Change::Replace(object) => Change::Replace(object.replace(client).await),
                    Change::Delete(object) => {
                        object.delete(client).await;
                        Change::Delete(object)
                    }
                })
                .buffer_unordered(AT_ONCE)
                .collect::<Vec<_>>()
                .await;
            for change in done {
                match change {
                    Change::Stay(object) => objects.push(object),
                    Change::Replace(object) => {
                        object.clone().put(&mut self.index).unwrap();
                        objects.push(object);
                    }
                    Change::Delete(object) => {
                        object.take(&mut self.index);
                        deleted.push(object);
                    }
                }
            }
        }
        self.catch_up().await;
    }

    async fn delete(&mut self, worlds: &[World]) {
        let objects: Vec<&Object> = worlds.iter().flat_map(|world| &world.objects).collect();
        let client = &self.client;
        stream::iter(objects.iter().copied())
            .for_each_concurrent(AT_ONCE, |object| object.delete(client))
            .await;
        for object in objects {
            object.take(&mut self.index);
        }
    }

    /// Waits until the API server decides by everything that was written: each of its four caches has
    /// then seen an object that was written after all others.
    async fn catch_up(&mut self) {
        self.steps += 1;
        let mut place = self.place.clone();
        place.world = format!("sentinel-{}", self.steps);
        let user = User {
            name: place.own("sentinel"),
            groups: Vec::new(),
        };
        for object in sentinels(&place, &user) {
            let object = object.create(&self.client).await;
            object.put(&mut self.index).unwrap();
        }
        for (verb, namespace) in [("get", place.namespaces[0].as_str()), ("list", "")] {
            let question = Question {
                user: user.clone(),
                verb: verb.to_owned(),
                what: What::Resource {
                    group: String::new(),
                    resource: "pods".to_owned(),
                    subresource: String::new(),
                    namespace: namespace.to_owned(),
                    name: String::new(),
                },
            };
            eventually("the API server to have seen all", async || {
                let answer = question.ask(&self.client).await;
                answer.allowed.then_some(())
            })
            .await;
        }
    }

    async fn compare(&mut self, worlds: &[World], before: Option<&[Lens]>) {
        for (at, world) in worlds.iter().enumerate() {
            let client = &self.client;
            let answers: Vec<Answer> = stream::iter(&world.questions)
                .map(|question| question.ask(client))
                .buffered(AT_ONCE)
                .collect()
                .await;
            let lens = Lens::new(&world.objects).with_deleted(&world.deleted, &world.objects);
            for (question, answer) in world.questions.iter().zip(answers) {
                self.tally.pairs += 1;
                self.tally.allowed += usize::from(answer.allowed);
                let before = before.map(|lenses| &lenses[at]);
                lens.count(question, before, &mut self.tally.decided);
                if let Some(difference) = difference(&self.index, question, &answer) {
                    self.tally.differ(question, difference);
                }
            }
        }
    }

    /// The rights of one user of each world in each namespace. The API server lists no rules without a
    /// namespace.
    async fn compare_rules(&mut self, worlds: &[World]) {
        for world in worlds {
            let Some(question) = world.questions.iter().find(|it| can_log_in(&it.user)) else {
                continue;
            };
            let user = authenticated(&question.user);
            let anybody = authenticated(&User {
                name: "anybody".to_owned(),
                groups: Vec::new(),
            });
            for namespace in &self.place.namespaces {
                let theirs = question::rules_of(&self.client, &user, namespace).await;
                let [ours, everybodys] = [&user, &anybody]
                    .map(|user| RuleSets::new(self.index.rules_for(user, namespace)));
                self.tally.rules(&ours, &everybodys);
                if ours != theirs {
                    self.tally.differ(question, (ours, theirs));
                }
            }
        }
    }

    /// The index was built object by object; one that is made from the current objects must give the same
    /// answers.
    async fn compare_with_a_new_index(&mut self, worlds: &[World]) {
        let new = object::index_of_all(&self.client).await;
        let run = self.place.run.as_str();
        for question in worlds.iter().flat_map(|world| &world.questions) {
            let attributes = question.attributes();
            let user = authenticated(&question.user);
            let say = |index: &RbacIndex| {
                let allowing = index.allowing(&attributes).map(|grant| grant.to_string());
                let allowing: BTreeSet<String> = allowing.collect();
                let mut rules = index.rules_for(&user, attributes.target.namespace());
                rules.resource.sort();
                rules.non_resource.sort();
                rules.errors.sort();
                let mut who =
                    index.who_can(attributes.verb, attributes.target, usize::MAX, |_| true);
                // Other tests may bind their own users meanwhile.
                who.subjects.retain(|one| one.to_string().contains(run));
                who.errors.retain(|one| one.to_string().contains(run));
                (allowing, rules, who)
            };
            let (ours, theirs) = (say(&self.index), say(&new));
            if ours != theirs {
                self.tally.differ(question, ("anew", ours, theirs));
            }
        }
    }
}

impl World {
    fn new(place: &Place, number: usize, seed: u64) -> Self {
        let mut place = place.clone();
        place.world = format!("w{number}");
        let number = u64::try_from(number).unwrap();
        let mut random = StdRng::seed_from_u64(seed.wrapping_add(number));
        Self {
            objects: worlds::objects(&place, &mut random),
            deleted: Vec::new(),
            questions: Vec::new(),
            place,
            random,
        }
    }

    /// Thinks of questions about the objects that there are.
    fn ask(&mut self) {
        let Self {
            place,
            random,
            objects,
            deleted: _,
            questions,
        } = self;
        let one = |_| aim::question(place, random, objects);
        *questions = (0..QUESTIONS).map(one).collect();
    }
}

/// True for a user whose every right comes from RBAC, and whose name the API server accepts.
fn can_log_in(user: &User) -> bool {
    !user
        .groups
        .iter()
        .any(|group| group == SystemMasters::GROUP)
}

/// A role and a binding in a namespace, and both in the cluster.
fn sentinels(place: &Place, user: &User) -> Vec<Object> {
    let pods = |verb: &str| PolicyRule {
        verbs: vec![verb.to_owned()],
        api_groups: Some(vec![String::new()]),
        resources: Some(vec!["pods".to_owned()]),
        ..PolicyRule::default()
    };
    let subject = Subject {
        api_group: Some(worlds::RBAC.to_owned()),
        kind: "User".to_owned(),
        name: user.name.clone(),
        namespace: None,
    };
    let name = place.own("sentinel");
    let namespace = place.namespaces[0].as_str();
    vec![
        place.role(namespace, name.clone(), vec![pods("get")]),
        place.cluster_role(name.clone(), vec![pods("list")]),
        place.role_binding(
            namespace,
            name.clone(),
            worlds::role_ref("Role", name.clone()),
            vec![subject.clone()],
        ),
        place.cluster_role_binding(
            name.clone(),
            worlds::role_ref("ClusterRole", name),
            vec![subject],
        ),
    ]
}

fn is_full() -> bool {
    match env::var("AGREEMENT").as_deref() {
        Err(_) => false,
        Ok("full") => true,
        Ok(other) => panic!("AGREEMENT={other}: it is `full` or not set"),
    }
}

fn seed() -> u64 {
    match env::var("E2E_SEED") {
        Ok(text) => text.parse().expect("E2E_SEED is a number"),
        Err(_) => rand::random(),
    }
}
