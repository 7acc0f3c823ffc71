//! The local cluster itself: whatever happens to it, `down` leaves nothing and `up` works again.

mod interrupted;
mod living;
mod machine;
mod refusals;
mod running;
