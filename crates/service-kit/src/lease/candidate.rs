//! The knowledge of a candidate, and its decisions. Nothing here waits, sends or reads a clock.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use tokio::time::Instant;

use super::{Leadership, LeaseTerms, record};

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaseStep {
    /// Read the record.
    Look,
    /// Write the claim: take a free lease, or renew the held one.
    Write,
    /// Another process holds the lease, until this time if it stays silent.
    Wait(Instant),
}

/// How long a lease that became free is left to others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Patience {
    /// For any lease.
    pub(super) always: Duration,
    /// For one that another process held, in addition: that process, or a replica of it, may take it.
    pub(super) with_others: Duration,
}

/// The lease as last seen, and since when it has been so.
#[derive(Clone, Debug)]
struct Sighting {
    lease: Option<Lease>,
    since: Instant,
}

/// Everything a candidate has seen and done.
#[derive(Clone, Debug)]
pub(super) struct Candidate {
    me: String,
    terms: LeaseTerms,
    last: Option<Sighting>,
    /// Whether the last sighting may be acted on, or has to be looked at again first.
    fresh: bool,
    /// When the last renewal that succeeded was sent.
    renewed: Option<Instant>,
}

impl Candidate {
    pub(super) fn new(me: &str, terms: LeaseTerms) -> Self {
        Self {
            me: me.to_owned(),
            terms,
            last: None,
            fresh: false,
            renewed: None,
        }
    }

    /// The decision. A lease that became free is left to others for some time, if another one is to have it.
    pub(super) fn plan(&self, now: Instant, patience: Patience) -> LeaseStep {
        let Some(Sighting { lease, since }) = self.last.as_ref().filter(|_| self.fresh) else {
            return LeaseStep::Look;
        };
        let Patience {
            always,
            with_others,
        } = patience;
        let patience = always + with_others;
        let free_at = match lease {
            None => *since + always,
            Some(lease) => match record::holder(lease) {
                None => *since + patience,
                // Either held, or left by a former life of this process.
                Some(holder) if holder == self.me => return LeaseStep::Write,
                // The holder's own word counts when it is longer.
                Some(_) => *since + self.terms.duration.max(record::duration(lease)) + patience,
            },
        };
        if now >= free_at {
            LeaseStep::Write
        } else {
            LeaseStep::Wait(free_at)
        }
    }

    /// The record was read; the time is that of its arrival, for it may be older, but not younger.
    pub(super) fn saw(&mut self, lease: Option<Lease>, now: Instant) {
        self.fresh = true;
        if lease.as_ref().and_then(record::holder) != Some(self.me.as_str()) {
            self.renewed = None;
        }
        let unchanged = match (&self.last, &lease) {
            (
                Some(Sighting {
                    lease: Some(last), ..
                }),
                Some(lease),
            ) => record::same(last, lease),
            (Some(Sighting { lease: None, .. }), None) => true,
            (None | Some(_), _) => false,
        };
        if unchanged {
            return;
        }
        let since = match (&self.last, &lease) {
            // Deleted under a holder that may not know it yet: the time of this holder has to pass first.
            (
                Some(Sighting {
                    lease: Some(last), ..
                }),
                None,
            ) if record::holder(last).is_some() => {
                now + self.terms.duration.max(record::duration(last))
            }
            (None | Some(_), _) => now,
        };
        self.last = Some(Sighting { lease, since });
    }

    /// A claim was written. Leadership counts from its sending: no other process can have seen it before.
    pub(super) fn wrote(&mut self, lease: Lease, sent: Instant, now: Instant) {
        self.last = Some(Sighting {
            lease: Some(lease),
            since: now,
        });
        self.fresh = true;
        self.renewed = Some(sent);
    }

    /// Another process was faster where no lease had been seen. If its lease is gone by the next look, that
    /// process may not know it yet, so its time has to pass first.
    pub(super) fn overtaken(&mut self, now: Instant) {
        if let Some(Sighting { lease: None, since }) = &mut self.last {
            *since = now + self.terms.duration;
        }
    }

    /// Time passes, or a write failed or is in doubt: the record has to be looked at before the next step.
    pub(super) fn rest(&mut self) {
        self.fresh = false;
    }

    /// This process gives the lease back, or tries to.
    pub(super) const fn resign(&mut self) {
        self.renewed = None;
        self.fresh = false;
    }

    /// The holder in the record as last seen, living or not.
    pub(super) fn holder(&self) -> Option<&str> {
        record::holder(self.last.as_ref()?.lease.as_ref()?)
    }

    /// For how long the record has been the same here.
    pub(super) fn silence(&self, now: Instant) -> Duration {
        let since = self.last.as_ref().map_or(now, |last| last.since);
        now.saturating_duration_since(since)
    }

