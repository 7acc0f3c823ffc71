//! A made-up system, as small as one can be: a second lineage in one file, named in one row.
//!
//! A `Flow` runs `Step`s, each in a pod. Its `Decision`s name it by UID.

use serde_json::Value;

use super::{ApprovalKind, KindRow, LineageKind, OTHER};
use crate::lineage::{
    Absent, Evidence, Lineage, LineageQuestion, LineageReason, LineageRefusal, LineageVerdict,
    LinkKind, MissingLink,
};
use crate::object_ref::ObjectRef;
use crate::template::RenderedLabels;

pub(super) const ROWS: &[KindRow] = &[KindRow {
    group: "made.up",
    kind: Some("Decision"),
    needs: ApprovalKind {
        proof: LineageKind::By(MADE_UP),
        ..OTHER
    },
}];

pub(crate) const MADE_UP: &dyn Lineage = &MadeUp;

const VERSION: &str = "made.up/v1";
const FLOW: LinkKind = kind("Flow");
const STEP: LinkKind = kind("Step");

const fn kind(kind: &'static str) -> LinkKind {
    LinkKind {
        api_version: VERSION,
        kind,
    }
}

struct MadeUp;

fn text<'a>(value: &'a Value, pointer: &str) -> &'a str {
    let text = value.pointer(pointer).and_then(Value::as_str);
    text.unwrap_or_default()
}

fn refusal(reason: LineageReason) -> LineageRefusal {
    LineageRefusal {
        reason,
        message: format!("the made-up proof says {reason}"),
    }
}

fn reference(object: &Value) -> ObjectRef {
    ObjectRef {
        api_version: VERSION.to_owned(),
        kind: text(object, "/kind").to_owned(),
        namespace: text(object, "/metadata/namespace").to_owned(),
        name: text(object, "/metadata/name").to_owned(),
        uid: text(object, "/metadata/uid").to_owned(),
        resource_version: text(object, "/metadata/resourceVersion").to_owned(),
    }
}

/// The object that owns another one, or a wait for it.
fn owner<'a>(
    question: &LineageQuestion<'a>,
    owned: &Value,
    kind: LinkKind,
) -> Result<&'a Value, LineageVerdict> {
    let uid = text(owned, "/metadata/ownerReferences/0/uid");
    let is_it = |it: &&Value| text(it, "/metadata/uid") == uid;
    question.objects.iter().find(is_it).ok_or_else(|| {
        LineageVerdict::Waiting(vec![MissingLink {
            api_version: kind.api_version,
            kind: kind.kind,
            namespace: text(question.pod, "/metadata/namespace").to_owned(),
            name: text(owned, "/metadata/ownerReferences/0/name").to_owned(),
            uid: Some(uid.to_owned()),
            what: Absent::Object,
        }])
    })
}

fn proof(question: &LineageQuestion<'_>) -> Result<Evidence, LineageVerdict> {
    let refused = |reason| Err(LineageVerdict::Refused(refusal(reason)));
    let known = |it: &Value| {
        [FLOW, STEP]
            .iter()
            .any(|kind| text(it, "/kind") == kind.kind)
    };
    if !question.objects.iter().all(known) {
        return refused(LineageReason::Unreadable);
    }
    let step = owner(question, question.pod, STEP)?;
    let flow = owner(question, step, FLOW)?;
    if text(question.approval, "/spec/flow") != text(flow, "/metadata/uid") {
        return refused(LineageReason::OtherRun);
    }
    Ok(Evidence {
        objects: vec![reference(flow), reference(step)],
        ..Evidence::default()
    })
}

impl Lineage for MadeUp {
    fn name(&self) -> &'static str {
        "made up"
    }

    fn kinds(&self) -> &'static [LinkKind] {
        &[FLOW, STEP]
    }

    fn prove(&self, question: &LineageQuestion<'_>, left: &mut usize) -> LineageVerdict {
        let Some(rest) = left.checked_sub(1) else {
            return LineageVerdict::Refused(refusal(LineageReason::TooLarge));
        };
        *left = rest;
        proof(question).map_or_else(|other| other, |it| LineageVerdict::Proven(Box::new(it)))
    }

    fn goes_on(&self, run: &Value) -> Result<(), LineageRefusal> {
        match text(run, "/status/phase") {
            "Ended" => Err(refusal(LineageReason::RunDone)),
            _ => Ok(()),
        }
    }

    fn still_holds(&self, _approval: &Value, runs: &[Value]) -> LineageVerdict {
        match runs.iter().try_for_each(|it| self.goes_on(it)) {
            Ok(()) => LineageVerdict::Proven(Box::default()),
            Err(refusal) => LineageVerdict::Refused(refusal),
        }
    }

    fn not_found(
        &self,
        run: &Value,
        _labels: &RenderedLabels,
        is_found: &dyn Fn(&str) -> bool,
        _steps: &mut usize,
    ) -> Result<Option<String>, LineageRefusal> {
        if text(run, "/spec/decisions") == "too many" {
            return Err(refusal(LineageReason::TooLarge));
        }
        let asked = run.pointer("/spec/decisions").and_then(Value::as_array);
        let mut names = asked.into_iter().flatten().filter_map(Value::as_str);
        Ok(names.find(|it| !is_found(it)).map(str::to_owned))
    }
}
