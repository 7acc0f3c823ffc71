//! The origin of the policies, as the command line tells it. No file tells it.

use clap::ValueEnum;

/// The facts about the policies and their templates.
#[derive(Clone, Copy, Debug, Default)]
pub struct ShippedFacts {
    /// The version of the other product, if it is known.
    pub from: Option<ShippedVersion>,
    /// The ConfigMap of the built-in check is as the other product installs it.
    pub template_is_unchanged: bool,
}

/// A version of the other product, by the input that its Rego modules get.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShippedVersion {
    /// The input of a module is the check object
    #[value(name = "1.12")]
    V1_12,
    /// The input of a module has the check object under `object`
    #[value(name = "1.14")]
    V1_14,
}
