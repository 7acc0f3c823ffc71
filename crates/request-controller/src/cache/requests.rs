//! The requests, with indexes by every object that can affect their outcome.

use std::{
    collections::{BTreeMap, BTreeSet, btree_map::Entry},
    sync::Arc,
};

use connectors_api::{
    AccessRequest, AccessRequestSpec,
    access_policy::ObjectKind,
    access_request::{AccessRequestStatus, GrantState, Phase},
    request_order::RequestTuple,
};
use jiff::Timestamp;
use service_kit::{controller::queue::Urgency, watches::Unreadable};

use super::{
    Job, Keeps, Link, Wakes,
    index::{add, take},
    request_room::{self, RequestRoom},
};
use crate::{api::Name, grant::is_terminal};

/// A request as the cache keeps it.
#[derive(Clone, Debug)]
pub struct RequestCached {
    /// Its UID.
    pub uid: Option<String>,
    /// The request, or the reason why it is unreadable.
    pub request: Result<Arc<AccessRequest>, Unreadable>,
    /// The request is too long to be cached with its evidence: reconciliations read it live.
    pub lacks_evidence: bool,
    /// The kinds of the objects in its evidence.
    pub kinds: BTreeMap<ObjectKind, Keeps>,
    /// The room for long requests that it takes.
    room: usize,
}

/// The numbers of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Waiting requests.
    pub pending: usize,
    /// Granted requests.
    pub granted: usize,
    /// Requests that are over, and whose grant may be in force.
    pub revoking: usize,
    /// When the first of these was over.
    pub revoking_since: Option<Timestamp>,
}

/// Requests and their indexes.
#[derive(Default)]
pub struct RequestCache {
    all: BTreeMap<Name, RequestCached>,
    by_uid: BTreeMap<String, Name>,
    by_pod: BTreeMap<Name, BTreeSet<Name>>,
    by_pod_namespace: BTreeMap<String, BTreeSet<Name>>,
    by_namespace: BTreeMap<String, BTreeSet<Name>>,
    by_connector: BTreeMap<Name, BTreeSet<Name>>,
    /// By the request's namespace and its tuple.
    by_tuple: BTreeMap<(String, RequestTuple), BTreeSet<Name>>,
    /// Open requests with a grant by each object of their evidence.
    by_evidence: BTreeMap<Link, BTreeSet<Name>>,
    /// Open requests with a grant whose evidence is not cached, by the kinds of its objects and the namespace of their pods.
    without_evidence: BTreeMap<(ObjectKind, String), BTreeSet<Name>>,
    /// Granted requests of which another policy is undecided, by the namespace of their pods.
    awaiting_more: BTreeMap<String, BTreeSet<Name>>,
    /// True while the list of all requests is being received, in the order of their names.
    listed: bool,
    /// Waiting requests by the namespaces of their connector and their pod, the oldest first.
    waiting: BTreeMap<(String, String), BTreeSet<RequestPlace>>,
    /// Waiting requests beyond the limit of their line, which no other event wakes, by the same namespaces.
    beyond: BTreeMap<(String, String), BTreeSet<RequestPlace>>,
    /// The number of readable requests without access, by the same namespaces. Decided ones stay for hours or days.
    ungranted: BTreeMap<(String, String), usize>,
    room: RequestRoom,
}

type RequestPlace = (Option<Timestamp>, Option<String>, Name);

impl RequestCache {
    /// True when a request may be missing that is older than a cached one.
    #[must_use]
    pub const fn are_listed(&self) -> bool {
        self.listed
    }

    /// Records that a list of all requests begins (true) or is complete (false).
    pub const fn set_listed(&mut self, listed: bool) {
        self.listed = listed;
    }

    /// A request by its name.
    #[must_use]
    pub fn get(&self, name: &Name) -> Option<&RequestCached> {
        self.all.get(name)
    }

    /// The readable request of that name.
    #[must_use]
    pub fn readable(&self, name: &Name) -> Option<&Arc<AccessRequest>> {
        self.all.get(name)?.request.as_ref().ok()
    }

