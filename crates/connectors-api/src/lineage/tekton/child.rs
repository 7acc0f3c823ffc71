//! A child of the run: owner, age, membership, name and number.
//!
//! Tekton adopts a TaskRun or CustomRun that has copied labels and a copied owner reference, and uses one that took the
//! derived name before the run existed. So a child counts only when all of these hold, and its content too.

use std::collections::BTreeSet;

use serde_json::Value;

use super::object::{ControllerRef, LinkObject, list, text};
use super::proof::Proof;
use super::{LineageReason, LineageStep, RunKind, content, labels, matrix, names, refused, run};

/// The field that lists the children.
const CHILDREN: &str = "status.childReferences";

impl<'a> Proof<'a> {
    /// Proves a child of the run, and the origin of its parameters.
    pub(super) fn child(&mut self, kind: RunKind, child: &LinkObject<'a>) -> LineageStep {
        self.child_at(kind, child, 0)
    }

    pub(super) fn child_at(
        &mut self,
        kind: RunKind,
        child: &LinkObject<'a>,
        depth: u32,
    ) -> LineageStep {
        if self.proven.contains_key(&(kind, child.name)) {
            return Ok(());
        }
        self.spend(self.children.len() + 1)?;
        is_owned(kind, child, &self.run)?;
        is_not_older(child, &self.run)?;
        child.is_not_going()?;
        let task = self.task_of(kind, child)?;
        makes(task, kind, child)?;
        is_not_skipped(task, &self.run)?;
        let combinations = matrix::combinations(self, task, depth)?;
        // Deriving a name costs a digest.
        self.spend(combinations.len().saturating_mul(8))?;
        let names = names::of_children(self.run.name, text(task, "/name"), combinations.len());
        let index = has_derived_name(child, &names)?;
        self.are_as_many_as_called_for(kind, task, &names)?;
        let combination = combinations.into_iter().nth(index).unwrap_or_default();
        content::check(self, kind, child, task, &combination, depth)?;
        self.proven.insert((kind, child.name), *child);
        Ok(())
    }

