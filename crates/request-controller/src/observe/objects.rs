//! The objects of checks: the selected ones, and those of the evidence.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use connectors_api::access_policy::ObjectKind;
use kube::core::ApiResource;
use service_kit::report;
use tokio::time::{Duration, Instant, timeout, timeout_at};
use tracing::warn;

use super::{
    ObserveError, Via,
    links::{LinksRead, NamedObject},
    list_turns::{ListTurn, ListTurns, Pause},
    lists_ahead::ListsAhead,
};
use crate::{
    api::{Live, MOST_LISTED, Name, NotListed},
    cache::{KindObject, KindState, World},
    check_kinds,
    check_object::{self, CheckObject, ObjectText},
    dynamic::{self, FoundKind as KindFound},
    selection::{
        CheckCandidates, CheckTrouble, FoundCandidates, Selection, WantedObjects, kind_forbidden,
        kind_missing,
    },
    verdict::EvidenceLook,
};

/// The timeout of a single call.
const LIMIT: Duration = Duration::from_secs(4);
/// The limit of all calls of one reconciliation, because its worker has other jobs.
pub(crate) const LOOK: Duration = Duration::from_secs(8);
/// The limit of list calls of one reconciliation. Later policies are not judged this time.
const MOST_LISTS: usize = 256;

/// One reconciliation of a request, and the rest of its budget.
pub(super) struct Look {
    pub(super) via: Via,
    /// Whether questions before a grant have their turn.
    pub(super) has_turn: bool,
    pub(super) until: Instant,
    /// The objects between the pod and its approvals.
    pub(super) links: Arc<LinksRead>,
    /// The lists that have begun before.
    ahead: Arc<ListsAhead>,
    lists: AtomicUsize,
    has_rested: AtomicBool,
}

impl Look {
    pub(super) fn begin((via, has_turn): (Via, bool), links: Arc<LinksRead>) -> Self {
        Self {
            via,
            has_turn,
            until: Instant::now() + LOOK,
            links,
            ahead: Arc::default(),
            lists: AtomicUsize::new(0),
            has_rested: AtomicBool::new(false),
        }
    }

    /// The same with lists that have begun before.
    pub(super) fn with_lists(self, ahead: Arc<ListsAhead>) -> Self {
        Self { ahead, ..self }
    }

    /// A reconciliation waits for the rest once, before its first large list. A live observation follows a cached one
    /// that has waited already.
    fn pause(&self) -> Pause {
        let has_rested = self.has_rested.swap(true, Ordering::Relaxed);
        if has_rested || self.via == Via::Api {
            Pause::None
        } else {
            Pause::Rests
        }
    }

    fn may_list(&self) -> bool {
        self.lists.fetch_add(1, Ordering::Relaxed) < MOST_LISTS
    }
}

/// Reads check objects.
pub(super) struct CheckObjects {
    pub(super) world: Arc<World>,
    pub(super) live: Live,
    /// By the namespace of the objects.
    turns: ListTurns,
}

impl CheckObjects {
    pub(super) fn new(world: Arc<World>, live: Live) -> Self {
        Self {
            world,
            live,
            turns: ListTurns::default(),
        }
    }

