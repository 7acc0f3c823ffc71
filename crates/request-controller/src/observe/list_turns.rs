//! Limits on large lists of one namespace: a few at the same time, with a rest after them.

use std::time::Duration;

use service_kit::{
    fair::{TenantTurn, TenantTurns},
    tenant_rests::{DearWork, TenantRests},
};

/// The number of concurrent large lists of one namespace. Each takes up to some megabytes of memory.
pub(super) const AT_ONCE: usize = 2;
/// After a large list its namespace rests for this multiple of the list's duration, because the API server that
/// produces the list serves all namespaces.
const RESTS: u32 = 8;
/// The limit of a rest. A reconciliation whose timeout ends during the rest is repeated later.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// Whether a list waits for the namespace's rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Wait: for lists of reconciliations that cannot revoke anything.
    Rests,
    /// Do not wait: for all other lists.
    None,
}

/// The turns and rests of namespaces.
pub(super) struct ListTurns {
    turns: TenantTurns<String>,
    rests: TenantRests<String>,
}

/// The permission of one reconciliation to list, until it is dropped.
pub(super) struct ListTurn<'a> {
    // The drop order matters: the rest must be recorded before the next turn begins.
    _work: DearWork<'a, String>,
    _turn: TenantTurn<String>,
}

impl Default for ListTurns {
    fn default() -> Self {
        Self {
            turns: TenantTurns::of(AT_ONCE),
            rests: TenantRests::of(RESTS, LONGEST_REST),
        }
    }
}

impl ListTurns {
    /// Waits for a turn of the namespace.
    pub(super) async fn take(&self, namespace: &str, pause: Pause) -> ListTurn<'_> {
        let namespace = namespace.to_owned();
        let turn = self.turns.take(namespace.clone()).await;
        if pause == Pause::Rests {
            self.rests.rested(&namespace).await;
        }
        ListTurn {
            _work: self.rests.work(namespace),
            _turn: turn,
        }
    }

    /// The number of namespaces with open or waiting lists.
    #[cfg(test)]
    pub(super) fn tenants(&self) -> usize {
        self.turns.tenants()
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::{Instant, sleep};

    use super::*;

    async fn waited(turns: &ListTurns, namespace: &str, pause: Pause) -> Duration {
        let began = Instant::now();
        let _turn = turns.take(namespace, pause).await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_namespace_rests_after_a_large_list_unless_something_may_have_to_be_taken_back() {
        let turns = ListTurns::default();
        let turn = turns.take("loud", Pause::Rests).await;
        sleep(Duration::from_millis(250)).await;
        drop(turn);
        assert_eq!(waited(&turns, "quiet", Pause::Rests).await, Duration::ZERO);
        assert_eq!(waited(&turns, "loud", Pause::None).await, Duration::ZERO);
        let rested = waited(&turns, "loud", Pause::Rests).await;
        assert_eq!(rested, Duration::from_millis(250) * RESTS);
        assert_eq!(turns.tenants(), 0);
    }
}
