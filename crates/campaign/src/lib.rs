//! Proof under fault: the request-controller as it ships, crashed, lied to and delayed at every point of
//! every scenario, and a model of its protocol explored to exhaustion.
//!
//! Owns: scenarios, fault plans, the oracle that judges a run, and the model. Refuses to know: how the
//! controller decides. Invariant: whatever a run shows is reproduced by the one identifier that it prints.

pub mod campaign;
pub mod enumerate;
pub mod evaluator;
pub mod inject;
pub mod known;
pub mod model;
pub mod neighbour;
pub mod oracle;
pub mod plan;
pub mod process;
pub mod run;
pub mod scenario;
pub mod stage;
pub mod tell;
