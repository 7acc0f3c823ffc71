//! A judgement with all its parts.

use connectors_api::Permission;
use connectors_api::access_resource::AccessResource;
use connectors_api::judge::NoRules;

use super::*;

fn checked(check: &str, verdict: AccessCheckReady, objects: usize) -> CheckJudgement {
    let judged = |number: usize| ObjectJudgement {
        object: reference(&format!("{check}-{number}")),
        state: format!("state-{number}"),
        verdict,
        reason: JudgeReason::NotHolding.into(),
        message: "object".to_owned(),
        approved_by: vec!["z".to_owned(), "a".to_owned(), "a".to_owned()],
        approvals: vec![
            Approval {
                user: "z".to_owned(),
                group: None,
                message: Some("m".to_owned()),
            },
            Approval {
                user: "a".to_owned(),
                group: Some(String::new()),
                message: None,
            },
        ],
        lineage: vec![reference("run"), reference("task"), reference("run")],
        run_creator: None,
    };
    CheckJudgement {
        check: check.to_owned(),
        verdict,
        reason: JudgeReason::NoObjects.into(),
        message: format!("{check} message"),
        objects: (0..objects).map(judged).collect(),
    }
}

#[test]
fn every_check_is_sent_in_its_order_with_its_own_verdict() {
    use AccessCheckReady::{
        AccessCheckFailed, AccessCheckPassed, AccessCheckPending, AccessCheckRejected,
    };
    let all = [
        (AccessCheckPending, 1),
        (AccessCheckPassed, 2),
        (AccessCheckRejected, 3),
        (AccessCheckFailed, 4),
    ];
    assert_eq!(all.len(), AccessCheckReady::ALL.len());
    for (whole, number) in all {
        let checks = all.map(|(verdict, of)| {
            let objects = usize::try_from(of).unwrap() - 1;
            checked(&format!("c-{}", 9 - of), verdict, objects)
        });
        let sent = to_wire(Judgement {
            verdict: whole,
            checks: checks.into(),
            rules: None,
        });
        assert_eq!(sent.verdict, number);
        let told: Vec<_> = sent
            .checks
            .iter()
            .map(|it| (&*it.check, it.verdict))
            .collect();
        assert_eq!(told, [("c-8", 1), ("c-7", 2), ("c-6", 3), ("c-5", 4)]);
        assert_eq!(
            (sent.rules_reason, sent.rules_message),
            (String::new(), String::new())
        );
        assert_eq!(sent.rules, []);
        for (objects, check) in sent.checks.iter().enumerate() {
            assert_eq!(check.reason, "NoObjects");
            assert_eq!(check.message, format!("{} message", check.check));
            assert_eq!(check.objects.len(), objects);
            for (number, object) in check.objects.iter().enumerate() {
                assert_eq!(object.name, format!("{}-{number}", check.check));
                assert_eq!(object.state, format!("state-{number}"));
                assert_eq!(
                    (object.verdict, &*object.reason),
                    (check.verdict, "NotHolding")
                );
                assert_eq!(object.approved_by, ["z", "a", "a"]);
                let lineage: Vec<_> = object.lineage.iter().map(|it| &*it.name).collect();
                assert_eq!(lineage, ["run", "task", "run"]);
                let approvals = object.approvals.iter();
                let approvals: Vec<_> = approvals
                    .map(|it| (&*it.user, &*it.group, &*it.message))
                    .collect();
                assert_eq!(approvals, [("z", "", "m"), ("a", "", "")]);
                assert_eq!(object.run_creator, "");
            }
        }
    }
}

#[test]
fn rules_are_sent_with_all_their_verbs_and_resources_or_with_the_reason_why_there_are_none() {
    let judgement = |rules| Judgement {
        verdict: AccessCheckReady::AccessCheckPassed,
        checks: Vec::new(),
        rules,
    };
    let text = |words: &[&str]| words.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    let pod = |permission, name| AccessResource::pod(permission, "devops", name);
    let sent = to_wire(judgement(Some(Ok(vec![
        RenderedRule {
            verbs: text(&["*"]),
            resources: vec![pod(Permission::Proxy, "z"), pod(Permission::Apis, "a")],
        },
        RenderedRule {
            verbs: text(&["list", "get", "get"]),
            resources: vec![pod(Permission::Apis, "a")],
        },
    ]))));
    let expected = [
        v1::GrantedRule {
            verbs: text(&["*"]),
            resources: text(&[
                "connectors/proxy/v1/pod/devops/z",
                "connectors/apis/v1/pod/devops/a",
            ]),
        },
        v1::GrantedRule {
            verbs: text(&["list", "get", "get"]),
            resources: text(&["connectors/apis/v1/pod/devops/a"]),
        },
    ];
    assert_eq!(sent.rules, expected);
    assert_eq!((&*sent.rules_reason, &*sent.rules_message), ("", ""));
    for (error, reason) in [(NoRules::Empty, "NoRules"), (NoRules::NoVerb, "NoVerbs")] {
        let sent = to_wire(judgement(Some(Err(error.clone()))));
        assert_eq!(sent.rules, []);
        assert_eq!(sent.rules_reason, reason);
        assert_eq!(sent.rules_message, error.to_string());
    }
}
