//! Plans that run in every campaign: those that once found a bug, and those that test single guards.

use crate::{
    enumerate::Family,
    plan::{NoPlan, Plan},
    scenario::Scenario,
};

const FOUND: &str = include_str!("../regressions.txt");
const GUARDS: &str = include_str!("../guards.txt");

/// All of them, or the first one that cannot be parsed.
pub fn all() -> Result<Vec<Plan>, NoPlan> {
    let lines = FOUND.lines().chain(GUARDS.lines()).map(str::trim);
    lines
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .map(str::parse)
        .collect()
}

/// Those for one of these scenarios.
pub fn about(scenarios: &[Scenario]) -> Result<Vec<(Family, Plan)>, NoPlan> {
    let about = |it: &Plan| scenarios.iter().any(|other| other.name == it.scenario);
    let plans = all()?.into_iter().filter(about);
    Ok(plans.map(|plan| (Family::Known, plan)).collect())
}

#[cfg(test)]
mod tests {
    use crate::scenario;

    /// A campaign runs the known plans of its scenarios, so a plan without a scenario would never run.
    #[test]
    fn every_known_plan_has_its_scenario() {
        let plans = super::all().unwrap();
        assert!(plans.len() > 20, "{}", plans.len());
        for plan in plans {
            assert!(scenario::named(&plan.scenario).is_some(), "{plan}");
        }
    }
}
