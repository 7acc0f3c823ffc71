//! Large lists of one namespace: a few at the same time, and rests between them.

use std::time::Duration;

use service_kit::{
    fair::{TenantTurn, TenantTurns},
    rest::{DearWork, TenantRests},
};

/// Large lists of one namespace at the same time: each holds up to some megabytes.
pub(super) const AT_ONCE: usize = 2;
/// After a large list its namespace rests so many times as long as the list took: the API server that makes the list
/// serves all namespaces.
const RESTS: u32 = 8;
/// A look that would have to wait longer than it may is begun again later.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// Which lists wait until the namespace has rested.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pause {
    /// Lists of looks that nothing has to be taken back for.
    Rests,
    /// All others.
    None,
}

/// The turns of namespaces.
pub(super) struct ListTurns {
    turns: TenantTurns<String>,
    rests: TenantRests<String>,
}

/// What one look lists, until this is dropped.
pub(super) struct ListTurn<'a> {
    // In this order: whoever has the next turn finds the rest recorded.
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
    /// Waits for a namespace's turn.
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

    /// How many namespaces have lists open or waiting.
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
