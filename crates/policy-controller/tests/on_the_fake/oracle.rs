//! Judges a run of the controller by the events at the API server, at every instant of it.
//!
//! It shares no code with the controller: it reads the content of policies, the objects that they select and
//! the permissions of Roles and RoleBindings once more, as simply as the scenarios allow.
//!
//! - *Wider*: a write of the controller gives only permissions that the policies and objects gave at some
//!   moment between the live read of the policy and the write, and that read is at most five seconds old.
//! - *Late*: a permission that is held and not allowed is removed, and one that is allowed and not held is
//!   given, within a second. Only a fault excuses more, and only as long as its effect lasts.
//! - *Order*: nothing is given to a policy while some permission of it has to be removed. A new leader
//!   removes such permissions before it gives any to a policy that had none. A permission that stays allowed
//!   is never removed meanwhile.
//! - *Writes*: each one changes something, is made by a leader, and is about an object that is ours.
//! - *Told*: the status of a policy counts the same connectors and subjects.

mod conduct;
mod held;
mod history;
mod patience;
mod truth;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
    time::Duration,
};

use serde_json::Value;
use testkit::{CallRecord, ChangeRecord, Entry, Verb, What};

use conduct::Conduct;
use history::{History, label, list, text};

/// The UID of a policy, and a subject with a permission under it.
pub(crate) type Access = BTreeSet<(String, String)>;

/// How old a read may be that something is given on.
const FRESH: Duration = Duration::from_secs(5);
/// As long as a call or a line may be under way that will have broken.
const UNDER_WAY: Duration = Duration::from_secs(25);
/// Everything that nothing disturbs.
const USUAL: Duration = Duration::from_secs(1);
/// The kinds that decide which permissions are allowed.
const SOURCES: [&str; 4] = [
    "accesspolicies",
    "connectors",
    "namespaces",
    "serviceaccounts",
];

/// A live read of a policy.
#[derive(Clone, Copy)]
struct Look {
    /// When it was asked for.
    begun: Duration,
    /// Where in the log it was answered.
    place: usize,
}

/// Counts of a run. Where a count is 0, the run proves nothing about it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Seen {
    /// Writes of Roles and RoleBindings that gave permissions.
    pub(crate) gifts: usize,
    /// Those that took something.
    pub(crate) withdrawals: usize,
    /// Writes that were carried out.
    pub(crate) writes: usize,
    /// The longest time that something was held too long, missing, or told wrong.
    pub(crate) longest: Duration,
}

/// Something that is not yet as it has to be.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// Held, and not allowed.
    Withdrawal(String, String),
    /// Allowed, and not held.
    Gift(String, String),
    /// The status says something else.
    Status(String),
}

impl fmt::Display for Due {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Withdrawal(_, what) => write!(f, "{what} is held and not allowed"),
            Self::Gift(_, what) => write!(f, "{what} is allowed and not held"),
            Self::Status(uid) => write!(f, "the status of policy {uid} says something else"),
        }
    }
}

/// Follows the log of one run.
#[derive(Default)]
pub(crate) struct Judge {
    history: History,
    conduct: Conduct,
    /// How much of the log was read.
    place: usize,
    now: Duration,
    held: Access,
    is_changed: bool,
    due: BTreeMap<Due, Duration>,
    /// The last live reads, by process and UID of the policy.
    looks: BTreeMap<(String, String), Look>,
    incidents: Vec<patience::Incident>,
    /// Objects that another client changed, and that the controller has not written since.
    meddled: BTreeSet<(String, String)>,
    complaints: Vec<String>,
    /// The finished dues, each with its start and end. A call that broke is in the log at its end, which may
    /// be later.
    done: Vec<(Due, Duration, Duration)>,
    seen: Seen,
}

impl Judge {
    /// Processes the log since the last call, up to now.
    pub(crate) fn take(&mut self, log: &[Entry], now: Duration) {
        for (at, entry) in log.iter().enumerate() {
            if entry.at > self.now {
                self.instant_ends();
                self.now = entry.at;
            }
            self.place += 1;
            match &entry.what {
                What::Change(change) => self.change(change, log.get(at..).unwrap_or_default()),
                What::Call(call) => self.call(call),
                What::Sent(sent) => {
                    self.trouble(patience::of_event(entry.at, &sent.fault));
                }
                What::Killed(_) => self.trouble(Some(patience::of_death(entry.at))),
            }
        }
        self.instant_ends();
        self.now = self.now.max(now);
    }