    /// Waits for the namespace's turn if its objects are not cached and must be listed.
    pub(super) async fn turn(
        &self,
        wanted: &[WantedObjects],
        namespace: &str,
        look: &Look,
    ) -> Result<Option<ListTurn<'_>>, ObserveError> {
        let is_large = {
            let state = self.world.read();
            let mut kinds = wanted.iter().filter_map(|it| state.kinds.get(&it.kind));
            kinds.any(|it| !it.keeps(namespace))
        };
        if !is_large {
            return Ok(None);
        }
        let turn = timeout_at(look.until, self.turns.take(namespace, look.pause())).await;
        turn.map(Some)
            .map_err(|_| ObserveError::Crowded(namespace.to_owned()))
    }

    /// Finds the objects that a check selects.
    pub(super) async fn find(
        &self,
        wanted: &WantedObjects,
        namespace: &str,
        look: &Look,
    ) -> Result<FoundCandidates, ObserveError> {
        let selection = match &wanted.selection {
            Ok(selection) => selection,
            Err(problem) => return Ok(Err((CheckTrouble::SelectorInvalid, problem.to_string()))),
        };
        let resource = match self.resource(&wanted.kind, look.via).await? {
            Ok(resource) => resource,
            Err(trouble) => return Ok(Err(trouble)),
        };
        if look.via == Via::Caches
            && resource.is_complete
            && let Some(known) = self.kept(wanted, selection, namespace)
        {
            return Ok(Ok(selected(wanted, selection, known)));
        }
        if !look.may_list() {
            return Err(ObserveError::TooManyLists);
        }
        let ahead = look.ahead.take(&wanted.kind, namespace, &selection.labels);
        if let Some(listed) = ahead.await {
            return Ok(Ok(selected(wanted, selection, listed)));
        }
        let labels = selection.labels.to_string();
        let listed = self
            .live
            .check_objects(&resource.resource, namespace, &labels, MOST_LISTED);
        Ok(match listed.await {
            Ok(objects) => {
                let objects = objects.into_iter().map(Arc::new).collect();
                Ok(selected(wanted, selection, objects))
            }
            Err(NotListed::Missing) => Err(missing(&wanted.kind)),
            Err(NotListed::Forbidden) => Err(forbidden(
                &resource.resource.plural,
                &resource.resource.group,
            )),
            Err(error @ (NotListed::Unreadable(_) | NotListed::TooMuch(_))) => Err((
                CheckTrouble::ObjectUnreadable,
                format!("{} with {selection}: {error}", wanted.kind.kind),
            )),
            Err(NotListed::Call(error)) => return Err(error.into()),
        })
    }

    /// The objects with the labels of a check, from the cache. None if the namespace is not cached.
    fn kept(
        &self,
        wanted: &WantedObjects,
        selection: &Selection,
        namespace: &str,
    ) -> Option<Vec<Arc<CheckObject>>> {
        let state = self.world.read();
        let Some(cache) = state.kinds.get(&wanted.kind) else {
            return Some(Vec::new());
        };
        let found = cache.with_labels(namespace, &selection.labels)?;
        Some(found.into_iter().map(Arc::clone).collect())
    }

    /// Looks up an object of the evidence, with its text if it exists.
    pub(super) async fn look(
        &self,
        kind: &ObjectKind,
        name: &Name,
        uid: &str,
        via: Via,
    ) -> (EvidenceLook, Option<ObjectText>) {
        match self.named(kind, name, via).await {
            Ok(object) => looked(&object, uid),
            Err(error) => {
                warn!(object = %name, error = report(&error), "evidence not looked at");
                (EvidenceLook::Unknown, None)
            }
        }
    }

    /// Reads an object by its name.
    pub(super) async fn named(
        &self,
        kind: &ObjectKind,
        name: &Name,
        via: Via,
    ) -> Result<NamedObject, ObserveError> {
        let resource = match self.resource(kind, via).await? {
            Ok(resource) => resource,
            Err((trouble, message)) => return Ok(NamedObject::Trouble(trouble, message)),
        };
        let known = if via == Via::Caches && resource.is_complete {
            let state = self.world.read();
            let cache = state.kinds.get(kind);
            cache.map_or(Some(KindObject::Gone), |it| it.get(name).cloned())
        } else {
            None
        };
        let object = match known {
            Some(object) => object,
            None => self.read(kind, &resource.resource, name, via).await?,
        };
        Ok(match object {
            KindObject::There(object) => NamedObject::There(object),
            KindObject::Unreadable => unreadable(kind, name),
            KindObject::Gone => NamedObject::Gone,
        })
    }

    /// Reads an object live. The cache keeps it if a request depends on it and nothing was known.
    async fn read(
        &self,
        kind: &ObjectKind,
        resource: &ApiResource,
        name: &Name,
        via: Via,
    ) -> Result<KindObject, ObserveError> {
        let object = KindObject::of(self.live.check_object(resource, name).await?);
        if via == Via::Caches {
            let mut state = self.world.write();
            state.read_object(kind, name, object.clone());
        }
        Ok(object)
    }

    async fn resource(
        &self,
        kind: &ObjectKind,
        via: Via,
    ) -> Result<Result<KnownObjects, (CheckTrouble, String)>, ObserveError> {
        if let Err(problem) = check_kinds::may_be_check(kind) {
            return Ok(Err((CheckTrouble::KindRefused, problem)));
        }
        let state = self.world.read().kinds.get(kind).map(|it| it.state.clone());
        Ok(match state {
            Some(KindState::Watching(resource)) => Ok(KnownObjects {
                resource,
                is_complete: true,
            }),
            Some(KindState::Listing(resource)) => Ok(KnownObjects {
                resource,
                is_complete: false,
            }),
            // The kind may have been installed since it was last looked up.
            Some(KindState::Missing) if via == Via::Api => {
                let found = timeout(LIMIT, dynamic::find(self.live.client(), kind)).await;
                match found.unwrap_or(None) {
                    Some(KindFound::Readable(resource)) => Ok(KnownObjects {
                        resource,
                        is_complete: false,
                    }),
                    Some(KindFound::Not(_)) => Err(missing(kind)),
                    None => return Err(ObserveError::KindStarting(kind.kind.clone())),
                }
            }
            // Why a kind is refused is reported above.
            Some(KindState::Missing | KindState::Refused) => Err(missing(kind)),
            Some(KindState::Forbidden { plural, group }) => Err(forbidden(&plural, &group)),
            Some(KindState::NotNamespaced) => Err((
                CheckTrouble::KindNotNamespaced,
                format!("objects of kind {} are in no namespace", kind.kind),
            )),
            Some(KindState::Starting) | None => {
                return Err(ObserveError::KindStarting(kind.kind.clone()));
            }
        })
    }
}

