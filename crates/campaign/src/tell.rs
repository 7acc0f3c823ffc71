//! A run as readable lines: each call that writes or fails, each change, each killed process.

use testkit::{CallFault, Entry, EventFault, What};

/// The lines of a log.
pub fn lines(log: &[Entry]) -> impl Iterator<Item = String> + '_ {
    log.iter().filter_map(line)
}

fn line(entry: &Entry) -> Option<String> {
    let at = entry.at.as_secs_f64();
    let text = match &entry.what {
        What::Killed(process) => format!("{process} is killed"),
        What::Change(change) => format!(
            "{:?} {} {}/{} by {} (version {})",
            change.kind, change.plural, change.namespace, change.name, change.by, change.version
        ),
        What::Call(call) => {
            let point = &call.point;
            let is_quiet = call.fault == CallFault::None && point.resource == "leases";
            if is_quiet {
                return None;
            }
            format!(
                "{} {} {}{} {}/{} #{} → {:?} {:?}",
                point.process,
                point.verb,
                point.resource,
                point.subresource.as_deref().unwrap_or_default(),
                point.namespace,
                point.name,
                point.nth,
                call.code,
                call.fault,
            )
        }
        What::Sent(sent) if sent.fault != EventFault::None => format!(
            "{} is not told {:?} of {} {}: {:?}",
            sent.point.process, sent.point.kind, sent.point.resource, sent.point.name, sent.fault
        ),
        What::Sent(_) => return None,
    };
    Some(format!("{at:10.3} {text}"))
}
