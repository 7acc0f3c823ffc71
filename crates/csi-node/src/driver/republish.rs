//! Looks after an existing volume. The kubelet calls about once a minute and after its restarts.
//!
//! No state of the cluster makes this call fail, because after an error the kubelet removes a volume that a running
//! container uses. The end of access removes the content and leaves the mount. The return of access restores the
//! content. Without an answer about access everything stays as it is.
//!
//! The pod's token is not checked again. The pod was proven when the volume was made, and its name is in the volume.
//! The place is bound to the pod's UID, so no caller can give the content to another pod.

mod plan;

use std::time::Duration;

use connectors_api::{ConnectorKey, config::OnEnable};
use evaluation_api::access::{AccessAnswer, Decision, Requestable};
use futures::future::join_all;
use tokio::time::{Instant, sleep};
use tonic::Code;
use tracing::{info, warn};

use super::{Driver, admit::ungated};
use crate::{
    access::{Admitted, Case, to_confirm},
    content::Record,
    error::PublishError,
    evaluator::{Evaluator, question},
    kubernetes::{EventWord, Kubernetes, review},
    mounter::{Mounter, OnDisk, Passage},
    proto::csi::NodePublishVolumeRequest,
    volume::{FileWish, Publish, VolumeError, VolumePath, Wish},
};
use plan::{AccessHeard, Act, PodRequest, VolumeContent, plan};

/// One replica that lags behind must not empty a volume. So a no is asked twice.
const SECOND_OPINION: Duration = Duration::from_secs(1);

/// The answer of the evaluation service.
enum AccessReply {
    /// Nothing.
    None,
    No(PodRequest),
    Yes {
        /// It is the pod's own permission.
        pod_form: bool,
        /// The request that gives it, if any.
        request: String,
    },
}

fn admitted(request: String) -> AccessHeard {
    AccessHeard::Allowed(Admitted {
        request,
        since: Instant::now(),
    })
}

impl<E: Evaluator, K: Kubernetes, M: Mounter> Driver<E, K, M> {
    pub(super) async fn look_after(
        &self,
        place: &VolumePath,
        request: &NodePublishVolumeRequest,
        record: &Record,
        emptied: bool,
    ) -> Result<(), PublishError> {
        let (wish, files) = self.recognised(place, request, record)?;
        let act = self.act(place, &wish, emptied).await;
        if !matches!(act, Act::Leave | Act::Keep(..) | Act::Ask(_)) {
            self.kept.forget(place);
        }
        if !matches!(act, Act::Leave | Act::Fine) {
            self.outdated.forget(place);
        }
        match act {
            Act::Refill(admitted) => {
                if !self.refill(place, (record, &wish), &admitted, files).await {
                    self.empty_again(place).await;
                }
            }
            // Emptied once more in any case: a process may have died, or a step have failed, in the middle.
            Act::Leave | Act::Empty(..) if emptied => self.empty_again(place).await,
            Act::Leave => {}
            Act::Fine => self.refresh(place, &wish, files).await,
            Act::Empty(connector, passage) => {
                self.take_away(place, &wish, &connector, passage).await;
            }
            Act::Keep(connector, way) => self.keep(place, &wish, &connector, way),
            Act::Ask(connectors) => self.ask_for(place, &wish, &connectors).await,
        }
        Ok(())
    }

    /// The wish of a call, if it is about the existing volume.
    pub(super) fn recognised(
        &self,
        place: &VolumePath,
        request: &NodePublishVolumeRequest,
        record: &Record,
    ) -> Result<(Wish, Result<FileWish, VolumeError>), PublishError> {
        let parsed = Publish::parse(place, request, &self.settings.proxy);
        let Ok(Publish { wish, files, .. }) = parsed else {
            return Err(PublishError::OtherVolume);
        };
        if Record::new(place, &wish) != *record {
            return Err(PublishError::OtherVolume);
        }
        Ok((wish, files))
    }

