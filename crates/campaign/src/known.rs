//! Plans that are run in every campaign: those that found something once, and those that single guards are for.

use crate::{
    enumerate::Family,
    plan::{NoPlan, Plan},
    scenario::Scenario,
};

const FOUND: &str = include_str!("../regressions.txt");
const GUARDS: &str = include_str!("../guards.txt");

/// All of them, or the first one that nobody can read.
pub fn all() -> Result<Vec<Plan>, NoPlan> {
    let lines = FOUND.lines().chain(GUARDS.lines()).map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::parse)
        .collect()
}

/// Those about one of these scenarios.
pub fn about(scenarios: &[Scenario]) -> Result<Vec<(Family, Plan)>, NoPlan> {
    let about = |it: &Plan| scenarios.iter().any(|other| other.name == it.scenario);
    let plans = all()?.into_iter().filter(about);
    Ok(plans.map(|plan| (Family::Known, plan)).collect())
}

#[cfg(test)]
mod tests {
    use crate::scenario;

    /// A campaign plays the known plans of the scenarios that it is about, so that one of no scenario would never be played.
    #[test]
    fn every_known_plan_has_its_scenario() {
        let plans = super::all().unwrap();
        assert!(plans.len() > 20, "{}", plans.len());
        for plan in plans {
            assert!(scenario::named(&plan.scenario).is_some(), "{plan}");
        }
    }
}
