//! The wait for authorizers with lookups elsewhere, for example over the network.
//!
//! The wait itself allows nothing: an answer always comes from memory, by another look at the world. An authorizer
//! that failed or was too late has learned nothing. It answers as without knowledge.

use std::time::Duration;

use authz::Learning;
use futures::future::join_all;
use tokio::time::timeout;

/// The longest wait for one answer: callers wait longer.
const LONGEST: Duration = Duration::from_secs(2);

/// Waits until authorizers have learned, or the time is over.
pub(crate) async fn learn(learning: Vec<Learning>) {
    let _late = timeout(LONGEST, join_all(learning)).await;
}

/// Looks. If authorizers have to learn something first, waits for that and looks once more.
pub(crate) async fn look<A, E>(
    mut look: impl FnMut(Option<&mut Vec<Learning>>) -> Result<A, E>,
) -> Result<A, E> {
    let mut learning = Vec::new();
    let first = look(Some(&mut learning));
    if learning.is_empty() {
        return first;
    }
    learn(learning).await;
    look(None)
}

#[cfg(test)]
mod tests;
