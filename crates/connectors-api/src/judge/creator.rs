//! The creator of the pod's pipeline run, whose approval a check can exclude.
//!
//! Kubernetes records no creator. An admission rule of the installation lets a run name only its real creator, in an
//! annotation that never changes afterwards. So the annotation is believed only of runs that are younger than the rule.

use std::borrow::Cow;

use jiff::{SignedDuration, Timestamp};

use super::Stage;
use crate::lineage::Origin;

/// All API servers know a new admission rule after this time.
const RULE_STARTS: SignedDuration = SignedDuration::from_mins(1);

/// The creator of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum RunCreator {
    /// This user.
    Known(String),
    /// Nothing guarantees the identity of the creator. The text gives the reason and the remedy.
    Unknown(Cow<'static, str>),
}

impl RunCreator {
    pub(super) fn of(origin: Option<&Origin>, rule_since: Option<Timestamp>, stage: Stage) -> Self {
        let Some(Origin {
            run,
            created,
            creator,
        }) = origin
        else {
            return Self::Unknown("its pipeline run is not there any more".into());
        };
        if stage == Stage::BeforeGrant {
            let Some(since) = rule_since else {
                return Self::Unknown(
                    "no admission rule keeps the creators of pipeline runs true, or it was changed: ask the administrator \
                     to set the chart value tekton.creators.enabled or to install the rule anew, and start the run anew"
                        .into(),
                );
            };
            if created.duration_since(since) <= RULE_STARTS {
                return Self::Unknown(format!(
                    "PipelineRun {run} was created before the admission rule that keeps creators true, or within a \
                     minute after it: start it anew"
                ).into());
            }
        }
        let unnamed = || {
            Self::Unknown(format!(
                "PipelineRun {run} names no creator: another run created it, the webhook gave no answer in time, or the \
                 name of the user has more than 512 bytes; start it anew"
            ).into())
        };
        creator.clone().map_or_else(unnamed, Self::Known)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(created: &str, creator: Option<&str>, since: Option<&str>, stage: Stage) -> RunCreator {
        let origin = Origin {
            run: "run".to_owned(),
            created: created.parse().unwrap(),
            creator: creator.map(str::to_owned),
        };
        RunCreator::of(Some(&origin), since.map(|it| it.parse().unwrap()), stage)
    }

    fn is_known(creator: &RunCreator) -> bool {
        matches!(creator, RunCreator::Known(it) if it == "carol")
    }

    #[test]
    fn a_creator_is_known_of_runs_that_are_younger_than_the_rule() {
        let rule = Some("2026-01-01T10:00:00Z");
        for (created, expected) in [
            ("2026-01-01T09:59:59Z", false),
            ("2026-01-01T10:00:00Z", false),
            ("2026-01-01T10:01:00Z", false),
            ("2026-01-01T10:01:01Z", true),
            ("2026-02-01T00:00:00Z", true),
        ] {
            let creator = of(created, Some("carol"), rule, Stage::BeforeGrant);
            assert_eq!(is_known(&creator), expected, "{created}: {creator:?}");
        }
    }

    #[test]
    fn without_the_rule_or_the_annotation_nobody_is_known() {
        let created = "2026-01-01T12:00:00Z";
        let rule = Some("2026-01-01T10:00:00Z");
        let without_rule = of(created, Some("carol"), None, Stage::BeforeGrant);
        let RunCreator::Unknown(why) = without_rule else {
            panic!("{without_rule:?}");
        };
        assert!(why.contains("tekton.creators.enabled"), "{why}");
        let without_name = of(created, None, rule, Stage::BeforeGrant);
        assert!(
            matches!(without_name, RunCreator::Unknown(_)),
            "{without_name:?}"
        );
        let without_run =
            RunCreator::of(None, rule.map(|it| it.parse().unwrap()), Stage::BeforeGrant);
        assert!(
            matches!(without_run, RunCreator::Unknown(_)),
            "{without_run:?}"
        );
    }

    #[test]
    fn after_the_grant_the_annotation_alone_counts_and_of_a_run_that_is_gone_nothing_is_known() {
        let created = "2026-01-01T12:00:00Z";
        let after = Stage::AfterGrant;
        assert!(is_known(&of(created, Some("carol"), None, after)));
        assert!(matches!(
            of(created, None, None, after),
            RunCreator::Unknown(_)
        ));
        assert!(matches!(
            RunCreator::of(None, None, after),
            RunCreator::Unknown(_)
        ));
    }
}
