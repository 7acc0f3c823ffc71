//! Watches that fill the caches of a controller.

use std::{fmt::Debug, pin::pin};

use futures::{
    StreamExt,
    future::{BoxFuture, join_all},
};
use kube::{Api, Resource, runtime::watcher::Config};

use crate::{
    readiness::{Readiness, ReadinessPart},
    shutdown::Stop,
    watches::{Change, Changes, Guarded, ListState, Parse, Watch, WatchMetrics},
};

/// One step of a watch.
#[derive(Debug)]
pub enum Fed<K> {
    /// A list of all objects begins or ends.
    Listing(ListState),
    /// One object changed.
    Change(Change<K>),
}

/// The watches of a controller, which run together.
pub struct Feeds<'a, C, W> {
    caches: C,
    wake: fn(&C, W),
    ready: &'a [&'a Readiness],
    metrics: &'a WatchMetrics,
    all: Vec<BoxFuture<'static, ()>>,
}

impl<'a, C, W> Feeds<'a, C, W>
where
    C: Clone + Send + 'static,
    W: 'static,
{
    /// None yet. They fill these caches, which are complete when all of these are ready, and wake the jobs of each
    /// change.
    #[must_use]
    pub const fn new(
        caches: C,
        wake: fn(&C, W),
        ready: &'a [&'a Readiness],
        metrics: &'a WatchMetrics,
    ) -> Self {
        Self {
            caches,
            wake,
            ready,
            metrics,
            all: Vec::new(),
        }
    }

    /// Follows a kind, whose changes wake jobs.
    pub fn follow<K, P>(
        &mut self,
        name: &'static str,
        api: Api<Guarded<K, P>>,
        config: Config,
        take: fn(&C, Change<Guarded<K, P>>) -> W,
    ) where
        K: Resource + Clone + Debug + Send + 'static,
        P: Parse<K> + 'static,
        Guarded<K, P>: Resource,
    {
        self.follow_for((name, self.ready), api, config, take);
    }

    /// The same for a kind that only these wait for.
    pub fn follow_for<K, P>(
        &mut self,
        kind: (&'static str, &[&Readiness]),
        api: Api<Guarded<K, P>>,
        config: Config,
        take: fn(&C, Change<Guarded<K, P>>) -> W,
    ) where
        K: Resource + Clone + Debug + Send + 'static,
        P: Parse<K> + 'static,
        Guarded<K, P>: Resource,
    {
        let (caches, wake) = (self.caches.clone(), self.wake);
        self.follow_steps(kind, api, config, move |fed| {
            if let Fed::Change(change) = fed {
                wake(&caches, take(&caches, change));
            }
        });
    }

    /// Follows all steps of a watch. The part named after its kind is released in all of these when the caches hold the
    /// first list, not when the watch has sent it.
    pub fn follow_steps<K, P>(
        &mut self,
        (name, ready): (&'static str, &[&Readiness]),
        api: Api<Guarded<K, P>>,
        config: Config,
        mut take: impl FnMut(Fed<Guarded<K, P>>) + Send + 'static,
    ) where
        K: Resource + Clone + Debug + Send + 'static,
        P: Parse<K> + 'static,
        Guarded<K, P>: Resource,
    {
        let watch = Watch {
            name,
            config,
            ready: None,
            metrics: self.metrics,
        };
        let events = watch.start(api);
        let mut ready: Vec<_> = ready.iter().map(|it| it.part(name)).collect();
        self.all.push(Box::pin(async move {
            let mut events = pin!(events);
            let mut changes = Changes::default();
            while let Some(event) = events.next().await {
                let (list, listing) = changes.of(event);
                if listing == Some(ListState::Begins) {
                    take(Fed::Listing(ListState::Begins));
                }
                for change in list {
                    take(Fed::Change(change));
                }
                if listing == Some(ListState::Ends) {
                    take(Fed::Listing(ListState::Ends));
                    ready.drain(..).for_each(ReadinessPart::ready);
                }
            }
        }));
    }

    /// Runs something beside the watches.
    pub fn beside(&mut self, task: impl Future<Output = ()> + Send + 'static) {
        self.all.push(Box::pin(task));
    }

    /// Follows all of them until the process is to end.
    pub fn run(self, stop: Stop) -> impl Future<Output = ()> + use<C, W> {
        let all = join_all(self.all);
        async move {
            tokio::select! {
                biased;
                () = stop.stopped() => {}
                _ = all => {}
            }
        }
    }
}

#[cfg(test)]
mod tests;
