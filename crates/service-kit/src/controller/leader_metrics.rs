//! Metrics that describe the cluster. Every replica of a controller watches the same objects, so the leader alone shows
//! them: a sum over the replicas is right then.

use std::{hash::Hash, sync::Arc};

use prometheus::{
    Registry,
    core::{Collector, Desc},
    proto::MetricFamily,
};

use super::{
    Leads,
    queue::{Queue, Urgency},
};
use crate::families;

families! {
    /// The leader of a controller and its queue.
    pub struct LeaderMetrics {
        leader: gauges("connectors_leader", "1 of the process that leads; the others do not show it", &["controller"]),
        jobs: gauges(
            "connectors_queue_jobs", "Jobs that stand in line, wait for their time or are looked at", &["controller"]
        ),
        age: fractions(
            "connectors_queue_age_seconds", "How long the job that is in line for longest has been there, by urgency",
            &["controller", "urgency"]
        ),
    }
}

impl LeaderMetrics {
    /// Says that the process leads this controller, and how its queue stands.
    pub fn measure<J: Clone + Eq + Hash>(&self, controller: &str, queue: &Queue<J>) {
        self.leader.with_label_values(&[controller]).set(1);
        let jobs = queue.depth().try_into().unwrap_or(i64::MAX);
        self.jobs.with_label_values(&[controller]).set(jobs);
        for urgency in Urgency::ALL {
            let age = self.age.with_label_values(&[controller, urgency.as_str()]);
            age.set(queue.age(urgency).as_secs_f64());
        }
    }
}

/// A registry whose families are part of `registry` while the process leads, and at no other time. One for a process.
pub fn while_leading(registry: &Registry, leads: &Leads) -> prometheus::Result<Registry> {
    let families = Registry::new();
    registry.register(Box::new(WhileLeading {
        leaders: vec![(Arc::clone(leads), families.clone())],
    }))?;
    Ok(families)
}

/// The same for each shard of a controller. If there are several, their metrics have its number as a label.
pub fn while_leading_each(
    registry: &Registry,
    shards: &[Leads],
) -> prometheus::Result<Vec<Registry>> {
    let mut leaders = Vec::new();
    for (number, leads) in shards.iter().enumerate() {
        let label = (shards.len() > 1).then(|| ("shard".to_owned(), number.to_string()));
        let families = Registry::new_custom(None, Some(label.into_iter().collect()))?;
        leaders.push((Arc::clone(leads), families));
    }
    let all = leaders.iter().map(|(_, families)| families.clone());
    let all = all.collect();
    registry.register(Box::new(WhileLeading { leaders }))?;
    Ok(all)
}

struct WhileLeading {
    leaders: Vec<(Leads, Registry)>,
}

