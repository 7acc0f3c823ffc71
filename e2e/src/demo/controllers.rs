//! The program that plays Tekton's controllers while the story is told.

use std::process::Child;

use serde_json::Value;

use super::{DemoError, NAMESPACE};
use crate::{
    command::{CommandError, Tool},
    images::programs_dir,
    target::Kubectl,
    tekton::{self, PipelineKinds, STAND_IN},
};

const PROGRAM: &str = "pipeline-controllers";

/// It ends with this value, and when this program ends.
pub(super) struct Controllers {
    program: Child,
    /// The cluster did not have the kinds of Tekton before.
    defined: bool,
}

impl Controllers {
    /// Starts them. A cluster with those of Tekton is refused: they would make the same objects.
    pub(super) fn start(kubectl: &Kubectl, pod_spec: &Value) -> Result<Self, DemoError> {
        let before = tekton::kinds_on(kubectl)?;
        if before == PipelineKinds::Foreign {
            return Err(DemoError::TektonThere);
        }
        let program = Tool::ending_with_us(programs_dir().join(PROGRAM))
            .args(["--namespace", NAMESPACE])
            .args(["--pod-spec", &pod_spec.to_string(), "--kubeconfig"])
            .args([kubectl.kubeconfig()])
            .into_command()
            .spawn()
            .map_err(|source| CommandError::Start {
                line: PROGRAM.to_owned(),
                source,
            })?;
        let defined = before == PipelineKinds::None;
        Ok(Self { program, defined })
    }

    /// Ends them, and removes the kinds from a cluster that did not have them.
    pub(super) fn remove(self, kubectl: &Kubectl) -> Result<(), DemoError> {
        let defined = self.defined;
        drop(self);
        if defined {
            kubectl.run(&format!("delete crd --selector {STAND_IN}"))?;
        }
        Ok(())
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        // It may have ended by itself; then the story has said so.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}
