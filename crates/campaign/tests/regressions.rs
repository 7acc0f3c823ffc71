//! Plans that found something once, or that single guards are for, are run for ever.

use campaign::{
    campaign::{judged, undisturbed},
    known,
    plan::Fault,
    scenario,
};

#[test]
fn what_was_found_once_does_not_come_back() {
    for plan in known::all().unwrap() {
        let scenario = scenario::named(&plan.scenario);
        let scenario = scenario.unwrap_or_else(|| panic!("no scenario of {plan}"));
        let references = undisturbed(&[scenario]).unwrap_or_else(|failures| panic!("{failures:?}"));
        let (violations, outcome) = judged(&references[0], &plan);
        assert!(violations.is_empty(), "{plan}: {violations:?}");
        // A plan whose point is never reached proves nothing.
        let met = outcome.unwrap().met;
        let is_at_a_point = |it: &Fault| matches!(it, Fault::Call { .. } | Fault::Event { .. });
        let points = plan.faults.iter().any(is_at_a_point);
        assert!(!points || met.faults > 0, "{plan} breaks nothing");
    }
}
