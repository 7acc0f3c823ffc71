//! Which service a process is, and of which version.

use crate::families;

families! {
    /// Tells operators which services run, and whether all are of one version.
    pub struct BuildInfo {
        info: gauges(
            "connectors_build_info", "1, with the service that the process is and its version", &["component", "version"]
        ),
    }
}

impl BuildInfo {
    /// The process is this service: `env!("CARGO_PKG_NAME")` and `env!("CARGO_PKG_VERSION")`.
    pub fn is(&self, service: &str, version: &str) {
        self.info.with_label_values(&[service, version]).set(1);
    }
}

#[cfg(test)]
mod tests {
    use prometheus::{Registry, TextEncoder};

    use super::*;

    #[test]
    fn a_process_shows_its_service_and_version() {
        let registry = Registry::new();
        BuildInfo::register(&registry)
            .unwrap()
            .is("webhook", "1.2.3");
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let line = "connectors_build_info{component=\"webhook\",version=\"1.2.3\"} 1\n";
        assert!(text.unwrap().ends_with(line));
    }
}
