//! Stands between the kubelet and a CSI driver: passes every call on as it is, records those that publish and
//! unpublish volumes, and inspects the target path after each.
//!
//! Owns: taking the place of the driver's socket, again whenever the driver restarts, and giving it back; the
//! judgement of one call against the content of its target path (I6). Refuses to know: the rights of pods,
//! about which the test asks the API server; the driver's own code. Invariant: a request's secrets and tokens
//! are passed on and never kept.
//!
//! What is demanded of a call ([`Call::findings`]):
//! - after the answer OK to a publish the volume is mounted with its last file, `.connector/.complete`, in place,
//!   and the test's own question whether access is allowed says yes at that moment, before the kubelet hears of
//!   it; or, when it was mounted before, it is emptied (`.connector/.revoked`); or it holds an error and nothing else
//!   (`.connector/.rejected`), where no content was before, and for as long as it is there;
//! - after a final error nothing is at the target path, neither mount nor directory; the errors that are not
//!   final are those after which the kubelet unpublishes;
//! - after the answer OK to an unpublish nothing is there either.

mod call;
mod proxy;
mod recorder;
mod socket;
mod view;

pub use call::{Answer, Call, Finding, Method};
pub use recorder::{AskAccess, Eyes, Recorder, RecorderError};
pub use view::{Target, View, ViewError};
