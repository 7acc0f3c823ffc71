//! The script, one file for each group of semantics.
//!
//! Owns: the requests. Knows nothing of the expected answers, which come from the real server.

mod access;
mod endings;
mod escalation;
mod patches;
mod random;
mod reads;
mod reviews;
mod status;
mod watches;
mod writes;

use super::step::Script;

/// The whole script. It is always the same: random choices come from a fixed seed.
#[must_use]
pub fn script() -> Script {
    let mut script = Script::default();
    for add in [
        writes::add,
        status::add,
        patches::add,
        reads::add,
        watches::add,
        endings::add,
        access::add,
        escalation::add,
        reviews::add,
        random::add,
    ] {
        add(&mut script);
    }
    script
}
