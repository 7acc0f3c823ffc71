//! The labels by which Tekton tells the children of a run apart. The gate copies them to approvals.

use super::object::LinkObject;

/// Label and value. A child that the run does not list has no pipeline task.
pub(super) const fn of_child<'a>(
    run: &LinkObject<'a>,
    name: &'a str,
    task: Option<&'a str>,
) -> [(&'static str, Option<&'a str>); 4] {
    [
        ("tekton.dev/pipelineRun", Some(run.name)),
        ("tekton.dev/pipelineRunUID", Some(run.uid)),
        ("tekton.dev/pipelineTask", task),
        ("tekton.dev/customRun", Some(name)),
    ]
}