    fn trouble(&mut self, incident: Option<patience::Incident>) {
        self.incidents.extend(incident);
        self.incidents.sort_by_key(|it| it.at);
    }

    /// Whether everything is as it has to be.
    pub(crate) fn is_settled(&self) -> bool {
        self.due.is_empty()
    }

    /// The permissions that Roles and RoleBindings of policies give.
    pub(crate) const fn held(&self) -> &Access {
        &self.held
    }

    pub(crate) const fn seen(&self) -> Seen {
        self.seen
    }

    /// The complaints about single writes.
    pub(crate) fn complaints(&self) -> &[String] {
        &self.complaints
    }

    /// Everything that was wrong. With nothing to tell, the run was right.
    pub(crate) fn verdict(&self) -> Vec<String> {
        let due = self.due.iter();
        let due = due.map(|(what, since)| (what, *since, self.now));
        let done = self.done.iter();
        let done = done.map(|(what, since, end)| (what, *since, *end));
        let late = done.chain(due).filter_map(|(what, since, end)| {
            let until = patience::until(&self.incidents, since, USUAL);
            let [since, until, end] = [since, until, end].map(|it| it.as_secs_f64());
            let line =
                format!("since {since:.3} s, {until:.3} s at most, until {end:.3} s: {what}");
            (end > until).then_some(line)
        });
        self.complaints.iter().cloned().chain(late).collect()
    }

    fn complain(&mut self, what: impl fmt::Display) {
        let line = format!("at {:.3} s: {what}", self.now.as_secs_f64());
        if !self.complaints.contains(&line) {
            self.complaints.push(line);
        }
    }

    fn call(&mut self, call: &CallRecord) {
        let point = &call.point;
        self.trouble(patience::of_call(call.begun, &call.fault));
        if point.resource == "accesspolicies" && call.code == Some(200) && !point.verb.writes() {
            self.read(call);
        }
        let wrong = self.conduct.call(call, &self.history, self.now);
        if point.verb.writes() && point.resource != "leases" && call.carried_out {
            self.seen.writes += usize::from(point.resource != "events");
        }
        for what in wrong {
            self.complain(what);
        }
    }

    /// A policy was read alone, or with all of its namespace. The list of all policies is no look at any of them.
    fn read(&mut self, call: &CallRecord) {
        let Some(answer) = &call.answer else { return };
        let found: Vec<&Value> = match call.point.verb {
            Verb::Get => vec![answer],
            Verb::List if !call.point.namespace.is_empty() => {
                list(answer, "/items").iter().collect()
            }
            Verb::List
            | Verb::Watch
            | Verb::Create
            | Verb::Update
            | Verb::Patch
            | Verb::Delete
            | Verb::DeleteCollection => return,
        };
        for policy in found {
            let uid = text(policy, "/metadata/uid").to_owned();
            let look = Look {
                begun: call.begun,
                place: self.place,
            };
            self.looks.insert((call.point.process.clone(), uid), look);
        }
    }

    fn change(&mut self, change: &ChangeRecord, rest: &[Entry]) {
        let before = self.held.clone();
        self.history.take(self.place, change);
        self.conduct.change(change, &self.history, self.now);
        let plural = change.plural.as_str();
        self.is_changed |= SOURCES.contains(&plural);
        if !["roles", "rolebindings"].contains(&plural) {
            return;
        }
        self.is_changed = true;
        self.held = held::held(&self.history);
        let key = (change.namespace.clone(), change.name.clone());
        if change.by == "cluster" {
            self.meddled.insert(key);
            return;
        }
        let is_meddled = self.meddled.remove(&key);
        let object = change.after.as_ref().or(change.before.as_ref());
        let uid = object
            .map_or("", |it| label(it, "accessPolicyUid"))
            .to_owned();
        let foreign = |it: &Arc<Value>| !held::is_ours(it);
        if change.before.as_ref().is_some_and(foreign) || change.after.as_ref().is_some_and(foreign)
        {
            self.complain(format!(
                "{plural} {} is somebody's own, or becomes it",
                change.name
            ));
        }
        let sent = conduct::sent(rest).unwrap_or(self.now);
        let gained: Access = self.held.difference(&before).cloned().collect();
        let lost: Access = before.difference(&self.held).cloned().collect();
        self.seen.withdrawals += usize::from(!lost.is_empty());
        if !gained.is_empty() {
            self.seen.gifts += 1;
            self.gave(change, &uid, sent, &gained, &before);
        }
        if !lost.is_empty() && !is_meddled {
            self.took(change, &uid, &lost);
        }
    }