    /// The number of entries of each map. The exhaustive pattern requires a decision about each new field.
    #[cfg(test)]
    pub(super) fn census(&self) -> Vec<usize> {
        let Self {
            all,
            by_uid,
            by_pod,
            by_pod_namespace,
            by_namespace,
            by_connector,
            by_tuple,
            listed: _,
            waiting,
            ungranted,
            by_evidence,
            without_evidence,
            awaiting_more,
            beyond,
            room,
        } = self;
        vec![
            all.len(),
            by_uid.len(),
            by_pod.len(),
            by_pod_namespace.len(),
            by_namespace.len(),
            by_connector.len(),
            by_tuple.len(),
            waiting.len(),
            ungranted.len(),
            by_evidence.len(),
            without_evidence.len(),
            awaiting_more.len(),
            beyond.len(),
            usize::from(!room.is_empty()),
        ]
    }

    /// True when there is neither a request nor an index entry.
    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.census().iter().all(|entries| *entries == 0)
    }

    /// Every request.
    #[must_use]
    pub fn all(&self) -> Vec<Name> {
        self.all.keys().cloned().collect()
    }

    /// The request with this UID.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<&Name> {
        self.by_uid.get(uid)
    }

    /// Requests for this pod, whatever its UID.
    pub fn of_pod(&self, pod: &Name) -> impl Iterator<Item = &Name> {
        self.by_pod.get(pod).into_iter().flatten()
    }

    /// Requests for pods of this namespace.
    pub fn of_pod_namespace(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        self.by_pod_namespace.get(namespace).into_iter().flatten()
    }

    /// Requests for connectors of this namespace.
    pub fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        self.by_namespace.get(namespace).into_iter().flatten()
    }

    /// Requests for this connector.
    pub fn of_connector(&self, connector: &Name) -> impl Iterator<Item = &Name> {
        self.by_connector.get(connector).into_iter().flatten()
    }

    /// The other requests of the same tuple.
    #[must_use]
    pub fn tuple_of(&self, name: &Name) -> Vec<Name> {
        let tuple = self.readable(name).and_then(|it| tuple_of(name, it));
        let same = tuple.and_then(|it| self.by_tuple.get(&it));
        let others = same.into_iter().flatten().filter(|it| *it != name);
        others.cloned().collect()
    }

    /// The readable requests of the tuple of a request that may not exist yet.
    pub fn alike(
        &self,
        namespace: &str,
        spec: &AccessRequestSpec,
    ) -> impl Iterator<Item = &Arc<AccessRequest>> {
        let tuple = RequestTuple::of(spec).map(|it| (namespace.to_owned(), it));
        let names = tuple.and_then(|it| self.by_tuple.get(&it));
        let names = names.into_iter().flatten();
        names.filter_map(|name| self.readable(name))
    }

    /// True when at least `most` requests of pods of one namespace are stored for connectors of another one without
    /// being granted. Gated pods cost their author nothing, so decided requests count as long as they are kept.
    #[must_use]
    pub fn is_full(&self, namespace: &str, pods: &str, most: usize) -> bool {
        let line = (namespace.to_owned(), pods.to_owned());
        self.ungranted.get(&line).copied().unwrap_or_default() >= most
    }

    /// True when a grant may be in force for a request.
    #[must_use]
    pub fn holds(&self, name: &Name) -> bool {
        self.all.get(name).is_some_and(may_hold)
    }

    /// A request that waits and holds nothing, unless a part of it is not cached.
    #[must_use]
    pub fn waiting(&self, name: &Name) -> Option<&Arc<AccessRequest>> {
        let cached = self.all.get(name)?;
        let is_whole = !cached.lacks_evidence;
        let request = cached.request.as_ref().ok()?;
        (is_whole && is_open(cached) && !may_hold(cached)).then_some(request)
    }

    /// True when a request is not final.
    #[must_use]
    pub fn is_open(&self, name: &Name) -> bool {
        self.all.get(name).is_some_and(is_open)
    }

    /// True when a request is waiting.
    #[must_use]
    pub fn is_waiting(&self, name: &Name) -> bool {
        self.all.get(name).is_some_and(is_waiting)
    }

    /// Granted requests for pods of this namespace of which another policy is undecided.
    pub fn awaiting_more(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        self.awaiting_more.get(namespace).into_iter().flatten()
    }

    /// The open requests with a grant whose evidence may be this object.
    pub fn resting_on(&self, kind: &ObjectKind, object: &Name) -> impl Iterator<Item = &Name> {
        let link = Link {
            kind: kind.clone(),
            name: object.clone(),
        };
        let known = self.by_evidence.get(&link).into_iter().flatten();
        let place = (kind.clone(), object.namespace.clone());
        let unknown = self.without_evidence.get(&place).into_iter().flatten();
        known.chain(unknown)
    }

    /// The namespace of the pod that a request is for.
    #[must_use]
    pub fn pod_namespace(&self, name: &Name) -> Option<String> {
        Some(pod_of(self.readable(name)?).namespace)
    }

    /// The namespace of the pod of a request that is open and was not granted yet: objects there may grant it.
    #[must_use]
    pub(super) fn waits_in(&self, name: &Name) -> Option<&str> {
        let cached = self.all.get(name)?;
        let request = cached.request.as_ref().ok()?;
        let pods = &request.spec.context.object_ref.namespace;
        let was_granted = request
            .status
            .as_ref()
            .is_some_and(|it| it.granted_at.is_some());
        (is_open(cached) && !was_granted).then_some(pods)
    }

    /// The service account that a request is for.
    #[must_use]
    pub fn account(&self, name: &Name) -> Option<&String> {
        Some(&self.readable(name)?.spec.subject.name)
    }

    /// True when at least `most` requests of the same pod namespace, for connectors of the same namespace, have
    /// waited longer. Requests elsewhere do not count, and are not known here.
    #[must_use]
    pub fn is_behind(&self, name: &Name, most: usize) -> bool {
        let Some(request) = self.readable(name) else {
            return false;
        };
        let waiting = self.waiting.get(&line_of(name, request));
        let Some(waiting) = waiting.filter(|it| it.len() >= most) else {
            // Most lines are short, and are not counted.
            return most == 0;
        };
        let own = place(name, request);
        let before = waiting.iter().take_while(|it| **it < own);
        before.take(most).count() >= most
    }

    /// A reconciliation found a request beyond the limit of its line, or within it. One beyond it is woken when the line
    /// becomes shorter.
    pub fn waits_for_place(&mut self, name: &Name, is_beyond: bool) {
        let cached = self.all.get(name).filter(|it| is_waiting(it));
        if let Some(request) = cached.and_then(|it| it.request.as_deref().ok()) {
            let (line, place) = (line_of(name, request), place(name, request));
            if is_beyond {
                add(&mut self.beyond, line, place);
            } else {
                take(&mut self.beyond, &line, &place);
            }
        }
    }

    /// The line in which a request waits.
    pub(super) fn waiting_line(&self, name: &Name) -> Option<(String, String)> {
        let cached = self.all.get(name).filter(|it| is_waiting(it))?;
        Some(line_of(name, cached.request.as_ref().ok()?))
    }

    /// The first request of a line that waits for its place.
    pub(super) fn next_in_line(&self, line: &(String, String)) -> Option<&Name> {
        let (.., name) = self.beyond.get(line)?.first()?;
        Some(name)
    }

    /// The waiting requests, except those behind `most` others.
    #[must_use]
    pub fn first_in_line(&self, most: usize) -> Vec<Arc<AccessRequest>> {
        let lines = self.waiting.values();
        let names = lines.flat_map(|line| line.iter().take(most).map(|(.., name)| name));
        names
            .filter_map(|name| self.readable(name).cloned())
            .collect()
    }

    /// The numbers of requests.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let is_granted = |it: &&RequestCached| phase(it) == Some(Phase::Granted);
        let over = self.all.values().filter_map(over_and_held);
        let revoking = || {
            over.clone()
                .map(|status| status.ended_at.or(status.granted_at))
        };
        Counts {
            pending: self.waiting.values().map(BTreeSet::len).sum(),
            granted: self.all.values().filter(is_granted).count(),
            revoking: revoking().count(),
            revoking_since: revoking().flatten().min(),
        }
    }

    /// The jobs of these requests, urgent for those with a grant.
    #[must_use]
    pub fn wakes(&self, names: impl IntoIterator<Item = Name>) -> Wakes {
        let wake = |name: Name| {
            let lane = if self.holds(&name) {
                Urgency::Urgent
            } else {
                Urgency::Normal
            };
            (Job::Request(name), lane)
        };
        names.into_iter().map(wake).collect()
    }

    pub(super) fn put(&mut self, name: &Name, request: Result<Arc<AccessRequest>, Unreadable>) {
        self.remove(name);
        let uid = match &request {
            Ok(request) => request.metadata.uid.clone(),
            Err(unreadable) => unreadable.metadata.uid.clone(),
        };
        if let Some(uid) = &uid {
            self.by_uid.insert(uid.clone(), name.clone());
        }
        add(&mut self.by_namespace, name.namespace.clone(), name.clone());
        let cached = self.within_room(uid, request);
        if let Ok(request) = &cached.request {
            let pod = pod_of(request);
            add(
                &mut self.by_pod_namespace,
                pod.namespace.clone(),
                name.clone(),
            );
            if is_waiting(&cached) {
                add(
                    &mut self.waiting,
                    line_of(name, request),
                    place(name, request),
                );
            }
            if phase(&cached) != Some(Phase::Granted) {
                let count = self.ungranted.entry(line_of(name, request));
                *count.or_default() += 1;
            }
            add(&mut self.by_pod, pod, name.clone());
            if let Some(tuple) = tuple_of(name, request) {
                add(&mut self.by_tuple, tuple, name.clone());
            }
            for link in evidence(&cached) {
                add(&mut self.by_evidence, link, name.clone());
            }
            for place in places_without_evidence(&cached) {
                add(&mut self.without_evidence, place, name.clone());
            }
            if awaits_more(&cached) {
                let pods = &request.spec.context.object_ref.namespace;
                add(&mut self.awaiting_more, pods.clone(), name.clone());
            }
            add(
                &mut self.by_connector,
                connector_of(name, request),
                name.clone(),
            );
        }
        self.all.insert(name.clone(), cached);
    }

    /// Removes the evidence from a long request if it is final, or if there is no room for it.
    fn within_room(
        &mut self,
        uid: Option<String>,
        request: Result<Arc<AccessRequest>, Unreadable>,
    ) -> RequestCached {
        let mut cached = RequestCached {
            uid,
            request,
            lacks_evidence: false,
            kinds: BTreeMap::new(),
            room: 0,
        };
        let is_needed = is_open(&cached) || may_hold(&cached);
        if let Ok(request) = &mut cached.request {
            cached.kinds = request_room::kinds(request);
            let weight = request_room::weight(request);
            let namespace = &request.spec.context.object_ref.namespace;
            if weight > 0 && is_needed && self.room.take(namespace, weight) {
                cached.room = weight;
            } else if weight > 0 {
                cached.lacks_evidence = true;
                let whole = AccessRequest::clone(request);
                *request = Arc::new(request_room::without_evidence(whole));
            }
        }
        cached
    }

    pub(super) fn remove(&mut self, name: &Name) -> Option<RequestCached> {
        let cached = self.all.remove(name)?;
        if let Some(uid) = &cached.uid
            && self.by_uid.get(uid) == Some(name)
        {
            self.by_uid.remove(uid);
        }
        take(&mut self.by_namespace, &name.namespace, name);
        if let Ok(request) = &cached.request {
            let pod = pod_of(request);
            self.room.give_back(&pod.namespace, cached.room);
            take(&mut self.by_pod_namespace, &pod.namespace, name);
            let (line, own) = (line_of(name, request), place(name, request));
            take(&mut self.waiting, &line, &own);
            take(&mut self.beyond, &line, &own);
            if phase(&cached) != Some(Phase::Granted)
                && let Entry::Occupied(mut count) = self.ungranted.entry(line)
            {
                *count.get_mut() -= 1;
                if *count.get() == 0 {
                    count.remove();
                }
            }
            for link in evidence(&cached) {
                take(&mut self.by_evidence, &link, name);
            }
            for place in places_without_evidence(&cached) {
                take(&mut self.without_evidence, &place, name);
            }
            take(&mut self.awaiting_more, &pod.namespace, name);
            take(&mut self.by_pod, &pod, name);
            if let Some(tuple) = tuple_of(name, request) {
                take(&mut self.by_tuple, &tuple, name);
            }
            take(&mut self.by_connector, &connector_of(name, request), name);
        }
        Some(cached)
    }
}

