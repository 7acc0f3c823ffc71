//! Names and UIDs that several caches have: each is in memory once, although every event brings a copy.

use std::ptr;

use super::*;

fn pod_name() -> Name {
    Name::new("apps", "p")
}

/// The event about one object, with copies of its own.
type Tells = fn(&mut State, version: &str);

fn pod_tells(state: &mut State, version: &str) {
    let _ = state.pod(&pod_name(), Some(pod("u", version, false)));
}

fn request_tells(state: &mut State, _: &str) {
    let _ = state.request(&name(), Ok(request("r", "r-uid", &granted())));
}

fn grants_tell(state: &mut State, _: &str) {
    for (kind, grant) in [
        (GrantKind::Role, unread_role()),
        (GrantKind::RoleBinding, unread_binding()),
    ] {
        let _ = state.grant(kind, &Name::new("tools", "g"), Some(&grant), None);
    }
}

/// As they come one after the other, and as the lists of a start may come.
const ORDERS: [[Tells; 3]; 3] = [
    [pod_tells, request_tells, grants_tell],
    [grants_tell, request_tells, pod_tells],
    [request_tells, pod_tells, grants_tell],
];

fn told(order: [Tells; 3]) -> State {
    let mut state = State::default();
    for version in ["1", "2"] {
        for tells in order {
            tells(&mut state, version);
        }
    }
    state
}

#[test]
fn a_request_its_pod_and_its_grant_share_names_and_uids() {
    ORDERS.into_iter().map(told).for_each(assert_shared);
}

fn assert_shared(mut state: State) {
    let head = state.requests.head(&name()).unwrap();
    let (pod, cached) = state.pods.get_key_value(&pod_name()).unwrap();
    let place = |name: &Name| ptr::from_ref::<NameParts>(name);
    assert_eq!(place(&head.pod), place(pod));
    assert!(Arc::ptr_eq(head.pod_uid.as_ref().unwrap(), &cached.uid));
    let uid = head.uid.as_ref().unwrap();
    assert!(Arc::ptr_eq(
        uid,
        &state.requests.known_uid("r-uid").unwrap()
    ));
    for kind in GrantKind::ALL {
        let gone = state
            .grants
            .set(kind, &Name::new("tools", "g"), None, |_| None);
        assert!(Arc::ptr_eq(uid, &gone.unwrap()), "{kind:?}");
    }
}

#[test]
fn another_object_of_the_same_name_has_its_own_uid() {
    let mut state = told(ORDERS[0]);
    let _ = state.pod(&pod_name(), Some(pod("v", "3", false)));
    let _ = state.request(&name(), Ok(request("r", "another", &granted())));
    let cached = state.requests.get(&name()).unwrap();
    assert_eq!(cached.uid.as_deref(), Some("another"));
    let head = state.requests.head(&name()).unwrap();
    assert_eq!(head.uid.as_deref(), Some("another"));
    assert_eq!(state.requests.by_uid("r-uid"), None);
    assert_eq!(state.pods[&pod_name()].uid.as_ref(), "v");
    // The request names the pod that was there before.
    assert_eq!(head.pod_uid.as_deref(), Some("u"));
}
