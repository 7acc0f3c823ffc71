//! The condition Ready of a request.

use connectors_api::reason::Ready;
use connectors_api::{AccessRequest, AccessRequestCondition};

/// Its reason, if it is a known one, and its message. None if there is no such condition.
#[must_use]
pub fn ready(request: &AccessRequest) -> Option<(Option<Ready>, &str)> {
    let mut conditions = request.status.iter().flat_map(|it| &it.conditions);
    let ready = conditions.find(|it| it.type_ == AccessRequestCondition::Ready)?;
    let mut words = Ready::ALL.iter();
    let word = words.find(|it| it.as_str() == ready.reason);
    Some((word.copied(), ready.message.as_str()))
}