/// The pod of a request.
#[must_use]
pub fn pod_of(request: &AccessRequest) -> Name {
    let pod = &request.spec.context.object_ref;
    Name::new(&pod.namespace, &pod.name)
}

fn connector_of(name: &Name, request: &AccessRequest) -> Name {
    Name::new(&name.namespace, &request.spec.connector_ref.name)
}

fn tuple_of(name: &Name, request: &AccessRequest) -> Option<(String, RequestTuple)> {
    Some((name.namespace.clone(), RequestTuple::of(&request.spec)?))
}

fn line_of(name: &Name, request: &AccessRequest) -> (String, String) {
    (name.namespace.clone(), pod_of(request).namespace)
}

fn place(name: &Name, request: &AccessRequest) -> RequestPlace {
    let created = request.metadata.creation_timestamp.as_ref();
    (
        created.map(|time| time.0),
        request.metadata.uid.clone(),
        name.clone(),
    )
}

fn phase(cached: &RequestCached) -> Option<Phase> {
    cached.request.as_ref().ok()?.status.as_ref()?.phase
}

fn is_open(cached: &RequestCached) -> bool {
    !phase(cached).is_some_and(is_terminal)
}

/// The status of a request that is over, and whose grant may be in force.
fn over_and_held(cached: &RequestCached) -> Option<&AccessRequestStatus> {
    let request = cached.request.as_ref().ok()?;
    let status = request.status.as_ref()?;
    (!is_open(cached) && holds(request)).then_some(status)
}

