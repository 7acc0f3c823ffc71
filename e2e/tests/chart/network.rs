//! Where the evaluation service may send anything.

use serde_json::{Value, json};

use crate::rendered::{defaults, name, of_kind, with};

fn egress(objects: &[Value]) -> Value {
    let policies = of_kind(objects, "NetworkPolicy");
    let mut policies = policies.into_iter();
    let policy = policies.find(|policy| name(policy) == "evaluation-service");
    let spec = &policy.unwrap()["spec"];
    // Without the word the list would not count.
    assert_eq!(spec["policyTypes"], json!(["Ingress", "Egress"]));
    spec["egress"].clone()
}

#[test]
fn the_evaluation_service_sends_to_the_ports_of_the_api_server_and_not_even_to_dns() {
    let ports = json!([{"protocol": "TCP", "port": 443}, {"protocol": "TCP", "port": 6443}]);
    assert_eq!(egress(&defaults()), json!([{"ports": ports}]));
    let one = with(json!({"networkPolicy": {"apiServerPorts": [8443]}}));
    let ports = json!([{"protocol": "TCP", "port": 8443}]);
    assert_eq!(egress(&one), json!([{"ports": ports}]));
}

#[test]
fn the_values_may_say_where_the_api_server_is() {
    let cidrs = ["10.0.0.0/28", "fd00::/64"];
    let objects = with(json!({"networkPolicy": {"apiServerEgressCIDRs": cidrs}}));
    let blocks = cidrs.map(|cidr| json!({"ipBlock": {"cidr": cidr}}));
    assert_eq!(egress(&objects)[0]["to"], json!(blocks));
}

#[test]
fn names_are_asked_for_only_where_the_api_server_has_one() {
    let objects = with(json!({"networkPolicy": {"apiServerByName": true}}));
    let rules = egress(&objects);
    let ports = json!([{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]);
    assert_eq!(rules[1], json!({"ports": ports}));
    assert_eq!(rules.as_array().unwrap().len(), 2);
    assert_eq!(rules[0], egress(&defaults())[0]);
}

#[test]
fn the_evaluation_service_is_told_how_old_its_answers_may_be() {
    let argument = |objects: &[Value]| {
        let deployments = of_kind(objects, "Deployment");
        let mut deployments = deployments.into_iter();
        let service = deployments.find(|it| name(it) == "evaluation-service");
        let pod = &service.unwrap()["spec"]["template"]["spec"];
        let arguments = pod["containers"][0]["args"].as_array().unwrap().clone();
        let mut arguments = arguments
            .into_iter()
            .filter_map(|it| Some(it.as_str()?.to_owned()));
        arguments
            .find(|it| it.starts_with("--max-staleness"))
            .unwrap()
    };
    assert_eq!(argument(&defaults()), "--max-staleness=3m");
    let values = json!({"evaluationService": {"maxStaleness": "90s"}});
    assert_eq!(argument(&with(values)), "--max-staleness=90s");
    for odd in ["89s", "1m", "61m", "3601s", "2h", "3", "-3m", ""] {
        let values =
            json!({"image": {"registry": "r"}, "evaluationService": {"maxStaleness": odd}});
        assert!(e2e::install::render(&values, &[]).is_err(), "{odd}");
    }
}
