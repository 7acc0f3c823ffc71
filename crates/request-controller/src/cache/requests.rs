//! The requests, with indexes by every object that can affect their outcome.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use connectors_api::{
    AccessRequest, AccessRequestSpec, access_policy::ObjectKind, access_request::Phase,
    request_order::RequestTuple,
};
use jiff::Timestamp;
use service_kit::{controller::queue::Urgency, watches::Unreadable};

use super::{
    GrantCache, Job, Keeps, KeptRequest, Link, PodCached, RequestCached, RequestHead, Wakes,
    index::{Index, IndexValues, add, known_key, own_key, take},
    request_cached::{EvidenceKinds, evidence},
    request_room::{self, RequestRoom},
    waiting_lines::{NamespacePair, WaitingLines, line_of},
};
use crate::{api::Name, interner::Interner};

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

/// Requests and their indexes. All of them share one copy of each name.
#[derive(Default)]
pub struct RequestCache {
    /// Boxed, because a node of the tree has room for eleven entries and is half full.
    all: BTreeMap<Name, Box<RequestCached>>,
    by_uid: BTreeMap<Arc<str>, Name>,
    by_pod: Index<Name, Name>,
    /// By the UID of the pod: requests of one tuple have it in common.
    by_pod_uid: Index<Arc<str>, Name>,
    by_connector: Index<Name, Name>,
    /// Open requests with a grant by each object of their evidence.
    by_evidence: Index<Arc<Link>, Name>,
    /// Open requests with a grant whose evidence is not cached, by the kinds of its objects and the namespace of their pods.
    without_evidence: Index<(ObjectKind, String), Name>,
    /// Granted requests of which another policy is undecided, by the namespace of their pods.
    awaiting_more: Index<String, Name>,
    /// True while the list of all requests is being received, in the order of their names.
    listed: bool,
    /// The places of waiting requests in their lines.
    lines: WaitingLines,
    /// The kinds in the evidence of requests, each set once.
    kinds: Interner<EvidenceKinds>,
    /// The shapes of the texts of requests, each once.
    shapes: Interner<str>,
    room: RequestRoom,
}

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
        self.all.get(name).map(Box::as_ref)
    }

    /// The readable request of that name.
    #[must_use]
    pub fn readable(&self, name: &Name) -> Option<&KeptRequest> {
        self.all.get(name)?.request.as_ref().ok()
    }

    /// The fields of a readable request by which it is found.
    #[must_use]
    pub fn head(&self, name: &Name) -> Option<&RequestHead> {
        self.readable(name).map(|it| &it.head)
    }

    /// The number of entries of each map. The exhaustive pattern requires a decision about each new field.
    #[cfg(test)]
    pub(super) fn census(&self) -> Vec<usize> {
        let Self {
            all,
            by_uid,
            by_pod,
            by_pod_uid,
            by_connector,
            listed: _,
            lines,
            by_evidence,
            without_evidence,
            awaiting_more,
            kinds,
            shapes,
            room,
        } = self;
        let [waiting, beyond, ungranted] = lines.census();
        vec![
            all.len(),
            by_uid.len(),
            by_pod.len(),
            by_pod_uid.len(),
            by_connector.len(),
            waiting,
            beyond,
            ungranted,
            by_evidence.len(),
            without_evidence.len(),
            awaiting_more.len(),
            kinds.len(),
            shapes.len(),
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

    /// The copy of a UID that its request has.
    pub(super) fn known_uid(&self, uid: &str) -> Option<Arc<str>> {
        own_key(&self.by_uid, uid)
    }

    /// The copy of a pod's UID that its requests have, or this one.
    pub(super) fn known_pod_uid(&self, uid: Arc<str>) -> Arc<str> {
        known_key(&self.by_pod_uid, uid)
    }

    /// The request with this UID.
    #[must_use]
    pub fn by_uid(&self, uid: &str) -> Option<&Name> {
        self.by_uid.get(uid)
    }

    /// Requests for this pod, whatever its UID.
    pub fn of_pod(&self, pod: &Name) -> impl Iterator<Item = &Name> {
        names(self.by_pod.get(pod))
    }

    /// Requests for pods of this namespace.
    pub fn of_pod_namespace(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        let pods = self.by_pod.range::<Name, _>(Name::new(namespace, "")..);
        let pods = pods.take_while(move |(pod, _)| pod.namespace == namespace);
        pods.flat_map(|(_, requests)| names(Some(requests)))
    }

    /// Requests for connectors of this namespace.
    pub fn of_namespace(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        let all = self.all.range::<Name, _>(Name::new(namespace, "")..);
        let names = all.map(|(name, _)| name);
        names.take_while(move |name| name.namespace == namespace)
    }

    /// Requests for this connector.
    pub fn of_connector(&self, connector: &Name) -> impl Iterator<Item = &Name> {
        names(self.by_connector.get(connector))
    }

    /// The other requests of the same tuple.
    #[must_use]
    pub fn tuple_of(&self, name: &Name) -> Vec<Name> {
        let head = self.head(name);
        let tuple = head.and_then(|it| Some((it.pod_uid.as_deref()?, it.tuple()?)));
        let same = tuple.into_iter();
        let same = same.flat_map(|(uid, tuple)| self.of_tuple(&name.namespace, uid, tuple));
        let others = same.filter(|it| *it != name);
        others.cloned().collect()
    }

    /// The readable requests of a tuple in a namespace.
    fn of_tuple(
        &self,
        namespace: &str,
        pod_uid: &str,
        tuple: RequestTuple,
    ) -> impl Iterator<Item = &Name> {
        let of_pod = names(self.by_pod_uid.get(pod_uid));
        let here = of_pod.filter(move |it| it.namespace == namespace);
        here.filter(move |it| self.head(it).and_then(RequestHead::tuple).as_ref() == Some(&tuple))
    }

    /// The request that decides about the tuple of a request that may not exist yet. One that is being deleted comes last.
    #[must_use]
    pub fn deciding_alike(
        &self,
        namespace: &str,
        spec: &AccessRequestSpec,
    ) -> Option<AccessRequest> {
        let pod_uid = spec.context.object_ref.uid.as_deref()?;
        let alike = self.of_tuple(namespace, pod_uid, RequestTuple::of(spec)?);
        let alike = alike.filter_map(|name| self.readable(name));
        // One is read, however many there are.
        alike
            .min_by_key(|it| (it.head.is_going, it.head.rank()))?
            .read()
    }

    /// True when at least `most` requests of pods of one namespace are stored for connectors of another one without
    /// being granted. Gated pods cost their author nothing, so decided requests count as long as they are kept.
    #[must_use]
    pub fn is_full(&self, namespace: &str, pods: &str, most: usize) -> bool {
        let line = (namespace.to_owned(), pods.to_owned());
        self.lines.is_full(&line, most)
    }

    /// True when a grant may be in force for a request.
    #[must_use]
    pub fn holds(&self, name: &Name) -> bool {
        self.all.get(name).is_some_and(|it| it.may_hold())
    }

    /// A request that waits and holds nothing, unless a part of it is not cached.
    #[must_use]
    pub fn waiting(&self, name: &Name) -> Option<&KeptRequest> {
        let cached = self.all.get(name)?;
        let is_whole = !cached.lacks_evidence;
        let request = cached.request.as_ref().ok()?;
        (is_whole && cached.is_open() && !cached.may_hold()).then_some(request)
    }

    /// True when a request is not final.
    #[must_use]
    pub fn is_open(&self, name: &Name) -> bool {
        self.all.get(name).is_some_and(|it| it.is_open())
    }

    /// True when a request is waiting.
    #[must_use]
    pub fn is_waiting(&self, name: &Name) -> bool {
        self.head(name).is_some_and(RequestHead::is_waiting)
    }

    /// Granted requests for pods of this namespace of which another policy is undecided.
    pub fn awaiting_more(&self, namespace: &str) -> impl Iterator<Item = &Name> {
        names(self.awaiting_more.get(namespace))
    }

    /// The open requests with a grant whose evidence may be this object.
    pub fn resting_on(&self, kind: &ObjectKind, object: &Name) -> impl Iterator<Item = &Name> {
        let link = Link {
            kind: kind.clone(),
            name: object.clone(),
        };
        let place = (kind.clone(), object.namespace.clone());
        names(self.by_evidence.get(&link)).chain(names(self.without_evidence.get(&place)))
    }

    /// The namespace of the pod that a request is for.
    #[must_use]
    pub fn pod_namespace(&self, name: &Name) -> Option<String> {
        Some(self.head(name)?.pod.namespace.clone())
    }

    /// The namespace of the pod of a request that is open and was not granted yet: objects there may grant it.
    #[must_use]
    pub(super) fn waits_in(&self, name: &Name) -> Option<&str> {
        let head = self.head(name)?;
        (head.is_open() && !head.was_granted).then_some(&head.pod.namespace)
    }

    /// The service account that a request is for.
    #[must_use]
    pub fn account(&self, name: &Name) -> Option<&str> {
        Some(&self.head(name)?.account)
    }

    /// True when at least `most` requests of the same pod namespace, for connectors of the same namespace, have
    /// waited longer. Requests elsewhere do not count, and are not known here.
    #[must_use]
    pub fn is_behind(&self, name: &Name, most: usize) -> bool {
        named(&self.all, name).is_some_and(|(name, head)| self.lines.is_behind(name, head, most))
    }

    /// A reconciliation found a request beyond the limit of its line, or within it. One beyond it is woken when the line
    /// becomes shorter.
    pub fn waits_for_place(&mut self, name: &Name, is_beyond: bool) {
        let waiting = named(&self.all, name).filter(|(_, head)| head.is_waiting());
        if let Some((name, head)) = waiting {
            self.lines.set_beyond(name, head, is_beyond);
        }
    }

    /// The line in which a request waits.
    pub(super) fn waiting_line(&self, name: &Name) -> Option<NamespacePair> {
        let head = self.head(name).filter(|it| it.is_waiting())?;
        Some(line_of(name, head))
    }

    /// The first request of a line that waits for its place.
    pub(super) fn next_in_line(&self, line: &NamespacePair) -> Option<&Name> {
        self.lines.next_beyond(line)
    }

    /// The waiting requests, except those behind `most` others.
    #[must_use]
    pub fn first_in_line(&self, most: usize) -> Vec<(Name, RequestHead)> {
        let names = self.lines.first(most);
        let heads = names.filter_map(|name| Some((name.clone(), self.head(name)?.clone())));
        heads.collect()
    }

    /// The numbers of requests in these namespaces.
    pub fn counts(&self, counts: impl Fn(&str) -> bool) -> Counts {
        let all = self.all.iter().filter(|(name, _)| counts(&name.namespace));
        let heads = || all.clone().filter_map(|(_, it)| it.head());
        let is_granted = |it: &&RequestHead| it.phase == Some(Phase::Granted);
        // Over, and its grant may be in force.
        let revoking = || heads().filter(|it| !it.is_open() && it.holds);
        Counts {
            pending: self.lines.count(&counts),
            granted: heads().filter(is_granted).count(),
            revoking: revoking().count(),
            revoking_since: revoking().filter_map(|it| it.over_since).min(),
        }
    }

    /// The kinds of the objects in the evidence of requests that may have a grant.
    pub(super) fn held_kinds(&self) -> impl Iterator<Item = (&ObjectKind, Keeps)> {
        let held = self.all.values().filter(|it| it.may_hold());
        let sets: BTreeSet<&EvidenceKinds> = held.map(|it| it.kinds.as_ref()).collect();
        let kinds = sets.into_iter().flatten();
        kinds.map(|(kind, keeps)| (kind, *keeps))
    }

    /// The jobs of these requests, urgent for those with a grant.
    #[must_use]
    pub fn wakes(&self, names: impl IntoIterator<Item = Name>) -> Wakes {
        let wake = |name: Name| {
            let known = self.all.get_key_value(&name);
            let lane = if known.is_some_and(|(_, it)| it.may_hold()) {
                Urgency::Urgent
            } else {
                Urgency::Normal
            };
            // A name that came with an event would be a further copy in all that follows from the job.
            (
                Job::Request(known.map_or(name, |(known, _)| known.clone())),
                lane,
            )
        };
        names.into_iter().map(wake).collect()
    }

    pub(super) fn put(
        &mut self,
        name: &Name,
        request: Result<Arc<AccessRequest>, Unreadable>,
        pods: &BTreeMap<Name, Box<PodCached>>,
        grants: &GrantCache,
    ) {
        // Every version comes with new copies of its texts. Jobs and timers have one of the name, the grant one of the UID, and the
        // pod those of its own name and UID: the version takes these.
        let name = &known_key(&self.all, name.clone());
        self.remove(name);
        let mut cached = self.within_room(request);
        let own = cached.uid.take();
        cached.uid = own.map(|uid| grants.known_uid(&uid).unwrap_or(uid));
        if let Ok(kept) = &mut cached.request {
            let head = &mut kept.head;
            head.uid.clone_from(&cached.uid);
            head.pod = known_key(pods, head.pod.clone());
            let of_pod = pods.get(&head.pod).map(|it| &it.uid);
            head.pod_uid = head.pod_uid.take().map(|uid| {
                let known = of_pod.filter(|it| **it == uid).cloned();
                known.unwrap_or_else(|| known_key(&self.by_pod_uid, uid))
            });
        }
        if let Some(uid) = &cached.uid {
            self.by_uid.insert(Arc::clone(uid), name.clone());
        }
        if let Some(head) = cached.head() {
            let own = || name.clone();
            add(&mut self.by_pod, head.pod.clone(), own());
            if let Some(uid) = &head.pod_uid {
                add(&mut self.by_pod_uid, Arc::clone(uid), own());
            }
            self.lines.put(name, head);
            for link in &cached.evidence {
                add(&mut self.by_evidence, Arc::clone(link), own());
            }
            for place in cached.places_without_evidence() {
                add(&mut self.without_evidence, place, own());
            }
            if head.awaits_more() {
                let pods = head.pod.namespace.clone();
                add(&mut self.awaiting_more, pods, own());
            }
            add(&mut self.by_connector, connector_of(name, head), own());
        }
        self.all.insert(name.clone(), Box::new(cached));
    }

    /// Removes the evidence from a long request if it is final, or if there is no room for it.
    fn within_room(&mut self, request: Result<Arc<AccessRequest>, Unreadable>) -> RequestCached {
        let request = match request {
            Ok(request) => request,
            Err(unreadable) => {
                return RequestCached {
                    uid: unreadable.metadata.uid.as_deref().map(Arc::from),
                    request: Err(Box::new(unreadable)),
                    lacks_evidence: false,
                    kinds: self.kinds.share(EvidenceKinds::default()),
                    room: 0,
                    evidence: Box::default(),
                };
            }
        };
        let mut kept = KeptRequest::of(&request, &mut self.shapes);
        let is_needed = kept.head.is_open() || kept.head.holds;
        let weight = request_room::weight(kept.bytes());
        let has_room = weight == 0 || is_needed && self.room.take(&kept.head.pod.namespace, weight);
        if !has_room {
            let shorter = request_room::without_evidence(AccessRequest::clone(&request));
            kept = kept.with_text_of(&shorter, &mut self.shapes);
        }
        let evidence: Box<[_]> = if has_room && kept.head.is_resting() {
            evidence(&request).map(Arc::new).collect()
        } else {
            Box::default()
        };
        RequestCached {
            uid: kept.head.uid.clone(),
            lacks_evidence: !has_room,
            kinds: self.kinds.share(request_room::kinds(&request)),
            room: if has_room { weight } else { 0 },
            evidence,
            request: Ok(kept),
        }
    }

    pub(super) fn remove(&mut self, name: &Name) -> Option<RequestCached> {
        let cached = *self.all.remove(name)?;
        if let Some(uid) = &cached.uid
            && self.by_uid.get(uid).is_some_and(|it| it == name)
        {
            self.by_uid.remove(uid);
        }
        self.kinds.release(&cached.kinds);
        if let Ok(request) = &cached.request {
            request.release(&mut self.shapes);
        }
        if let Some(head) = cached.head() {
            let pods = &head.pod.namespace;
            self.room.give_back(pods, cached.room);
            self.lines.remove(name, head);
            for link in &cached.evidence {
                take(&mut self.by_evidence, link, name);
            }
            for place in cached.places_without_evidence() {
                take(&mut self.without_evidence, &place, name);
            }
            take(&mut self.awaiting_more, pods, name);
            take(&mut self.by_pod, &head.pod, name);
            if let Some(uid) = &head.pod_uid {
                take(&mut self.by_pod_uid, uid, name);
            }
            take(&mut self.by_connector, &connector_of(name, head), name);
        }
        Some(cached)
    }
}

fn names(values: Option<&IndexValues<Name>>) -> impl Iterator<Item = &Name> {
    values.into_iter().flatten()
}

/// The shared name of a readable request, and its head.
fn named<'a>(
    all: &'a BTreeMap<Name, Box<RequestCached>>,
    name: &Name,
) -> Option<(&'a Name, &'a RequestHead)> {
    let (name, cached) = all.get_key_value(name)?;
    Some((name, cached.head()?))
}

fn connector_of(name: &Name, head: &RequestHead) -> Name {
    Name::new(&name.namespace, &head.connector)
}
