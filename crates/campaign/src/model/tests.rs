use super::{Mutation, Settings, Start, run, settle};

const APPROVED: &[Start] = &[Start {
    asked: true,
    approved: 2,
}];

/// One pod and one policy: enough to detect the removal of any guard.
const TINY: Settings = Settings {
    policies: 1,
    starts: APPROVED,
    ..Settings::SMALL
};

#[test]
fn the_small_model_is_exhausted_and_every_rule_holds() {
    let report = run(Settings::SMALL);
    assert!(report.exhausted && report.holds(), "{report}");
}

#[test]
fn the_approval_of_one_pod_gives_nothing_to_another() {
    let report = run(Settings::ONE_APPROVAL);
    assert!(report.exhausted && report.holds(), "{report}");
    let broken = found(Settings::ONE_APPROVAL, Mutation::BelievesOthers);
    assert!(broken.contains(&UNJUSTIFIED), "{broken:?}");
}

#[test]
fn whatever_fails_once_every_rule_holds() {
    let report = run(Settings {
        happenings: 0,
        faults: 1,
        lag: true,
        ..TINY
    });
    assert!(report.exhausted && report.holds(), "{report}");
}

#[test]
fn a_shard_that_moves_at_any_moment_breaks_no_rule() {
    let report = run(Settings {
        happenings: 0,
        ..Settings::SHARDS
    });
    assert!(report.exhausted && report.holds(), "{report}");
    let settled = settle(Settings {
        faults: 1,
        ..Settings::SHARDS
    });
    assert!(settled.quiet > 0 && !settled.cut, "{settled:?}");
    assert_eq!(settled.writes_for_ever, Vec::<String>::new());
    assert_eq!(settled.stuck, None);
}

#[test]
fn left_to_themselves_the_controllers_stop_writing_and_only_where_nothing_is_left_to_do() {
    let settled = settle(TINY);
    assert!(settled.quiet > 0 && !settled.cut, "{settled:?}");
    assert_eq!(settled.writes_for_ever, Vec::<String>::new());
    assert_eq!(settled.stuck, None);
}

/// One event less than is needed for every situation, but enough for every rule.
const STANDING: Settings = Settings {
    happenings: 3,
    ..Settings::STANDING
};

#[test]
fn a_standing_permission_that_comes_and_goes_breaks_no_rule() {
    let report = run(STANDING);
    assert!(report.exhausted && report.holds(), "{report}");
    let settled = settle(Settings {
        happenings: 2,
        ..STANDING
    });
    assert!(settled.quiet > 0 && !settled.cut, "{settled:?}");
    assert_eq!(settled.writes_for_ever, Vec::<String>::new());
    assert_eq!(settled.stuck, None);
}

#[test]
fn a_request_that_ends_on_hearsay_is_found() {
    let broken = found(STANDING, Mutation::EndsOnHearsay);
    assert!(broken.contains(&EARLY), "{broken:?}");
}

/// The broken rules when a guard is removed.
fn found(settings: Settings, mutation: Mutation) -> Vec<&'static str> {
    let report = run(Settings {
        mutation: Some(mutation),
        ..settings
    });
    let broken = report
        .broken()
        .filter(|it| it.always && !it.path.is_empty());
    broken.map(|it| it.name).collect()
}

const EARLY: &str = "I5: what held nothing ends with its pod or by a standing permission";
const UNJUSTIFIED: &str = "I2: nothing unjustified is left when all is quiet";
const UNPROVEN: &str = "I1: a binding is written on live proof for that pod alone";

#[test]
fn a_grant_on_what_caches_show_is_found() {
    let broken = found(TINY, Mutation::GrantsFromCaches);
    assert!(broken.contains(&UNPROVEN), "{broken:?}");
}

#[test]
fn a_grant_on_old_reads_is_found() {
    let settings = Settings {
        happenings: 0,
        faults: 1,
        ..TINY
    };
    assert_eq!(found(settings, Mutation::ForgetsAge), [UNPROVEN]);
}

#[test]
fn a_grant_to_another_pod_of_the_name_is_found() {
    let settings = Settings {
        happenings: 2,
        ..TINY
    };
    assert_eq!(found(settings, Mutation::ComparesNames), [UNPROVEN]);
}

#[test]
fn a_grant_that_is_not_confirmed_is_found() {
    let broken = found(TINY, Mutation::SkipsConfirm);
    assert!(
        broken.contains(&"I5: what ended never comes back"),
        "{broken:?}"
    );
}

#[test]
fn what_nobody_looks_after_is_found() {
    let broken = found(TINY, Mutation::NeverEnforces);
    assert!(broken.contains(&UNJUSTIFIED), "{broken:?}");
}
