//! The script, one file for each family of semantics.
//!
//! Owns: which requests are made. Refuses to know: what the answers should be; the real server says that.

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

/// The whole script. Always the same: what looks random comes from a fixed seed.
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
