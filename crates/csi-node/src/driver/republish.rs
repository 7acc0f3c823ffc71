//! Looking after a volume that is there. The kubelet calls about once a minute and after its restarts.
//!
//! Nothing in here fails because of the state of the cluster: a kubelet that gets an error tears down
//! what a running container uses. Access that ended takes the content away and leaves the mount; access
//! that came back brings it again; where nobody can be asked everything stays as it is.
//!
//! The pod's token is not looked at again. Who the volume is for was proven when it was made, is written
//! in it, and its place is bound to that pod's UID: whoever calls, the content goes to nobody else.

use std::time::Duration;

use evaluation_api::access::{AccessAnswer, Decision};
use futures::future::join_all;
use tokio::time::{Instant, sleep};
use tracing::{info, warn};

use super::Driver;
use crate::{
    access::{Admitted, to_confirm},
    content::Record,
    error::PublishError,
    evaluator::{Evaluator, question},
    kubernetes::{Kubernetes, Word, review},
    mounter::Mounter,
    proto::csi::NodePublishVolumeRequest,
    volume::{ConnectorKey, Place, Publish, Wish},
};

/// One replica that lags behind must not empty a volume: the no is heard twice.
const SECOND_OPINION: Duration = Duration::from_secs(1);

/// What is known about access now.
enum Access {
    /// To everything.
    Held(Vec<Admitted>),
    /// Not to this one.
    Over(ConnectorKey),
    /// Nobody could be asked.
    Unknown,
}

/// What the evaluation service says.
enum Answer {
    /// Nothing.
    None,
    No,
    Yes {
        /// It is the pod's own permission.
        pod_form: bool,
        /// The request that it comes from, if any.
        request: String,
    },
}

fn admitted(request: String) -> Access {
    Access::Held(vec![Admitted {
        request,
        since: Instant::now(),
    }])
}

impl<E: Evaluator, K: Kubernetes, M: Mounter> Driver<E, K, M> {
    pub(super) async fn look_after(
        &self,
        place: &Place,
        request: &NodePublishVolumeRequest,
        record: &Record,
        emptied: bool,
    ) -> Result<(), PublishError> {
        let Ok(Publish { wish, .. }) = Publish::parse(place, request) else {
            return Err(PublishError::OtherVolume);
        };
        if Record::new(place, &wish) != *record {
            return Err(PublishError::OtherVolume);
        }
        match self.access(&wish, emptied).await {
            Access::Held(admitted) if emptied => self.refill(place, record, &wish, &admitted).await,
            Access::Over(connector) => self.take_away(place, &wish, connector, emptied).await,
            Access::Held(_) | Access::Unknown => {}
        }
        Ok(())
    }

    /// `emptied`: a yes would bring content, so it needs the same confirmation as a first mount.
    async fn access(&self, wish: &Wish, emptied: bool) -> Access {
        match self.is_gated() {
            None => return Access::Unknown,
            Some(false) => return Access::Held(Self::free(wish)),
            Some(true) => {}
        }
        let each = wish.connectors.iter();
        let answers =
            join_all(each.map(|connector| self.access_to(wish, connector, emptied))).await;
        let mut admitted = Vec::new();
        let mut unknown = false;
        for answer in answers {
            match answer {
                Access::Held(held) => admitted.extend(held),
                Access::Over(connector) => return Access::Over(connector),
                Access::Unknown => unknown = true,
            }
        }
        if unknown {
            Access::Unknown
        } else {
            Access::Held(admitted)
        }
    }

    async fn access_to(&self, wish: &Wish, connector: &ConnectorKey, emptied: bool) -> Access {
        match self.answer(wish, connector).await {
            Answer::None => return Access::Unknown,
            Answer::Yes { pod_form, request } => {
                return self.held(wish, connector, emptied, pod_form, request).await;
            }
            Answer::No => {}
        }
        // The volume may rest on an authorizer that the evaluation service knows nothing about.
        let question = review(&wish.pod, connector, &to_confirm(wish, false));
        match self.kubernetes.review_access(question).await {
            Err(_) => return Access::Unknown,
            Ok(true) => return admitted(String::new()),
            Ok(false) => {}
        }
        sleep(SECOND_OPINION).await;
        match self.answer(wish, connector).await {
            Answer::None => Access::Unknown,
            Answer::Yes { pod_form, request } => {
                self.held(wish, connector, emptied, pod_form, request).await
            }
            Answer::No => Access::Over(connector.clone()),
        }
    }

    /// A yes of the evaluation service. Without the confirmation that an emptied volume needs it stays
    /// as it is: the next call asks again.
    async fn held(
        &self,
        wish: &Wish,
        connector: &ConnectorKey,
        emptied: bool,
        pod_form: bool,
        request: String,
    ) -> Access {
        if emptied {
            let question = review(&wish.pod, connector, &to_confirm(wish, pod_form));
            if self.kubernetes.review_access(question).await != Ok(true) {
                return Access::Unknown;
            }
        }
        admitted(request)
    }

    /// The evaluation service's yes or no, if it gives one.
    async fn answer(&self, wish: &Wish, connector: &ConnectorKey) -> Answer {
        let Some(AccessAnswer {
            decision, request, ..
        }) = self.evaluator.ask(question(wish, connector)).await
        else {
            return Answer::None;
        };
        match decision {
            Decision::Denied => Answer::No,
            Decision::AllowedStanding(_) => Answer::Yes {
                pod_form: false,
                request: String::new(),
            },
            Decision::AllowedPod(_) => Answer::Yes {
                pod_form: true,
                request: request.map(|request| request.name).unwrap_or_default(),
            },
        }
    }

    async fn refill(&self, place: &Place, record: &Record, wish: &Wish, admitted: &[Admitted]) {
        let Ok(facts) = self.facts(wish, admitted).await else {
            return;
        };
        let record = record.clone();
        let refilled = self
            .mounting(place, move |mounter, place| {
                mounter.refill(place, &record, &facts)
            })
            .await;
        if refilled.is_ok() {
            info!(
                volume = place.volume_id(),
                "access is back, and so is the content"
            );
        }
    }

    async fn take_away(&self, place: &Place, wish: &Wish, connector: ConnectorKey, emptied: bool) {
        // An emptied volume is emptied again: the process may have died in the middle.
        let done = self.mounting(place, M::empty).await;
        if done.is_err() || emptied {
            return;
        }
        warn!(volume = place.volume_id(), %connector, "access ended, the content is gone");
        self.metrics.emptied();
        let note =
            format!("connector {connector}: access ended, the content of the volume was removed");
        self.kubernetes.tell(&wish.pod, Word::Revoked, note);
    }
}
