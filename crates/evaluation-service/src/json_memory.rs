//! The limit of parsed JSON in memory. A message is weighed before it is read, and waits until there is enough memory
//! left.
//!
//! Owns: the memory for questions of each purpose. Refuses to know: their content.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};
use tokio::time::timeout;

use crate::error::Refused;
use crate::slots::Purpose;

const MIB: usize = 1024 * 1024;
/// The limit of one question. Usual objects of clusters take some fifteen times their text.
pub(crate) const MOST: usize = 40 * MIB;
/// The limit of all questions before a grant, and of policies that are being written.
const NEW: usize = 120 * MIB;
/// The limit of all questions about existing grants. They wait for no other questions.
const GRANTED: usize = 80 * MIB;
/// The unit of the count, because a semaphore cannot count so many bytes.
const UNIT: usize = 1024;
/// How long a call waits for memory. The caller tries again.
const LONGEST_WAIT: Duration = Duration::from_secs(5);

/// Memory for questions.
#[derive(Debug)]
pub struct JsonMemory {
    new: Arc<Semaphore>,
    granted: Arc<Semaphore>,
}

impl Default for JsonMemory {
    fn default() -> Self {
        Self {
            new: Arc::new(Semaphore::new(NEW / UNIT)),
            granted: Arc::new(Semaphore::new(GRANTED / UNIT)),
        }
    }
}

impl JsonMemory {
    /// So much memory, if it is free. Those that wait come first.
    pub(crate) fn try_take(
        &self,
        weight: usize,
        purpose: Purpose,
    ) -> Result<Option<OwnedSemaphorePermit>, Refused> {
        let units = units(weight)?;
        match Arc::clone(self.of(purpose)).try_acquire_many_owned(units) {
            Ok(permit) => Ok(Some(permit)),
            Err(TryAcquireError::NoPermits) => Ok(None),
            Err(TryAcquireError::Closed) => Err(Refused::Internal),
        }
    }

    /// Waits for so much memory, but not for long. The permit stays with the objects: they are read to the end, even
    /// if no caller waits any more.
    pub(crate) async fn take(
        &self,
        weight: usize,
        purpose: Purpose,
    ) -> Result<OwnedSemaphorePermit, Refused> {
        let permit = Arc::clone(self.of(purpose)).acquire_many_owned(units(weight)?);
        let permit = timeout(LONGEST_WAIT, permit).await;
        permit
            .map_err(|_| Refused::TooBusy)?
            .map_err(|_| Refused::Internal)
    }

    fn of(&self, purpose: Purpose) -> &Arc<Semaphore> {
        match purpose {
            Purpose::Granted => &self.granted,
            Purpose::New | Purpose::Written => &self.new,
        }
    }
}

/// The units of so many bytes, unless one question must not have them.
fn units(weight: usize) -> Result<u32, Refused> {
    if weight > MOST {
        return Err(Refused::TooMuchMemory);
    }
    u32::try_from(weight.div_ceil(UNIT)).map_err(|_| Refused::TooMuchMemory)
}

#[cfg(test)]
impl JsonMemory {
    /// Whether all memory is free.
    pub(crate) fn is_free(&self) -> bool {
        let Self { new, granted } = self;
        new.available_permits() == NEW / UNIT && granted.available_permits() == GRANTED / UNIT
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn who_finds_no_room_comes_again_and_what_was_granted_has_its_own() {
        let memory = JsonMemory::default();
        let too_much = memory.take(MOST + 1, Purpose::New).await;
        assert!(matches!(too_much, Err(Refused::TooMuchMemory)));
        let too_much = memory.try_take(MOST + 1, Purpose::New);
        assert!(matches!(too_much, Err(Refused::TooMuchMemory)));
        let mut taken = Vec::new();
        for _ in 0..NEW / MOST {
            taken.push(memory.take(MOST, Purpose::New).await.unwrap());
        }
        assert!(memory.try_take(UNIT, Purpose::New).unwrap().is_none());
        assert!(memory.try_take(UNIT, Purpose::Granted).unwrap().is_some());
        let before = Instant::now();
        let late = memory.take(UNIT, Purpose::Written).await;
        assert!(matches!(late, Err(Refused::TooBusy)));
        assert_eq!(before.elapsed(), LONGEST_WAIT);
        assert!(memory.take(MOST, Purpose::Granted).await.is_ok());
        taken.pop();
        assert!(memory.take(MOST, Purpose::Written).await.is_ok());
    }
}
