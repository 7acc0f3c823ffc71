//! How objects are read from the API server: guarded, in the form that decisions need, always the newest.

mod live;
mod parsers;

pub use live::{Live, NotListed, POLICY_PAGE, binding, role, value};
pub use parsers::{PodFields, Strict};
pub use service_kit::name::Name;
