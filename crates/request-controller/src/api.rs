//! Reads from the API server: always the newest state, with each object parsed into the form that decisions need.

mod live;
mod parsers;

pub use live::{Live, MOST_LISTED, NotListed, POLICY_PAGE, binding, role};
pub use parsers::{GatedPodFields, PodFields, Strict};
pub use service_kit::name::Name;
