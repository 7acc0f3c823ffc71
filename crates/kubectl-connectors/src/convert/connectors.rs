//! The connectors that a policy is about.

use std::collections::BTreeMap;

use connectors_api::LabelSelector;
use connectors_api::access_policy::ConnectorSelector;
use connectors_api::labels::CONNECTOR_CLASS;
use connectors_api::quoted;

use super::place::{ConvertLog, ConvertSource};
use super::shipped::ShippedSelector;
use super::words::{NoteWord, RefusalWord};

/// The selector of the policy. Nothing written means every connector there and here; something written that selects by
/// nothing is refused.
pub(super) fn connectors(
    source: ConvertSource<'_>,
    selector: &ShippedSelector,
    log: &mut ConvertLog,
) -> Option<ConnectorSelector> {
    let at = "spec.connector";
    let ShippedSelector {
        names,
        match_labels,
        match_expressions,
    } = selector;
    let labels = LabelSelector {
        match_labels: match_labels.clone().unwrap_or_default(),
        match_expressions: match_expressions.clone().unwrap_or_default(),
    };
    let selected = ConnectorSelector {
        names: names.clone().filter(|it| !it.is_empty()),
        selector: Some(labels).filter(|it| !it.is_empty()),
    };
    if selected.is_everything() && !selector.is_nothing() {
        let message = "is written and selects by nothing: every connector of the namespace";
        let fix = "write connector: {} if all of them are meant, else their names";
        let word = RefusalWord::EmptySelectsEverything;
        log.refuse(source.at(at), word, message, fix);
        return None;
    }
    for (field, is_empty) in [
        ("names", names.as_ref().is_some_and(Vec::is_empty)),
        (
            "matchLabels",
            match_labels.as_ref().is_some_and(BTreeMap::is_empty),
        ),
        (
            "matchExpressions",
            match_expressions.as_ref().is_some_and(Vec::is_empty),
        ),
    ] {
        if is_empty {
            let place = source.at(&format!("{at}.{field}"));
            let message = "is empty, and the rest of the selector selects";
            log.note(place, NoteWord::EmptyPartLeftOut, message);
        }
    }
    let keys = selected.selector.iter().flat_map(LabelSelector::keys);
    if let Some(key) = keys.into_iter().find(|it| CONNECTOR_CLASS.contains(it)) {
        let message = format!(
            "every connector has the label {} with the name of its class, written or not",
            quoted(key)
        );
        log.note(source.at(at), NoteWord::ClassLabelsAreImplied, message);
    }
    if selected.names.is_some() && selected.selector.is_some() {
        let message = "names and labels of connectors: both must match";
        log.note(source.at(at), NoteWord::NamesAndLabels, message);
    }
    Some(selected)
}
