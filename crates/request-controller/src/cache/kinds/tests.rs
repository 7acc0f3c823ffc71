//! Kinds of which the cache keeps what requests depend on.

use serde_json::json;
use service_kit::watches::Parse as _;

use super::*;
use crate::{cache::kind_objects::MOST_OF_NAMESPACE, check_object::AsText};

fn kind() -> ObjectKind {
    ObjectKind {
        api_version: "tekton.dev/v1".to_owned(),
        kind: "TaskRun".to_owned(),
    }
}

fn run(name: &str) -> Name {
    Name::new("apps", name)
}

fn request() -> Name {
    Name::new("tools", "request")
}

fn object(version: &str) -> CheckObject {
    let object =
        json!({"metadata": {"uid": "u", "resourceVersion": version}, "data": "x".repeat(100)});
    AsText::parse(&object.to_string()).unwrap().object
}

fn read(version: &str) -> KindObject {
    KindObject::There(Arc::new(object(version)))
}

/// The watch brings an object, or its end.
fn watched(state: &mut State, name: &str, version: Option<&str>) {
    let _ = match version {
        Some(version) => state.object(&kind(), &run(name), Some(Ok(object(version)))),
        None => state.object(&kind(), &run(name), None),
    };
}

/// What the cache says of an object, and its version.
fn said(state: &State, name: &str) -> String {
    match state.kinds[&kind()].get(&run(name)) {
        Some(KindObject::There(object)) => object.value().unwrap()["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .to_owned(),
        Some(KindObject::Unreadable) => "unreadable".to_owned(),
        Some(KindObject::Gone) => "gone".to_owned(),
        None => "not kept".to_owned(),
    }
}

/// A state in which a request depends on these objects.
fn linked(names: &[&str]) -> State {
    let mut state = State::default();
    state.begin_kind(&kind(), Keeps::Linked);
    let links = names.iter().map(|it| Link {
        kind: kind(),
        name: run(it),
    });
    assert!(state.links.add(&request(), links));
    state
}

/// A tenant's pipelines alone take no memory.
#[test]
fn objects_that_no_request_depends_on_are_not_kept() {
    let mut state = linked(&["a"]);
    for number in 0..1_000 {
        watched(&mut state, &number.to_string(), Some("1"));
    }
    assert_eq!(state.kinds[&kind()].weight(), 0);
    watched(&mut state, "a", Some("1"));
    assert_eq!(said(&state, "a"), "1");
    assert_eq!(said(&state, "1"), "not kept");
    state.depends_on(&request(), |_| false);
    assert_eq!(
        (said(&state, "a").as_str(), state.kinds[&kind()].weight()),
        ("not kept", 0)
    );
}

#[test]
fn an_object_that_a_request_depends_on_is_known_until_the_last_event() {
    let mut state = linked(&["a"]);
    assert_eq!(said(&state, "a"), "not kept");
    state.read_object(&kind(), &run("a"), read("1"));
    assert_eq!(said(&state, "a"), "1");
    watched(&mut state, "a", Some("2"));
    assert_eq!(said(&state, "a"), "2");
    watched(&mut state, "a", None);
    assert_eq!(said(&state, "a"), "gone");
    let metadata = kube::core::ObjectMeta::default();
    let problem = String::new();
    let unreadable = Unreadable { metadata, problem };
    let _ = state.object(&kind(), &run("a"), Some(Err(unreadable)));
    assert_eq!(said(&state, "a"), "unreadable");
}

/// A read may be answered later than an event that is newer.
#[test]
fn what_the_watch_brought_is_newer_than_a_read() {
    for (version, expected) in [(Some("2"), "2"), (None, "gone")] {
        let mut state = linked(&["a"]);
        watched(&mut state, "a", version);
        state.read_object(&kind(), &run("a"), read("1"));
        assert_eq!(said(&state, "a"), expected);
    }
}

#[test]
fn a_read_is_kept_only_for_a_request() {
    let mut state = linked(&["a"]);
    state.read_object(&kind(), &run("b"), read("1"));
    assert_eq!(said(&state, "b"), "not kept");
}

/// A check must not take the few objects that are kept for all.
#[test]
fn checks_find_nothing_among_objects_that_are_kept_by_name() {
    let mut state = linked(&["a"]);
    watched(&mut state, "a", Some("1"));
    let cache = &state.kinds[&kind()];
    assert!(cache.count("apps").is_none() && !cache.keeps("apps"));
}

#[test]
fn an_event_of_an_object_between_wakes_whoever_depends_on_it() {
    let mut state = linked(&["a"]);
    let wakes = |state: &mut State, name: &str| state.object(&kind(), &run(name), None).len();
    assert_eq!((wakes(&mut state, "a"), wakes(&mut state, "b")), (1, 0));
    assert!(state.may_get_more(&kind(), &run("a")).is_empty());
}

#[test]
fn linked_objects_have_the_share_of_their_namespace() {
    let names: Vec<_> = (0..50).map(|it| it.to_string()).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let mut state = linked(&names);
    let large = json!({"metadata": {}, "data": "x".repeat(200 * 1024)}).to_string();
    for name in &names {
        let object = AsText::parse(&large).unwrap().object;
        let _ = state.object(&kind(), &run(name), Some(Ok(object)));
    }
    let weight = state.kinds[&kind()].weight();
    assert!(weight <= MOST_OF_NAMESPACE, "{weight}");
    assert_eq!(said(&state, "1"), "not kept");
    // As long as a request depends on any of them, it is not known whether they fit.
    state.depends_on(&request(), |it| it.name == run("1"));
    watched(&mut state, "1", Some("1"));
    assert_eq!(said(&state, "1"), "not kept");
    state.depends_on(&request(), |_| false);
    assert!(state.links.add(
        &request(),
        [Link {
            kind: kind(),
            name: run("1")
        }]
    ));
    watched(&mut state, "1", Some("2"));
    assert_eq!(said(&state, "1"), "2");
}

#[test]
fn a_kind_that_is_narrowed_keeps_what_requests_depend_on() {
    let mut state = linked(&["a"]);
    state.begin_kind(&kind(), Keeps::All);
    for name in ["a", "b"] {
        watched(&mut state, name, Some("1"));
    }
    let both = state.kinds[&kind()].weight();
    assert_eq!(
        (said(&state, "a"), said(&state, "c")),
        ("1".to_owned(), "gone".to_owned())
    );
    state.narrow_kind(&kind());
    let names = ["a", "b", "c"].map(|it| said(&state, it));
    assert_eq!(names, ["1", "not kept", "not kept"]);
    assert_eq!(2 * state.kinds[&kind()].weight(), both);
}

/// The size of an object of which a namespace may have a number without a rest.
const PART: usize = 128 * 1024;

/// An object that weighs so many bytes, under a name of two digits.
fn of_weight(bytes: usize) -> KindObject {
    let of = |padding: usize| -> CheckObject {
        let object = json!({"metadata": {"name": "00"}, "data": "x".repeat(padding)});
        AsText::parse(&object.to_string()).unwrap().object
    };
    let object = of(bytes - of(0).weight());
    assert_eq!(object.weight(), bytes);
    KindObject::There(Arc::new(object))
}

/// A state in which each of these namespaces fills its share. The objects are one in memory.
fn full(namespaces: usize) -> State {
    let mut state = State::default();
    state.begin_kind(&kind(), Keeps::Linked);
    let cache = state.kinds.get_mut(&kind()).unwrap();
    let object = of_weight(PART);
    for namespace in 0..namespaces {
        for number in 0..MOST_OF_NAMESPACE / PART {
            let name = Name::new(&format!("n{namespace}"), &format!("{number:02}"));
            cache.put(&name, object.clone());
        }
    }
    state
}

/// The number of namespaces whose objects are kept.
fn kept(state: &State) -> usize {
    let namespaces = state.kinds[&kind()].namespaces.values();
    namespaces.filter(|it| it.are_kept()).count()
}

#[test]
fn a_namespace_fills_its_share_exactly_and_one_byte_more_is_too_much() {
    let mut state = full(1);
    assert_eq!(kept(&state), 1);
    let cache = state.kinds.get_mut(&kind()).unwrap();
    cache.put(&Name::new("n0", "00"), of_weight(PART + 1));
    assert_eq!((kept(&state), state.kinds[&kind()].weight()), (0, 0));
}

#[test]
fn namespaces_fill_the_total_exactly_and_above_it_one_of_the_largest_is_not_kept() {
    let most = MOST_OF_ALL / MOST_OF_NAMESPACE;
    let mut state = full(most);
    state.bound_objects();
    assert_eq!(kept(&state), most);
    assert_eq!(state.kinds[&kind()].weight(), MOST_OF_ALL);
    let cache = state.kinds.get_mut(&kind()).unwrap();
    cache.put(&Name::new("small", "a"), KindObject::Gone);
    state.bound_objects();
    assert_eq!(kept(&state), most, "the small one, and all but one others");
    assert!(state.kinds[&kind()].namespaces["small"].are_kept());
}

#[test]
fn nothing_is_left_of_a_kind_that_no_policy_names_any_more() {
    let mut state = full(1);
    state.forget_kind(&kind());
    assert!(state.kinds.is_empty());
}