    /// A subject holds more than before.
    fn gave(
        &mut self,
        change: &ChangeRecord,
        uid: &str,
        sent: Duration,
        gained: &Access,
        before: &Access,
    ) {
        let (by, name) = (&change.by, &change.name);
        let Some(look) = self.looks.get(&(by.clone(), uid.to_owned())).copied() else {
            return self.complain(format!("{by} gives {gained:?} and has not read the policy"));
        };
        let age = sent.saturating_sub(look.begun);
        if age > FRESH {
            self.complain(format!("{by} gives {gained:?} on what it read {age:?} ago"));
        }
        let allowed = truth::allowed(&self.history, look.place, self.place);
        let wider: Access = gained.difference(&allowed).cloned().collect();
        if !wider.is_empty() {
            self.complain(format!("{by} writes {name} and gives {wider:?}"));
        }
        let kept = before.intersection(&self.held);
        let left = kept.filter(|it| it.0 == uid && !allowed.contains(*it));
        let left: Access = left.cloned().collect();
        if !left.is_empty() {
            self.complain(format!("{by} gives by {name} before it takes {left:?}"));
        }
        let overdue = self.due.iter().filter_map(|(due, since)| match due {
            Due::Withdrawal(uid, what) => Some((uid.as_str(), what.as_str(), *since)),
            Due::Gift(..) | Due::Status(_) => None,
        });
        let held =
            |(uid, what): (&str, &str)| self.held.contains(&(uid.to_owned(), what.to_owned()));
        let overdue = overdue.filter(|(uid, what, _)| held((uid, what)));
        if let Some(what) = self.conduct.gives_first(by, uid, overdue) {
            self.complain(what);
        }
    }

    /// A subject holds less than before: no permission that the policy allowed all the time may be lost.
    fn took(&mut self, change: &ChangeRecord, uid: &str, lost: &Access) {
        let then = self.looks.get(&(change.by.clone(), uid.to_owned()));
        let then = then.map_or(self.place, |look| look.place);
        let now = truth::allowed(&self.history, self.place, self.place);
        let then = truth::allowed(&self.history, then, then);
        let stays: Access = lost
            .iter()
            .filter(|it| now.contains(*it) && then.contains(*it))
            .cloned()
            .collect();
        if !stays.is_empty() {
            let (by, name) = (&change.by, &change.name);
            self.complain(format!(
                "{by} takes {stays:?} with {name}, and they are allowed"
            ));
        }
    }

    /// Compares the actual with the required state, after all entries of one instant.
    fn instant_ends(&mut self) {
        if !std::mem::take(&mut self.is_changed) {
            return;
        }
        let allowed = truth::allowed(&self.history, self.place, self.place);
        let owned = |(uid, what): &(String, String)| (uid.clone(), what.clone());
        let withdrawals = self.held.difference(&allowed).map(owned);
        let gifts = allowed.difference(&self.held).map(owned);
        let withdrawals = withdrawals.map(|(uid, what)| Due::Withdrawal(uid, what));
        let gifts = gifts.map(|(uid, what)| Due::Gift(uid, what));
        let statuses = truth::told_wrong(&self.history, &allowed).into_iter();
        let due: BTreeSet<Due> = withdrawals
            .chain(gifts)
            .chain(statuses.map(Due::Status))
            .collect();
        let done: Vec<_> = self.due.extract_if(.., |it, _| !due.contains(it)).collect();
        for (what, since) in done {
            let took = self.now.saturating_sub(since);
            self.seen.longest = self.seen.longest.max(took);
            self.done.push((what, since, self.now));
        }
        for what in due {
            self.due.entry(what).or_insert(self.now);
        }
    }

    /// Whether everything due is late, regardless of the result of a running call.
    pub(crate) fn is_late(&self) -> bool {
        let until = |since: &Duration| patience::until(&self.incidents, *since, USUAL);
        let mut due = self.due.values();
        due.all(|since| self.now > until(since) + UNDER_WAY)
    }
}