    async fn act(&self, place: &VolumePath, wish: &Wish, emptied: bool) -> Act {
        let Some(config) = *self.switch.borrow() else {
            return Act::Leave;
        };
        if !config.enabled {
            return if emptied {
                Act::Refill(ungated(wish))
            } else {
                Act::Fine
            };
        }
        let each = wish.connectors.iter();
        let heard = each.map(async |connector| {
            let heard = self.access_to(wish, connector, emptied).await;
            (connector.clone(), heard)
        });
        let heard = join_all(heard).await;
        let content = if emptied {
            VolumeContent::Gone
        } else {
            // A passage that cannot be read counts as the default.
            let passage = self.mounting(place, M::passage).await;
            VolumeContent::There(passage.unwrap_or(Passage::Gated))
        };
        plan(&heard, content, config.on_enable)
    }

    /// `emptied`: a yes would restore the content, so it needs the same confirmation as a first mount.
    async fn access_to(&self, wish: &Wish, connector: &ConnectorKey, emptied: bool) -> AccessHeard {
        match self.answer(wish, connector).await {
            AccessReply::None => return AccessHeard::Unknown,
            AccessReply::Yes { pod_form, request } => {
                return self.held(wish, connector, emptied, pod_form, request).await;
            }
            AccessReply::No(_) => {}
        }
        // The volume may depend on an authorizer that is unknown to the evaluation service.
        let question = review(&wish.pod, connector, &to_confirm(wish, false));
        match self.kubernetes.review_access(question).await {
            Err(_) => return AccessHeard::Unknown,
            Ok(true) => return admitted(String::new()),
            Ok(false) => {}
        }
        sleep(SECOND_OPINION).await;
        match self.answer(wish, connector).await {
            AccessReply::None => AccessHeard::Unknown,
            AccessReply::Yes { pod_form, request } => {
                self.held(wish, connector, emptied, pod_form, request).await
            }
            AccessReply::No(request) => AccessHeard::NotAllowed(request),
        }
    }

    /// A yes of the evaluation service. Without the confirmation that an emptied volume needs, the volume stays as it
    /// is. The next call asks again.
    async fn held(
        &self,
        wish: &Wish,
        connector: &ConnectorKey,
        emptied: bool,
        pod_form: bool,
        request: String,
    ) -> AccessHeard {
        if emptied {
            let question = review(&wish.pod, connector, &to_confirm(wish, pod_form));
            if self.kubernetes.review_access(question).await != Ok(true) {
                return AccessHeard::Unknown;
            }
        }
        admitted(request)
    }

    /// The evaluation service's yes or no, if it gives one.
    async fn answer(&self, wish: &Wish, connector: &ConnectorKey) -> AccessReply {
        let Some(AccessAnswer {
            decision,
            request,
            requestable,
            ..
        }) = self.evaluator.ask(question(wish, connector)).await
        else {
            return AccessReply::None;
        };
        match decision {
            Decision::Denied => {
                let missing = PodRequest::Missing(requestable);
                AccessReply::No(request.map_or(missing, |request| PodRequest::of(&request)))
            }
            Decision::AllowedStanding(_) => AccessReply::Yes {
                pod_form: false,
                request: String::new(),
            },
            Decision::AllowedPod(_) => AccessReply::Yes {
                pod_form: true,
                request: request.map(|request| request.name).unwrap_or_default(),
            },
        }
    }

    /// Brings newer content after a token was renewed, or a connector or class changed. A running pod keeps its
    /// content while newer content cannot be made.
    async fn refresh(&self, place: &VolumePath, wish: &Wish, files: Result<FileWish, VolumeError>) {
        let refreshed = async {
            let files = files?;
            let renewed = match self.newer_content(place, wish, &files).await? {
                Some(made) => self.write(place, wish, made, M::refresh).await?,
                None => false,
            };
            self.holds_token(&files);
            Ok(renewed)
        };
        let refreshed: Result<bool, PublishError> = refreshed.await;
        self.metrics.refreshed(match &refreshed {
            Ok(true) => "renewed",
            Ok(false) => "unchanged",
            Err(_) => "failed",
        });
        match refreshed {
            Ok(_) => self.outdated.forget(place),
            Err(error) => self.keeps_older(place, wish, &error),
        }
    }

    /// The volume keeps its older content. The pod gets one event about each cause that does not pass by itself.
    fn keeps_older(&self, place: &VolumePath, wish: &Wish, error: &PublishError) {
        warn!(volume = place.volume_id(), %error, "the content cannot be renewed, and stays");
        let is_news = self.outdated.is_news(place, error.as_str());
        let passes = matches!(
            error.code(),
            Code::Unavailable | Code::Internal | Code::Aborted | Code::Cancelled
        );
        if is_news && !passes {
            let note = format!(
                "the volume keeps its older files, and their token is not renewed: {}",
                error.text()
            );
            self.kubernetes
                .tell(&wish.pod, EventWord::VolumeOutdated, note);
        }
    }