    /// The record to write.
    pub(super) fn claim(&self, name: &str, wall: Timestamp) -> Lease {
        let before = self.last.as_ref().and_then(|last| last.lease.as_ref());
        record::claimed(before, name, &self.me, self.terms.duration, wall)
    }

    pub(super) fn leadership(&self) -> Leadership {
        match self.renewed {
            Some(sent) => Leadership::Leader {
                until: sent + self.terms.hold,
            },
            None => Leadership::Follower,
        }
    }

    /// The record, if this candidate leads and knows its version.
    pub(super) fn held(&self, now: Instant) -> Option<&Lease> {
        let last = self
            .last
            .as_ref()
            .filter(|_| self.leadership().is_leader_at(now))?;
        last.lease
            .as_ref()
            .filter(|lease| record::holder(lease) == Some(self.me.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
    use tokio::time::Instant;

    use super::{Candidate, LeaseStep, Patience};
    use crate::lease::{Leadership, LeaseTerms};

    const SECOND: Duration = Duration::from_secs(1);

    fn lease(version: &str, holder: Option<&str>, seconds: i32) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.resource_version = Some(version.to_owned());
        lease.spec = Some(LeaseSpec {
            holder_identity: holder.map(str::to_owned),
            lease_duration_seconds: Some(seconds),
            ..LeaseSpec::default()
        });
        lease
    }

    fn me() -> Candidate {
        Candidate::new("me", LeaseTerms::default())
    }

    /// The next step after one sighting, this many seconds later.
    fn after(lease: Option<Lease>, seconds: u32) -> (LeaseStep, Instant) {
        let (mut candidate, start) = (me(), Instant::now());
        candidate.saw(lease, start);
        (
            candidate.plan(start + SECOND * seconds, Patience::default()),
            start,
        )
    }

    #[test]
    fn nothing_is_done_before_the_record_was_looked_at() {
        assert_eq!(
            me().plan(Instant::now(), Patience::default()),
            LeaseStep::Look
        );
    }

    #[test]
    fn what_is_free_is_taken_at_once() {
        for free in [
            None,
            Some(lease("1", None, 15)),
            Some(lease("1", Some(""), 15)),
            Some(lease("1", Some("me"), 15)),
        ] {
            assert_eq!(after(free.clone(), 0).0, LeaseStep::Write, "{free:?}");
        }
    }

    #[test]
    fn a_silent_holder_is_left_alone_for_his_time_or_ours_whichever_is_longer() {
        for (theirs, expected) in [(15, 15), (1, 15), (-5, 15), (60, 60)] {
            let held = Some(lease("1", Some("other"), theirs));
            let (action, start) = after(held.clone(), expected - 1);
            assert_eq!(
                action,
                LeaseStep::Wait(start + SECOND * expected),
                "{theirs}"
            );
            assert_eq!(after(held, expected).0, LeaseStep::Write, "{theirs}");
        }
    }

    #[test]
    fn the_times_in_the_record_are_for_people() {
        // The clock of the machine that wrote them may show anything.
        for renewed in ["2001-01-01T00:00:00Z", "2101-01-01T00:00:00Z"] {
            let mut held = lease("1", Some("other"), 15);
            let spec = held.spec.as_mut().unwrap();
            spec.renew_time = Some(MicroTime(renewed.parse().unwrap()));
            let (action, start) = after(Some(held.clone()), 0);
            assert_eq!(action, LeaseStep::Wait(start + SECOND * 15), "{renewed}");
            assert_eq!(after(Some(held), 15).0, LeaseStep::Write, "{renewed}");
        }
    }

    #[test]
    fn the_time_counts_from_when_the_change_was_seen_here() {
        let (mut candidate, start) = (me(), Instant::now());
        candidate.saw(Some(lease("1", Some("other"), 15)), start);
        candidate.saw(Some(lease("1", Some("other"), 15)), start + SECOND * 14);
        assert_eq!(
            candidate.plan(start + SECOND * 15, Patience::default()),
            LeaseStep::Write
        );
        candidate.saw(Some(lease("2", Some("other"), 15)), start + SECOND * 15);
        assert_eq!(
            candidate.plan(start + SECOND * 15, Patience::default()),
            LeaseStep::Wait(start + SECOND * 30)
        );
    }

    #[test]
    fn a_record_that_vanished_from_under_a_holder_is_not_free_at_once() {
        let (mut candidate, start) = (me(), Instant::now());
        candidate.saw(Some(lease("1", Some("other"), 15)), start);
        candidate.saw(None, start + SECOND);
        assert_eq!(
            candidate.plan(start + SECOND, Patience::default()),
            LeaseStep::Wait(start + SECOND * 16)
        );
        candidate.saw(None, start + SECOND * 16);
        assert_eq!(
            candidate.plan(start + SECOND * 16, Patience::default()),
            LeaseStep::Write
        );
    }

    #[test]
    fn a_record_that_vanished_after_its_holder_gave_it_back_is_free_at_once() {
        for nobody in [None, Some("")] {
            let (mut candidate, start) = (me(), Instant::now());
            candidate.saw(Some(lease("1", nobody, 15)), start);
            candidate.saw(None, start + SECOND);
            assert_eq!(
                candidate.plan(start + SECOND, Patience::default()),
                LeaseStep::Write
            );
        }
    }

    #[test]
    fn a_record_of_whoever_was_faster_counts_though_it_was_never_seen() {
        let (mut candidate, start) = (me(), Instant::now());
        candidate.saw(None, start);
        candidate.overtaken(start);
        candidate.rest();
        candidate.saw(None, start + SECOND);
        assert_eq!(
            candidate.plan(start + SECOND, Patience::default()),
            LeaseStep::Wait(start + SECOND * 15)
        );
        candidate.saw(Some(lease("1", None, 15)), start + SECOND * 2);
        assert_eq!(
            candidate.plan(start + SECOND * 2, Patience::default()),
            LeaseStep::Write
        );
    }

    #[test]
    fn a_leader_leads_from_when_it_sent_the_claim_and_not_for_the_whole_duration() {
        let (mut candidate, start) = (me(), Instant::now());
        candidate.saw(None, start);
        candidate.wrote(lease("1", Some("me"), 15), start, start + SECOND * 4);
        let leadership = candidate.leadership();
        assert_eq!(
            leadership,
            Leadership::Leader {
                until: start + SECOND * 10
            }
        );
        assert!(leadership.is_leader_at(start + SECOND * 9));
        assert!(!leadership.is_leader_at(start + SECOND * 10));
        assert_eq!(
            candidate.plan(start + SECOND * 6, Patience::default()),
            LeaseStep::Write
        );
    }

    #[test]
    fn a_leader_that_sees_another_holder_or_none_leads_no_longer() {
        for seen in [
            Some(lease("2", Some("other"), 15)),
            Some(lease("2", None, 15)),
            None,
        ] {
            let (mut candidate, start) = (me(), Instant::now());
            candidate.saw(None, start);
            candidate.wrote(lease("1", Some("me"), 15), start, start);
            candidate.saw(seen, start + SECOND);
            assert_eq!(candidate.leadership(), Leadership::Follower);
        }
    }

    #[test]
    fn a_write_in_doubt_costs_a_look_and_no_leadership_before_its_time() {
        let (mut candidate, start) = (me(), Instant::now());
        candidate.saw(None, start);
        candidate.wrote(lease("1", Some("me"), 15), start, start);
        candidate.rest();
        assert_eq!(
            candidate.plan(start + SECOND * 5, Patience::default()),
            LeaseStep::Look
        );
        assert!(candidate.leadership().is_leader_at(start + SECOND * 5));
        candidate.saw(Some(lease("2", Some("me"), 15)), start + SECOND * 5);
        assert_eq!(
            candidate.plan(start + SECOND * 5, Patience::default()),
            LeaseStep::Write
        );
        assert_eq!(
            candidate.leadership(),
            Leadership::Leader {
                until: start + SECOND * 10
            }
        );
    }

    /// Another look never restarts a running time: not that of a silent holder, of a vanished record, nor of
    /// a record that never existed.
    #[test]
    fn a_time_that_runs_does_not_start_anew_with_another_look() {
        type Begin = (
            &'static str,
            fn(&mut Candidate, Instant),
            fn() -> Option<Lease>,
        );
        let begins: [Begin; 3] = [
            (
                "silent",
                |it, now| it.saw(Some(lease("1", Some("other"), 15)), now),
                || Some(lease("1", Some("other"), 15)),
            ),
            (
                "vanished",
                |it, now| {
                    it.saw(Some(lease("1", Some("other"), 15)), now);
                    it.saw(None, now);
                },
                || None,
            ),
            (
                "never seen",
                |it, now| {
                    it.saw(None, now);
                    it.overtaken(now);
                },
                || None,
            ),
        ];
        for (name, begin, seen) in begins {
            for every in [1, 2, 4, 7, 14] {
                let (mut candidate, start) = (me(), Instant::now());
                begin(&mut candidate, start);
                for second in (every..15).step_by(every as usize) {
                    candidate.rest();
                    assert_eq!(candidate.plan(start, Patience::default()), LeaseStep::Look);
                    let now = start + SECOND * second;
                    candidate.saw(seen(), now);
                    let free = start + SECOND * 15;
                    assert_eq!(
                        candidate.plan(now, Patience::default()),
                        LeaseStep::Wait(free),
                        "{name}, each {every} s"
                    );
                }
                assert_eq!(
                    candidate.plan(start + SECOND * 15, Patience::default()),
                    LeaseStep::Write,
                    "{name}, each {every} s"
                );
            }
        }
    }
}