    /// The entries of a child.
    fn entries<'b>(
        &self,
        kind: RunKind,
        child: &'b str,
    ) -> impl Iterator<Item = &'a Value> + use<'a, 'b> {
        let children = self.children.iter();
        children.filter(move |it| text(it, "/name") == child && kind.is(it))
    }

    /// The entries of a pipeline task.
    fn entries_of(&self, task: &str) -> impl Iterator<Item = &'a Value> {
        let children = self.children.iter();
        children.filter(move |it| text(it, "/pipelineTaskName") == task)
    }

    /// The run lists the CustomRun of an approval.
    pub(super) fn asks_for(
        &mut self,
        approval: &LinkObject<'_>,
        owner: ControllerRef<'_>,
    ) -> LineageStep {
        // Less than a step for each child: the number of strangers has no limit.
        self.spend(self.children.len() / 8 + self.tasks().count() + 1)?;
        let kind = RunKind::CustomRun;
        if self.entries(kind, owner.name).next().is_some() {
            return Ok(());
        }
        if self.makers(kind, owner.name).next().is_none() {
            let message = format!(
                "no pipeline task of {} asks for {approval}, so it belongs to another run than the pod",
                self.run
            );
            return refused(LineageReason::OtherRun, message);
        }
        self.not_listed(kind, owner.name)
    }

    /// The labels by which policies select an approval are those of its run and pipeline task. The gate's webhook lets
    /// every approver change them.
    pub(super) fn is_labelled(&self, approval: &LinkObject<'_>) -> LineageStep {
        let mut entries = self.entries(RunKind::CustomRun, approval.name);
        let task = entries.next().map(|it| text(it, "/pipelineTaskName"));
        let all = approval.value.pointer("/metadata/labels");
        for (label, own) in labels::of_child(&self.run, approval.name, task) {
            let said = all.and_then(|it| it.get(label)).and_then(Value::as_str);
            if said.is_some_and(|it| Some(it) != own) {
                let message =
                    format!("{approval} has the label {label} of another run or pipeline task");
                return refused(LineageReason::OtherLabels, message);
            }
        }
        Ok(())
    }

    /// The pipeline tasks whose children may have a name. The names of a matrix end in numbers, of which there may be
    /// any.
    fn makers(&self, kind: RunKind, child: &str) -> impl Iterator<Item = (&'a str, &'a Value)> {
        self.tasks().filter(move |(name, task)| {
            content::kind_of(task) == Some(kind)
                && (content::is_matrix(task)
                    || names::child(self.run.name, &format!("-{name}")) == child)
        })
    }

    /// The pipeline task for which the run lists a child.
    fn task_of(&self, kind: RunKind, child: &LinkObject<'_>) -> LineageStep<&'a Value> {
        let mut entries = self.entries(kind, child.name);
        let Some(entry) = entries.next() else {
            return self.not_listed(kind, child.name);
        };
        let task = self.task(text(entry, "/pipelineTaskName"));
        if entries.next().is_some() {
            let message = format!("{} lists {child} twice", self.run);
            return refused(LineageReason::NotAChild, message);
        }
        task.map_or_else(
            || {
                let message = format!("{} has no pipeline task of {child}", self.run);
                refused(LineageReason::NoPipelineTask, message)
            },
            Ok,
        )
    }

    /// A new child is listed a moment later. A child under a name that no pipeline task derives is a stranger.
    fn not_listed<T>(&self, kind: RunKind, child: &str) -> LineageStep<T> {
        let mut makers = self.makers(kind, child).peekable();
        let kind = kind.as_str();
        if makers.peek().is_none() {
            let message = format!("no pipeline task of {} makes {kind} {child}", self.run);
            return refused(LineageReason::NotDerivedName, message);
        }
        let is_taken = |name: &str| self.entries_of(name).next().is_some();
        if makers.all(|(name, task)| !content::is_matrix(task) && is_taken(name)) {
            let message = format!("{} lists another child than {kind} {child}", self.run);
            return refused(LineageReason::NotAChild, message);
        }
        self.run.lacks(RunKind::PipelineRun, CHILDREN)
    }

    /// The pipeline task has no child but those that it calls for.
    fn are_as_many_as_called_for(
        &self,
        kind: RunKind,
        task: &Value,
        names: &[String],
    ) -> LineageStep {
        let name = text(task, "/name");
        let called_for: BTreeSet<_> = names.iter().map(String::as_str).collect();
        let mut seen = BTreeSet::new();
        for entry in self.entries_of(name) {
            let child = text(entry, "/name");
            let is_called_for = kind.is(entry) && called_for.contains(child);
            if !is_called_for || !seen.insert(child) {
                let message = format!(
                    "{} has more children of pipeline task {name} than the {} that it calls for",
                    self.run,
                    names.len()
                );
                return refused(LineageReason::TooManyChildren, message);
            }
        }
        // Tekton makes all children of a matrix at once. It does not make a deleted one again while another is there, and
        // lists it no more: an approval that was asked for would be forgotten.
        if kind == RunKind::CustomRun && seen.len() < names.len() {
            return self.run.lacks(RunKind::PipelineRun, CHILDREN);
        }
        Ok(())
    }
}

/// The run controls the child, by UID.
fn is_owned(kind: RunKind, child: &LinkObject<'_>, run: &LinkObject<'_>) -> LineageStep {
    let owner = run::owner(kind, child)?;
    if owner.uid != run.uid || owner.name != run.name {
        let message = format!("{child} belongs to another PipelineRun than {run}");
        return refused(LineageReason::OtherRun, message);
    }
    Ok(())
}

/// The API server sets creation times: a child that is older than its run took the name in advance.
fn is_not_older(child: &LinkObject<'_>, run: &LinkObject<'_>) -> LineageStep {
    if child.is_older_than(run) {
        let message = format!("{child} was created before {run}");
        return refused(LineageReason::ChildOlderThanRun, message);
    }
    Ok(())
}

/// The pipeline task makes children of that kind.
fn makes(task: &Value, kind: RunKind, child: &LinkObject<'_>) -> LineageStep {
    if content::kind_of(task) != Some(kind) {
        let message = format!(
            "pipeline task {} does not make {child}",
            text(task, "/name")
        );
        return refused(LineageReason::OtherKindOfTask, message);
    }
    Ok(())
}

/// A task that `when` left out has no child.
fn is_not_skipped(task: &Value, run: &LinkObject<'_>) -> LineageStep {
    let name = text(task, "/name");
    let skipped = list(run.value, "/status/skippedTasks");
    if skipped.iter().any(|it| text(it, "/name") == name) {
        let message = format!("{run} skipped pipeline task {name}");
        return refused(LineageReason::TaskSkipped, message);
    }
    Ok(())
}

/// The place of a child among those of its pipeline task.
fn has_derived_name(child: &LinkObject<'_>, names: &[String]) -> LineageStep<usize> {
    match names.iter().position(|it| it == child.name) {
        Some(index) => Ok(index),
        None => refused(
            LineageReason::NotDerivedName,
            format!("{child} does not have the name that Tekton derives"),
        ),
    }
}
