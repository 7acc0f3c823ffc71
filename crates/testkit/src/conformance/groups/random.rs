//! Requests drawn from a fixed seed: every verb on few names, mixed, with current and stale versions.

use serde_json::{Value, json};

use super::super::kinds::{CONFIG_MAP, LEASE, ROLE, Resource, WIDGET};
use super::super::step::{Group, Script};
use super::writes::content;

const SEED: u64 = 0x5eed_0000_0000_0005;
const STEPS: usize = 320;
const KINDS: [Resource; 4] = [CONFIG_MAP, WIDGET, LEASE, ROLE];
const NAMES: [&str; 3] = ["a", "b", "c"];

/// A small generator of its own (splitmix64), so that the script never changes.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, limit: u32) -> u32 {
        u32::try_from(self.next() % u64::from(limit)).unwrap_or(0)
    }

    fn one_of<'t, T>(&mut self, choices: &'t [T]) -> &'t T {
        let count = u32::try_from(choices.len()).unwrap_or(1);
        &choices[self.below(count) as usize]
    }
}

pub(super) fn add(script: &mut Script) {
    let group = &mut Group::new(script, "random");
    let dice = &mut Dice(SEED);
    for of in &KINDS {
        for name in NAMES {
            let first = group.create(of, name, &content(of, 0));
            if name == "a" {
                first.keep(of.plural);
            }
        }
    }
    for _ in 0..STEPS {
        step(group, dice);
    }
    // The requests were sequential, so the complete history of each kind must be in order when it is read
    // again.
    for of in &KINDS {
        let start = format!("<{}.version>", of.plural);
        group.open("story", of).query("resourceVersion", &start);
        group.read("story", 20);
        group.close("story");
        group.list(of);
        for name in NAMES {
            group.merge(of, name, json!({"metadata": {"finalizers": null}}));
        }
    }
}

fn step(group: &mut Group<'_>, dice: &mut Dice) {
    let of = *dice.one_of(&KINDS);
    let name = *dice.one_of(&NAMES);
    let of = &of;
    let number = dice.below(3);
    let metadata = version(dice, of, name);
    let mut changed = content(of, number);
    json_patch::merge(&mut changed, &json!({"metadata": metadata}));
    match dice.below(20) {
        0..=3 => {
            let mut body = content(of, number);
            json_patch::merge(
                &mut body,
                &json!({"metadata": {"labels": {"n": number.to_string()}}}),
            );
            group.create(of, name, &body);
        }
        4..=7 => {
            group.put(of, name, &changed);
        }
        8..=10 => {
            group.merge(of, name, changed);
        }
        11 => {
            let labels = json!([{"op": "add", "path": "/metadata/labels", "value": {"n": number.to_string()}}]);
            group.json_patch(of, name, labels);
        }
        12 => {
            let finalizers = if number == 0 {
                json!(["example.com/f"])
            } else {
                Value::Null
            };
            group.merge(of, name, json!({"metadata": {"finalizers": finalizers}}));
        }
        13 | 14 => {
            group.delete(of, name);
        }
        15 => {
            let uid = format!("<{}/{name}.uid>", of.plural);
            group.delete_with(of, name, json!({"preconditions": {"uid": uid}}));
        }
        16 => {
            let version = metadata["resourceVersion"].clone();
            group.delete_with(
                of,
                name,
                json!({"preconditions": {"resourceVersion": version}}),
            );
        }
        17 => {
            group.get(of, name);
        }
        18 if of.status => {
            group.put_status(
                of,
                name,
                &json!({"metadata": metadata, "status": {"n": number}}),
            );
        }
        18 => {
            group
                .list(of)
                .query("fieldSelector", &format!("metadata.name={name}"));
        }
        _ => {
            group
                .list(of)
                .query("labelSelector", &format!("n={number}"));
        }
    }
}

/// Metadata with the newest known version, an older one, or none.
fn version(dice: &mut Dice, of: &Resource, name: &str) -> Value {
    let key = format!("{}/{name}", of.plural);
    match dice.below(6) {
        0..=2 => json!({"resourceVersion": format!("<{key}.version>")}),
        3 | 4 => json!({"resourceVersion": format!("<{key}.before>")}),
        _ => json!({}),
    }
}
