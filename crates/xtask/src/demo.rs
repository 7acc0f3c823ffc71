//! `cargo xtask demo`: the story, on the local cluster or on one whose kubeconfig is given.

use std::path::PathBuf;

use clap::Args;
use e2e::{
    ClusterName, Launcher, Progress, Target, demo,
    images::{self, Image},
};

#[derive(Args)]
pub(crate) struct DemoArgs {
    /// Plays on an existing cluster instead of a local one
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// The local cluster's name
    #[arg(long, default_value_t, conflicts_with = "kubeconfig")]
    name: ClusterName,
    /// The demo pods' image, for a cluster that cannot have it from this machine
    #[arg(long, value_name = "IMAGE", requires = "kubeconfig", default_value_t = Image::Workload.reference())]
    workload_image: String,
}

pub(crate) fn run(args: DemoArgs, launcher: &Launcher) -> anyhow::Result<()> {
    let DemoArgs {
        kubeconfig,
        name,
        workload_image,
    } = args;
    let progress = Progress::default();
    println!("The node: every Kubernetes component is real.");
    let target = Target::get(kubeconfig, &name, launcher, &progress)?;
    if target.local().is_none() {
        images::build_programs()?;
    }
    Ok(demo::play(&target, &workload_image, &progress)?)
}