fn is_waiting(cached: &RequestCached) -> bool {
    cached.request.is_ok() && is_open(cached) && phase(cached) != Some(Phase::Granted)
}

fn awaits_more(cached: &RequestCached) -> bool {
    let Ok(request) = &cached.request else {
        return false;
    };
    let mut policies = request.status.iter().flat_map(|it| &it.policies);
    is_open(cached) && holds(request) && policies.any(|entry| entry.grant.is_none())
}

/// The request, if the end of an object may end a grant of it.
fn resting(cached: &RequestCached) -> Option<&AccessRequest> {
    let request = cached.request.as_deref().ok()?;
    (is_open(cached) && may_hold(cached)).then_some(request)
}

/// The objects that the grants of a request rest on, as far as they are cached.
fn evidence(cached: &RequestCached) -> impl Iterator<Item = Link> {
    resting(cached).into_iter().flat_map(|request| {
        let pods = &request.spec.context.object_ref.namespace;
        let policies = request.status.iter().flat_map(|it| &it.policies);
        let refs = policies.flat_map(|it| &it.check_refs);
        let refs = refs.filter_map(|it| it.ref_.as_ref());
        refs.map(|it| Link {
            kind: ObjectKind {
                api_version: it.api_version.clone(),
                kind: it.kind.clone(),
            },
            name: Name::new(pods, &it.name),
        })
    })
}

/// The kinds and the namespace of the objects that the grants of a request rest on, if no more is cached.
fn places_without_evidence(cached: &RequestCached) -> impl Iterator<Item = (ObjectKind, String)> {
    let request = resting(cached).filter(|_| cached.lacks_evidence);
    request.into_iter().flat_map(|request| {
        let pods = &request.spec.context.object_ref.namespace;
        cached.kinds.keys().map(|kind| (kind.clone(), pods.clone()))
    })
}

/// An unreadable request may have a grant.
fn may_hold(cached: &RequestCached) -> bool {
    cached.request.as_ref().map_or(true, |it| holds(it))
}

/// True when a grant may be in force for a request, which includes an unfinished revocation.
#[must_use]
pub fn holds(request: &AccessRequest) -> bool {
    let Some(status) = &request.status else {
        return false;
    };
    let active = status.policies.iter().any(|entry| {
        let grant = entry.grant.as_ref();
        grant.is_some_and(|grant| grant.state != GrantState::Ended)
    });
    active || status.phase == Some(Phase::Revoked) && status.revoked_at.is_none()
}