struct KnownObjects {
    resource: ApiResource,
    is_complete: bool,
}

/// The state of an object of the evidence. One that is being deleted counts as deleted. The earlier state of one that
/// cannot be read any more does not count.
pub(super) fn looked(object: &NamedObject, uid: &str) -> (EvidenceLook, Option<ObjectText>) {
    match object {
        NamedObject::There(object) if object.uid() != Some(uid) || object.is_going() => {
            (EvidenceLook::Gone, None)
        }
        NamedObject::There(object) => match object.text() {
            Some(text) => (EvidenceLook::There, Some(text.clone())),
            None => (EvidenceLook::Useless, None),
        },
        // The objects were deleted together with their kind.
        NamedObject::Gone | NamedObject::Trouble(CheckTrouble::KindMissing, _) => {
            (EvidenceLook::Gone, None)
        }
        NamedObject::Trouble(CheckTrouble::ObjectUnreadable, _) => (EvidenceLook::Useless, None),
        NamedObject::Trouble(..) => (EvidenceLook::Unknown, None),
    }
}

fn unreadable(kind: &ObjectKind, name: &Name) -> NamedObject {
    let message = format!("{} {name} cannot be read", kind.kind);
    NamedObject::Trouble(CheckTrouble::ObjectUnreadable, message)
}

/// Selects among the objects with a check's labels by its fields. One object at a time is parsed, and only if there
/// are fields.
fn selected(
    wanted: &WantedObjects,
    selection: &Selection,
    objects: Vec<Arc<CheckObject>>,
) -> CheckCandidates {
    let mut found = CheckCandidates::default();
    for object in objects {
        if object.is_going() || !selection.has_labels(|key| object.label(key)) {
            continue;
        }
        let Some(text) = object.text() else {
            found.unread = Some(says_nothing(&wanted.kind, &object));
            continue;
        };
        let has_fields = match &selection.fields {
            None => true,
            Some(fields) => object.value().is_some_and(|it| fields.matches(&it)),
        };
        if has_fields {
            found.texts.push(text.clone());
        }
    }
    found
}

fn missing(kind: &ObjectKind) -> (CheckTrouble, String) {
    (CheckTrouble::KindMissing, kind_missing(kind))
}

pub(super) fn says_nothing(kind: &ObjectKind, object: &CheckObject) -> (CheckTrouble, String) {
    let message = format!(
        "{} {} has more than {} KiB, which is too large to be a check",
        kind.kind,
        object.name(),
        check_object::LARGEST / 1024
    );
    (CheckTrouble::ObjectUnreadable, message)
}

