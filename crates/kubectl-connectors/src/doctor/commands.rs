//! Commands that several findings name.

use super::DoctorRead;

pub(super) fn upgrade(read: &DoctorRead) -> String {
    format!(
        "helm upgrade connectors-approval charts/connectors-approval --namespace {} --reuse-values",
        read.system_namespace
    )
}

pub(super) fn logs(read: &DoctorRead, name: &str) -> String {
    let system = &read.system_namespace;
    format!("kubectl -n {system} logs deployment/{name}")
}
