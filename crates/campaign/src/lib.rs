//! Fault injection: the production request-controller is crashed, given wrong answers and delayed at every
//! point of every scenario, and a model of its protocol is explored exhaustively.
//!
//! Owns: scenarios, fault plans, the oracle that judges a run, and the model. Knows nothing of how the
//! controller decides. Invariant: the identifier that a run prints is enough to reproduce it.

pub mod campaign;
pub mod enumerate;
pub mod evaluator;
pub mod inject;
pub mod known;
pub mod model;
pub mod neighbour;
pub mod newcomer;
pub mod oracle;
pub mod plan;
pub mod process;
pub mod run;
pub mod scenario;
pub mod stage;
pub mod tell;
