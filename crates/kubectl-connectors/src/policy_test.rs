//! `policy test`: policies against objects and expectations in files, without a cluster.
//!
//! Each directory is a world: its objects are those of a cluster. A document of kind `PolicyTest` asks about pods of it, and
//! says what the answer must be. What is compared is a part of the explanation that `explain -o json` prints.

pub mod cases;
pub mod compare;
pub mod report;
pub mod run;

pub use report::TestReport;
pub use run::test;