fn forbidden(plural: &str, group: &str) -> (CheckTrouble, String) {
    (CheckTrouble::KindForbidden, kind_forbidden(plural, group))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use connectors_api::{access_policy::Match, judge::ProofNeeded};
    use http::{Request, Response};
    use kube::{Client, client::Body};
    use serde_json::json;
    use service_kit::watches::Parse as _;

    use super::*;
    use crate::{
        check_object::AsText, observe::tests::reads_by, selection::SelectsNothing, testing::Cluster,
    };

    fn begin(via: Via) -> Look {
        Look::begin((via, false), Arc::default())
    }

    /// A check for ConfigMaps.
    fn config_maps() -> WantedObjects {
        WantedObjects {
            check: "approval".to_owned(),
            match_: Match::All,
            kind: ObjectKind {
                api_version: "v1".to_owned(),
                kind: "ConfigMap".to_owned(),
            },
            proof: ProofNeeded::No,
            selection: Err(SelectsNothing::Invalid("not needed here".to_owned())),
        }
    }

    #[tokio::test(start_paused = true)]
    async fn two_looks_at_a_time_read_what_a_namespace_has_too_much_of() {
        let controller = Cluster::new().controller();
        let wanted = [config_maps()];
        {
            let mut state = controller.world.write();
            let large = json!({"metadata": {}, "data": "x".repeat(200 * 1024)}).to_string();
            for number in 0..50 {
                let object = AsText::parse(&large).unwrap().object;
                let name = Name::new("loud", &number.to_string());
                let _ = state.object(&wanted[0].kind, &name, Some(Ok(object)));
            }
        }
        let objects = CheckObjects::new(Arc::clone(&controller.world), controller.live);
        let look = begin(Via::Caches);
        let turn = async |namespace| objects.turn(&wanted, namespace, &look).await;
        let first = turn("loud").await.unwrap();
        let second = turn("loud").await.unwrap();
        assert!(first.is_some() && second.is_some());
        assert!(matches!(turn("loud").await, Err(ObserveError::Crowded(_))));
        // Cached objects need no turn.
        assert!(turn("quiet").await.unwrap().is_none());
        drop(first);
        let look = begin(Via::Api);
        let third = objects.turn(&wanted, "loud", &look).await.unwrap();
        assert!(third.is_some());
        drop((second, third));
        assert_eq!(objects.turns.tenants(), 0);
    }

    /// A kind may be installed at any time, and a watch looks for it in intervals.
    #[tokio::test]
    async fn a_kind_that_the_caches_miss_is_looked_up_before_a_grant_alone() {
        let server = tower::service_fn(async |request: Request<Body>| {
            let answer = if request.uri().path() == "/api/v1" {
                json!({"groupVersion": "v1", "resources": [{
                    "name": "configmaps", "singularName": "configmap", "kind": "ConfigMap", "namespaced": true,
                    "verbs": ["get", "list", "watch"],
                }]})
            } else {
                json!({"metadata": {}, "items": []})
            };
            let answer = Body::from(answer.to_string().into_bytes());
            Ok::<_, Infallible>(Response::new(answer))
        });
        let cluster = Cluster::new();
        let mut controller = cluster.controller();
        reads_by(&mut controller, &cluster, Client::new(server, "apps"));
        let kind = config_maps().kind;
        let _ = controller.world.write().kind(&kind, KindState::Missing);
        let objects = &controller.observer.objects;
        let cached = objects.resource(&kind, Via::Caches).await.unwrap();
        let trouble = cached.err().map(|(trouble, _)| trouble);
        assert_eq!(trouble, Some(CheckTrouble::KindMissing));
        let live = objects.resource(&kind, Via::Api).await.unwrap();
        let live = live.ok().unwrap();
        assert_eq!(live.resource.plural, "configmaps");
        assert!(!live.is_complete);
    }

    /// An object of another UID is another object, whatever its size.
    #[test]
    fn evidence_is_gone_before_it_is_too_large() {
        let of = |uid: &str, is_going: bool, is_large: bool| {
            let time = is_going.then_some("2026-03-01T10:00:00Z");
            let object = json!({"metadata": {"uid": uid, "deletionTimestamp": time}});
            let object = AsText::parse(&object.to_string()).unwrap().object;
            let object = if is_large {
                object.without_text()
            } else {
                object
            };
            looked(&NamedObject::There(Arc::new(object)), "u").0
        };
        assert_eq!(of("u", false, false), EvidenceLook::There);
        assert_eq!(of("u", false, true), EvidenceLook::Useless);
        for is_large in [false, true] {
            assert_eq!(of("another", false, is_large), EvidenceLook::Gone);
            assert_eq!(of("u", true, is_large), EvidenceLook::Gone);
        }
    }

    #[test]
    fn a_cached_look_rests_once_and_a_live_look_never() {
        let look = begin(Via::Caches);
        let pauses = [look.pause(), look.pause()];
        assert_eq!(pauses, [Pause::Rests, Pause::None]);
        assert_eq!(begin(Via::Api).pause(), Pause::None);
    }

    #[test]
    fn a_look_that_asks_for_too_many_lists_stops() {
        let look = begin(Via::Api);
        assert!((0..MOST_LISTS).all(|_| look.may_list()));
        assert!(!look.may_list() && !look.may_list());
        assert!(begin(Via::Api).may_list());
    }

    #[test]
    fn who_may_not_read_a_kind_is_told_what_helps() {
        let (trouble, message) = forbidden("approvaltasks", "example.com");
        assert_eq!(trouble, CheckTrouble::KindForbidden);
        for part in [
            "approvaltasks may not be read",
            "checks.kinds",
            "connectors.alauda.io/aggregate-to-check-reader: \"true\"",
            "apiGroups: [\"example.com\"], resources: [\"approvaltasks\"]",
        ] {
            assert!(message.contains(part), "{message}");
        }
        assert!(!message.contains("connectors-check-reader"), "{message}");
    }
}
