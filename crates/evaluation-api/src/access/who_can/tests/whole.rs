//! Lists as a whole: all of their entries, in their order, or nothing.

use super::*;

fn account(name: &str) -> ServiceAccountName {
    ServiceAccountName {
        namespace: format!("of-{name}"),
        name: name.to_owned(),
    }
}

fn named(name: &str) -> BindingRef {
    BindingRef {
        kind: "ClusterRoleBinding".to_owned(),
        namespace: format!("near-{name}"),
        name: name.to_owned(),
        uid: format!("{name}-uid"),
    }
}

fn pod(name: &str) -> PodAccess {
    PodAccess {
        subject: account(name),
        pod: PodRef {
            name: format!("{name}-pod"),
            uid: format!("{name}-pod-uid"),
        },
        binding: named(name),
        request: RequestSeen {
            name: format!("{name}-request"),
            uid: format!("{name}-request-uid"),
            resource_version: "7".to_owned(),
            phase: Some(Phase::Granted),
            check_reason: None,
            permission_reason: None,
            ready_reason: None,
            message: "m".to_owned(),
        },
    }
}

fn standing(holder: BindingSubject, binding: &str) -> StandingAccess {
    StandingAccess {
        holder,
        binding: named(binding),
    }
}

/// The same holder in two bindings, the same binding of two holders, and names that are nearly the same.
fn everybody() -> WhoCan {
    let user = |name: &str| BindingSubject::User(name.to_owned());
    let holders = [
        user("z"),
        user("a"),
        user("a"),
        user("A"),
        BindingSubject::Group("a".to_owned()),
        BindingSubject::ServiceAccount(account("a")),
        BindingSubject::ServiceAccount(account("a")),
        user(""),
        user("system:serviceaccount:of-a:a"),
    ];
    let standing = holders
        .into_iter()
        .enumerate()
        .map(|(number, holder)| standing(holder, &format!("b-{}", number / 2)));
    WhoCan {
        standing: standing.collect(),
        pods: vec![pod("b"), pod("a"), pod("a")],
        is_cut: false,
        errors: vec!["second".to_owned(), "first".to_owned(), "first".to_owned()],
        fresh_as_of: Some(Timestamp::UNIX_EPOCH),
    }
}

#[test]
fn everybody_who_may_is_listed_once_for_each_binding_and_in_the_order_that_was_sent() {
    for is_cut in [false, true] {
        for fresh_as_of in [None, Some(Timestamp::UNIX_EPOCH)] {
            let who = WhoCan {
                is_cut,
                fresh_as_of,
                ..everybody()
            };
            let wire = v1::WhoCanResponse::from(who.clone());
            assert_eq!((wire.standing.len(), wire.pods.len()), (9, 3));
            assert_eq!((wire.is_cut, wire.errors.len()), (is_cut, 3));
            assert_eq!(WhoCan::try_from(wire), Ok(who));
        }
    }
    let nobody = WhoCan::try_from(v1::WhoCanResponse::default()).unwrap();
    assert_eq!(
        v1::WhoCanResponse::from(nobody),
        v1::WhoCanResponse::default()
    );
    // Many.
    let mut many = everybody();
    many.standing = (0..5_000)
        .map(|number| standing(BindingSubject::User(number.to_string()), "b"))
        .collect();
    many.pods = (0..5_000).map(|number| pod(&number.to_string())).collect();
    let wire = v1::WhoCanResponse::from(many.clone());
    assert_eq!(WhoCan::try_from(wire), Ok(many));
}

/// An administrator who removes the listed ones would believe that these are all.
#[test]
fn one_entry_that_is_not_understood_spoils_the_list() {
    let wire = || v1::WhoCanResponse::from(everybody());
    for at in [0, 4, 8] {
        let mut odd = wire();
        odd.standing[at].subject = None;
        assert_eq!(WhoCan::try_from(odd), Err(AnswerError::Empty));
        let mut odd = wire();
        odd.standing[at].binding = None;
        assert_eq!(WhoCan::try_from(odd), Err(AnswerError::NoBinding));
    }
    for at in [0, 2] {
        let mut odd = wire();
        odd.pods[at].pod = None;
        assert_eq!(WhoCan::try_from(odd), Err(AnswerError::Empty));
        let mut odd = wire();
        odd.pods[at].request.as_mut().unwrap().phase = 9;
        assert_eq!(WhoCan::try_from(odd), Err(AnswerError::Phase(9)));
        let mut odd = wire();
        odd.pods[at].request.as_mut().unwrap().phase = v1::RequestPhase::Invalid.into();
        assert_eq!(WhoCan::try_from(odd), Err(AnswerError::NotGranted));
    }
}

#[test]
fn each_part_of_an_entry_has_its_place_on_the_wire() {
    let text = str::to_owned;
    let wire = v1::PodAccess::from(pod("a"));
    let subject = wire.subject.clone().unwrap();
    assert_eq!((subject.namespace, subject.name), (text("of-a"), text("a")));
    let told = wire.pod.clone().unwrap();
    assert_eq!((told.name, told.uid), (text("a-pod"), text("a-pod-uid")));
    let binding = wire.binding.clone().unwrap();
    assert_eq!(
        binding,
        v1::Binding {
            kind: text("ClusterRoleBinding"),
            namespace: text("near-a"),
            name: text("a"),
            uid: text("a-uid"),
        }
    );
    let request = wire.request.clone().unwrap();
    assert_eq!(
        (
            request.name,
            request.uid,
            request.resource_version,
            request.message
        ),
        (
            text("a-request"),
            text("a-request-uid"),
            text("7"),
            text("m")
        )
    );
    assert_eq!(PodAccess::try_from(wire), Ok(pod("a")));
}

type Change = fn(&mut v1::ReviewTokenResponse);

#[test]
fn the_owner_of_a_token_is_told_whole_or_not_at_all() {
    let answer = AccessAnswer::try_from(v1::AccessAnswer {
        decision: v1::AccessDecision::Denied.into(),
        reason: "because".to_owned(),
        ..v1::AccessAnswer::default()
    });
    let PodAccess { subject, pod, .. } = pod("a");
    let owner = TokenAnswer {
        subject,
        pod,
        answer: answer.unwrap(),
    };
    let wire = v1::ReviewTokenResponse::from(owner.clone());
    assert_eq!(TokenAnswer::try_from(wire.clone()), Ok(owner));
    let cases: [(Change, AnswerError); 5] = [
        (|it| it.subject = None, AnswerError::Empty),
        (|it| it.pod = None, AnswerError::Empty),
        (|it| it.answer = None, AnswerError::Empty),
        (
            |it| it.answer.as_mut().unwrap().decision = 0,
            AnswerError::Decision(0),
        ),
        (
            |it| it.answer.as_mut().unwrap().decision = 2,
            AnswerError::NoBinding,
        ),
    ];
    for (change, error) in cases {
        let mut odd = wire.clone();
        change(&mut odd);
        assert_eq!(TokenAnswer::try_from(odd), Err(error));
    }
}