    /// False when the content is not there.
    async fn refill(
        &self,
        place: &VolumePath,
        (record, wish): (&Record, &Wish),
        admitted: &[Admitted],
        files: Result<FileWish, VolumeError>,
    ) -> bool {
        let record = record.clone();
        let refilled = async {
            let files = files?;
            let made = self.content(wish, admitted, &files).await?;
            self.write(place, wish, made, move |mounter, place, content| {
                mounter.refill(place, &record, content)
            })
            .await?;
            self.holds_token(&files);
            Ok(())
        };
        let refilled: Result<(), PublishError> = refilled.await;
        let volume = place.volume_id();
        match &refilled {
            Ok(()) => info!(volume, "access is back, and so is the content"),
            Err(error) => warn!(volume, %error, "access is back, and the content cannot be made"),
        }
        refilled.is_ok()
    }

    async fn take_away(
        &self,
        place: &VolumePath,
        wish: &Wish,
        connector: &ConnectorKey,
        passage: Passage,
    ) {
        self.digests.forget(place);
        if self.mounting(place, M::empty).await.is_err() {
            return;
        }
        warn!(volume = place.volume_id(), %connector, "no access, the content is gone");
        self.metrics.emptied.inc();
        let why = match passage {
            Passage::Gated => "access ended",
            Passage::WhileOff => {
                "the volume was mounted while approvals were off, and access was not granted since"
            }
        };
        let note = format!("connector {connector}: {why}, the content of the volume was removed");
        self.kubernetes
            .tell(&wish.pod, EventWord::AccessRevoked, note);
    }

    /// Removes all content from a volume whose marker says that it is empty.
    async fn empty_again(&self, place: &VolumePath) {
        self.digests.forget(place);
        let emptied = self.mounting(place, |mounter, place| match mounter.look(place)? {
            OnDisk::Emptied(_) => mounter.empty(place),
            OnDisk::Nothing | OnDisk::Partial | OnDisk::Published(_) | OnDisk::Rejected(_) => {
                Ok(())
            }
        });
        // The error is in the log, and the next call tries again.
        let _ = emptied.await;
    }

    /// A volume that was mounted while nothing was gated keeps its content. The pod gets one event about it.
    fn keep(&self, place: &VolumePath, wish: &Wish, connector: &ConnectorKey, way: OnEnable) {
        if !self.kept.is_news(place, way) {
            return;
        }
        info!(volume = place.volume_id(), %connector, %way, "mounted while approvals were off, and kept");
        let note = match way {
            OnEnable::Request => format!(
                "connector {connector}: the volume was mounted while approvals were off; it keeps its \
                 content while the pod's AccessRequest waits, and loses it when that ends without a grant"
            ),
            OnEnable::Keep | OnEnable::Empty => format!(
                "connector {connector}: the volume was mounted while approvals were off, and keeps its \
                 content until the pod ends; a new pod waits for its permission"
            ),
        };
        self.kubernetes
            .tell(&wish.pod, EventWord::MountedWhileOff, note);
    }

    async fn ask_for(
        &self,
        place: &VolumePath,
        wish: &Wish,
        connectors: &[(ConnectorKey, Requestable)],
    ) {
        let asked = join_all(connectors.iter().map(async |(connector, requestable)| {
            let (evaluator, kubernetes) = (&self.evaluator, &self.kubernetes);
            let mut case = Case::new(evaluator, kubernetes, self.memory(), wish, connector);
            (connector, case.ask_for(*requestable).await)
        }))
        .await;
        for (connector, asked) in &asked {
            if let Err(error) = asked {
                warn!(volume = place.volume_id(), %error, "access cannot be asked for");
                self.kept.forget(place);
                return self
                    .take_away(place, wish, connector, Passage::WhileOff)
                    .await;
            }
        }
        // Without an answer the next call asks again.
        if let Some((connector, _)) = asked
            .first()
            .filter(|_| asked.iter().all(|(_, it)| *it == Ok(true)))
        {
            self.keep(place, wish, connector, OnEnable::Request);
        }
    }
}
