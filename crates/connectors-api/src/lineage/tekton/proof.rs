//! The state of one proof: the run, the known state of its tasks, and the remaining steps.

use std::collections::BTreeMap;

use serde_json::Value;

use super::object::{LinkObject, LinkObjects, is_set, text};
use super::{LineageReason, LineageStep, RunKind, refused};
use crate::object_ref::ObjectRef;

/// The most pipeline tasks of a run.
const MOST_TASKS: usize = 1_024;
/// The most children of a run.
const MOST_CHILDREN: usize = 4_096;
/// How far results of tasks may depend on results of tasks.
pub(super) const DEEPEST: u32 = 16;

pub(super) struct Proof<'a> {
    pub(super) run: LinkObject<'a>,
    pub(super) store: LinkObjects<'a>,
    /// The pipeline tasks by name, those of `finally` too.
    tasks: BTreeMap<&'a str, &'a Value>,
    /// `status.childReferences`.
    pub(super) children: &'a [Value],
    /// The proven children.
    pub(super) proven: BTreeMap<(RunKind, &'a str), LinkObject<'a>>,
    left: &'a mut usize,
}

impl<'a> Proof<'a> {
    pub(super) fn of(
        run: LinkObject<'a>,
        store: LinkObjects<'a>,
        left: &'a mut usize,
    ) -> LineageStep<Self> {
        if !is_set(run.value, "/status/pipelineSpec") {
            return run.lacks(RunKind::PipelineRun, "status.pipelineSpec");
        }
        let listed = run.list("/status/pipelineSpec/tasks");
        let last = run.list("/status/pipelineSpec/finally");
        let children = run.list("/status/childReferences");
        if listed.len() + last.len() > MOST_TASKS || children.len() > MOST_CHILDREN {
            let message = format!("{run} has too many tasks or children");
            return refused(LineageReason::TooLarge, message);
        }
        let mut tasks = BTreeMap::new();
        for task in listed.iter().chain(last) {
            if tasks.insert(text(task, "/name"), task).is_some() {
                let message = format!("{run} has two pipeline tasks of one name");
                return refused(LineageReason::NoPipelineTask, message);
            }
        }
        Ok(Self {
            run,
            store,
            tasks,
            children,
            proven: BTreeMap::new(),
            left,
        })
    }

    pub(super) fn task(&self, name: &str) -> Option<&'a Value> {
        self.tasks.get(name).copied()
    }

    pub(super) fn tasks(&self) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.tasks.iter().map(|(name, task)| (*name, *task))
    }

    /// Takes steps from the remaining ones.
    pub(super) fn spend(&mut self, steps: usize) -> LineageStep {
        match self.left.checked_sub(steps) {
            Some(left) => {
                *self.left = left;
                Ok(())
            }
            None => refused(
                LineageReason::TooLarge,
                format!("{} takes too many steps to prove", self.run),
            ),
        }
    }

    /// The children that were proven, ordered.
    pub(super) fn used(&self) -> Vec<ObjectRef> {
        let mut children: Vec<_> = self.proven.values().map(LinkObject::reference).collect();
        children.sort();
        children
    }
}
