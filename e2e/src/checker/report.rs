//! The result of an observation.

use std::fmt;

use jiff::{SignedDuration, Timestamp};

/// The promises that are checked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// I1: granted only on reads just before.
    Fresh,
    /// I2: gone as soon as its reason is.
    Revoked,
    /// I3: nothing across namespaces that no policy says.
    Tenants,
    /// I4: never more than one pod's use of one connector.
    Shape,
    /// I5: a no is final.
    Final,
    /// I8: no secret in the log.
    Secret,
    /// The log itself cannot be read, so nothing is known.
    Log,
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Fresh => "I1",
            Self::Revoked => "I2",
            Self::Tenants => "I3",
            Self::Shape => "I4",
            Self::Final => "I5",
            Self::Secret => "I8",
            Self::Log => "log",
        })
    }
}

/// A broken promise, and the calls that show it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    /// Which promise.
    pub rule: Rule,
    /// The object that breaks it.
    pub about: String,
    /// The violation.
    pub what: String,
    /// The audit IDs of the calls that show it.
    pub shown_by: Vec<String>,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            rule,
            about,
            what,
            shown_by,
        } = self;
        write!(f, "{rule}: {about}: {what} [{}]", shown_by.join(" "))
    }
}

/// A binding that was taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revocation {
    /// The binding.
    pub about: String,
    /// The cause of the end.
    pub why: String,
    /// From then until the binding was gone, without declared outages.
    pub took: SignedDuration,
}

/// The basis of the judgement: where a number is 0, nothing was proven about it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Seen {
    /// Lines of the log.
    pub lines: usize,
    /// Reads of the controllers.
    pub reads: usize,
    /// Requests.
    pub requests: usize,
    /// Requests that became final.
    pub final_requests: usize,
    /// Policies with their bodies.
    pub policies: usize,
    /// Roles and `RoleBinding`s, created.
    pub grants: usize,
    /// Those among them for pods of another namespace.
    pub grants_across: usize,
    /// Attempts to create a Role or `RoleBinding` of ours that the API server refused.
    pub refused_grants: usize,
    /// Roles and `RoleBinding`s whose reason ended.
    pub ended_grants: usize,
    /// Those among them that are still there, without having had their time.
    pub open_grants: usize,
    /// Grants that came after an end by another process, and were gone at once.
    pub races: usize,
}

/// The result of an observation.
#[derive(Debug)]
pub struct Report {
    /// Every broken promise.
    pub violations: Vec<Violation>,
    /// The basis of the judgement.
    pub seen: Seen,
    /// Every binding that was taken back.
    pub revocations: Vec<Revocation>,
    /// The last moment that the observation covers.
    pub until: Timestamp,
}

impl Report {
    /// The time in which 99 of 100 bindings were gone; nothing when none was taken back.
    #[must_use]
    pub fn p99(&self) -> Option<SignedDuration> {
        let mut times: Vec<_> = self.revocations.iter().map(|one| one.took).collect();
        times.sort_unstable();
        // The first that is not shorter than 99 of 100.
        let place = (times.len() * 99).div_ceil(100).checked_sub(1)?;
        times.get(place).copied()
    }

    /// Fails when a promise was broken, or when no grant was there to judge.
    ///
    /// # Panics
    /// Then; the message tells every violation.
    #[allow(clippy::panic, reason = "the failure of the test that asks")]
    pub fn assert_kept(&self) {
        assert!(self.violations.is_empty(), "{self}");
        assert!(self.seen.grants > 0, "there was no grant to judge: {self}");
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "until {}: {:?}, p99 of revocations {:?}",
            self.until,
            self.seen,
            self.p99()
        )?;
        for violation in &self.violations {
            writeln!(f, "{violation}")?;
        }
        Ok(())
    }
}
