//! `policy test`: policies against objects and expectations in files, without a cluster.
//!
//! Each directory stands for a cluster with its objects. A document of kind `PolicyTest` asks about its pods and
//! gives the expected answers. The compared fields are a part of the explanation that `explain -o json` prints.

pub mod cases;
pub mod compare;
pub mod coverage;
pub mod report;
pub mod run;

pub use report::TestReport;
pub use run::test;
