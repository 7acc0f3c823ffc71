//! Metrics: a family is made and registered in one step.
//!
//! [`families!`](crate::families) declares the struct of a service's metrics, with name, help, buckets and labels of
//! each.

use prometheus::{
    Error, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, core::Collector,
};

/// Makes the families of a registry. Each name is used once per process.
#[derive(Clone, Copy, Debug)]
pub struct Families<'a>(pub &'a Registry);

impl Families<'_> {
    /// A number that only grows.
    pub fn counter(self, name: &str, help: &str) -> Result<IntCounter, Error> {
        self.register(IntCounter::new(name, help)?)
    }

    /// One for each combination of labels.
    pub fn counters(self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// A whole number that goes up and down.
    pub fn gauge(self, name: &str, help: &str) -> Result<IntGauge, Error> {
        self.register(IntGauge::new(name, help)?)
    }

    /// One for each combination of labels.
    pub fn gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        self.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// The same with fractions.
    pub fn fractions(self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        self.register(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// How often a number was in each bucket.
    pub fn histogram(self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(Histogram::with_opts(opts)?)
    }

    /// One for each combination of labels.
    pub fn histograms(
        self,
        name: &str,
        help: &str,
        buckets: &[f64],
        labels: &[&str],
    ) -> Result<HistogramVec, Error> {
        let opts = HistogramOpts::new(name, help).buckets(buckets.to_vec());
        self.register(HistogramVec::new(opts, labels)?)
    }

    fn register<C: Collector + Clone + 'static>(self, family: C) -> Result<C, Error> {
        self.0.register(Box::new(family.clone()))?;
        Ok(family)
    }
}

/// Declares a struct of metrics and its `register`. Each field is a call of [`Families`](crate::metrics::Families).
#[macro_export]
macro_rules! families {
    ($(#[$about:meta])* $visible:vis struct $name:ident {
        $($(#[$field_about:meta])* $field_visible:vis $field:ident: $kind:ident($($argument:expr),+),)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Debug)]
        $visible struct $name {
            $($(#[$field_about])* $field_visible $field: $crate::families!(@type $kind),)+
        }

        impl $name {
            /// Makes the metrics, once per process.
            $visible fn register(registry: &::prometheus::Registry) -> ::prometheus::Result<Self> {
                let new = $crate::metrics::Families(registry);
                Ok(Self { $($field: new.$kind($($argument),+)?,)+ })
            }
        }
    };
    (@type counter) => { ::prometheus::IntCounter };
    (@type counters) => { ::prometheus::IntCounterVec };
    (@type gauge) => { ::prometheus::IntGauge };
    (@type gauges) => { ::prometheus::IntGaugeVec };
    (@type fractions) => { ::prometheus::GaugeVec };
    (@type histogram) => { ::prometheus::Histogram };
    (@type histograms) => { ::prometheus::HistogramVec };
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    families! {
        struct All {
            a: counter("a_total", "A"),
            b: counters("b_total", "B", &["x"]),
            c: gauge("c", "C"),
            d: histogram("d", "D", &[1.0]),
        }
    }

    #[test]
    fn a_family_is_registered_under_its_name_once() {
        let registry = Registry::new();
        let metrics = All::register(&registry).unwrap();
        metrics.a.inc();
        metrics.b.with_label_values(&["1"]).inc();
        metrics.c.set(2);
        metrics.d.observe(0.5);
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.unwrap();
        for line in [
            "# HELP a_total A\n",
            "a_total 1\n",
            "b_total{x=\"1\"} 1\n",
            "c 2\n",
            "d_bucket{le=\"1\"} 1\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(All::register(&registry).is_err());
    }
}