impl Collector for WhileLeading {
    /// None: which there are is known when they are collected.
    fn desc(&self) -> Vec<&Desc> {
        Vec::new()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Asked at each scrape: a process that was frozen must not show what another one shows by now.
        let leading = self.leaders.iter().filter(|(leads, _)| leads());
        leading
            .flat_map(|(_, families)| families.gather())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicBool, Ordering::SeqCst},
        time::Duration,
    };

    use prometheus::TextEncoder;
    use tokio::time::advance;

    use super::*;
    use crate::controller::queue::{Pauses, Shares, Tenants};

    fn text(registry: &Registry) -> String {
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        text.unwrap()
    }

    fn queue() -> Queue<&'static str> {
        let pauses = Pauses {
            again: [Duration::ZERO; 2],
            urgent_retry: Duration::ZERO,
            retry_as: None,
            changes: 16,
        };
        Queue::shared(Shares::Each([1, 1]), pauses, |_| Tenants::default())
    }

    #[tokio::test(start_paused = true)]
    async fn of_two_replicas_the_leader_alone_shows_what_describes_the_cluster() {
        let leads = [true, false].map(|it| Arc::new(AtomicBool::new(it)));
        let replicas = leads.clone().map(|leads| {
            let registry = Registry::new();
            let leads: Leads = Arc::new(move || leads.load(SeqCst));
            let metrics = LeaderMetrics::register(&while_leading(&registry, &leads).unwrap());
            metrics.unwrap().measure("it", &queue());
            registry
        });
        let shows = || {
            replicas
                .each_ref()
                .map(|it| text(it).contains("connectors_leader"))
        };
        assert_eq!(shows(), [true, false]);
        assert_eq!(text(&replicas[1]), "");
        // From the moment on that it does not lead, whether or not anything was measured since.
        leads[0].store(false, SeqCst);
        assert_eq!(shows(), [false, false]);
        leads[1].store(true, SeqCst);
        assert_eq!(shows(), [false, true]);
    }

    #[tokio::test(start_paused = true)]
    async fn each_shard_is_shown_by_its_leader_alone_and_under_its_number() {
        let leads = [true, false].map(|it| Arc::new(AtomicBool::new(it)));
        // Each of two processes measures both shards.
        let processes = [false, true].map(|is_second| {
            let registry = Registry::new();
            let leads = leads
                .clone()
                .map(|it| -> Leads { Arc::new(move || it.load(SeqCst) != is_second) });
            for families in while_leading_each(&registry, &leads).unwrap() {
                let metrics = LeaderMetrics::register(&families).unwrap();
                metrics.measure("it", &queue());
            }
            registry
        });
        let shown = |line: &str| {
            let line = format!("connectors_leader{{controller=\"it\"{line}}} 1\n");
            processes
                .each_ref()
                .map(|it| text(it).matches(&line).count())
        };
        let shards = [",shard=\"0\"", ",shard=\"1\""];
        assert_eq!(shards.map(shown), [[1, 0], [0, 1]]);
        // A shard moves.
        leads[0].store(false, SeqCst);
        assert_eq!(shards.map(shown), [[0, 1], [0, 1]]);
        // A single shard has no number.
        let registry = Registry::new();
        let all: Leads = Arc::new(|| true);
        let families = while_leading_each(&registry, &[all]).unwrap();
        let metrics = LeaderMetrics::register(&families[0]).unwrap();
        metrics.measure("it", &queue());
        assert!(text(&registry).contains("connectors_leader{controller=\"it\"} 1\n"));
    }

    #[tokio::test(start_paused = true)]
    async fn a_queue_is_as_old_as_the_job_that_stands_in_line_for_longest() {
        let registry = Registry::new();
        let metrics = LeaderMetrics::register(&registry).unwrap();
        let queue = queue();
        let shows = |lines: [&str; 3]| {
            metrics.measure("it", &queue);
            let text = text(&registry);
            for line in lines {
                assert!(
                    text.contains(&format!("connectors_queue_{line}\n")),
                    "{line}: {text}"
                );
            }
        };
        let [urgent, normal] = ["urgent", "normal"]
            .map(|it| format!("age_seconds{{controller=\"it\",urgency=\"{it}\"}}"));
        queue.wake("a", Urgency::Normal);
        advance(Duration::from_secs(5)).await;
        queue.wake("b", Urgency::Normal);
        queue.wake("c", Urgency::Urgent);
        advance(Duration::from_secs(2)).await;
        let all = "jobs{controller=\"it\"} 3";
        shows([all, &format!("{normal} 7"), &format!("{urgent} 2")]);
        // What is looked at, or waits for its time, does not stand in line.
        queue.open(Urgency::Urgent);
        queue.take(&[Urgency::Urgent]).await;
        queue.wake_after("d", Urgency::Urgent, Duration::from_mins(1));
        let all = "jobs{controller=\"it\"} 4";
        shows([all, &format!("{normal} 7"), &format!("{urgent} 0")]);
        queue.close();
        let none = "jobs{controller=\"it\"} 1";
        shows([none, &format!("{normal} 0"), &format!("{urgent} 0")]);
    }
}
