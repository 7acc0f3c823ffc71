//! Metrics: a family is made and registered in one step.
//!
//! [`families!`](crate::families) declares the struct of a service's metrics, with name, help, buckets and labels of
//! each. A name that breaks the conventions is refused: operators find all families by one prefix, and read unit and
//! kind off the end of each.

use prometheus::{
    Error, GaugeVec, Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGauge,
    IntGaugeVec, Opts, Registry, core::Collector,
};

/// The beginning of every name.
pub const PREFIX: &str = "connectors_";
/// The ends of the names of series of counters and histograms.
const SERIES: [&str; 4] = ["_total", "_bucket", "_sum", "_count"];
/// The units of histograms: base units alone.
const UNITS: [&str; 2] = ["_seconds", "_bytes"];

/// The labels that Prometheus or its operator puts on a target. A family with one of them would have it renamed.
const OF_TARGETS: [&str; 8] = [
    "container",
    "endpoint",
    "instance",
    "job",
    "namespace",
    "node",
    "pod",
    "service",
];

/// The kind of a family, as its name shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum FamilyKind {
    Counter,
    Gauge,
    Histogram,
}

impl FamilyKind {
    /// Refuses the name of a family of another kind.
    fn check(self, name: &str) -> Result<(), Error> {
        let ends = |all: &[&str]| all.iter().any(|it| name.ends_with(it));
        let wanted = match self {
            _ if !name.starts_with(PREFIX) => format!("begin with {PREFIX}"),
            Self::Counter if !name.ends_with("_total") => "end with _total".to_owned(),
            Self::Gauge if ends(&SERIES) => format!("not end with {}", SERIES.join(", ")),
            Self::Histogram if !ends(&UNITS) => format!("end with {}", UNITS.join(" or ")),
            Self::Counter | Self::Gauge | Self::Histogram => return Ok(()),
        };
        Err(Error::Msg(format!("the metric {name} has to {wanted}")))
    }
}

/// Refuses a label that is one of the target's.
fn check_labels(name: &str, labels: &[&str]) -> Result<(), Error> {
    let taken = labels.iter().find(|it| OF_TARGETS.contains(*it));
    taken.map_or(Ok(()), |label| {
        let problem = "is one that scraping sets: it has to be another word";
        Err(Error::Msg(format!("the label {label} of {name} {problem}")))
    })
}

/// A gauge that is not shown before its value is known.
#[derive(Clone, Debug)]
pub struct KnownGauge(IntGaugeVec);

impl KnownGauge {
    /// Shows this value from now on.
    pub fn set(&self, value: i64) {
        self.0.with_label_values::<&str>(&[]).set(value);
    }

    /// The shown value; none while it is not known.
    #[must_use]
    pub fn get(&self) -> Option<f64> {
        let families = self.0.collect();
        let shown = families.first()?.get_metric().first()?;
        Some(shown.get_gauge().get_value())
    }
}

/// Makes the families of a registry. Each name is used once per process.
#[derive(Clone, Copy, Debug)]
pub struct Families<'a>(pub &'a Registry);

impl Families<'_> {
    /// A number that only grows.
    pub fn counter(self, name: &str, help: &str) -> Result<IntCounter, Error> {
        FamilyKind::Counter.check(name)?;
        self.register(IntCounter::new(name, help)?)
    }

    /// One for each combination of labels.
    pub fn counters(self, name: &str, help: &str, labels: &[&str]) -> Result<IntCounterVec, Error> {
        FamilyKind::Counter.check(name)?;
        check_labels(name, labels)?;
        self.register(IntCounterVec::new(Opts::new(name, help), labels)?)
    }

    /// One for each of these values of a label. All are there from the start: a counter that begins at one has not grown.
    pub fn counters_of(
        self,
        name: &str,
        help: &str,
        label: &[&str; 1],
        values: &[&str],
    ) -> Result<IntCounterVec, Error> {
        let family = self.counters(name, help, label)?;
        for value in values {
            family.with_label_values(&[value]);
        }
        Ok(family)
    }

    /// One for each pair of these values of two labels, from the start as well.
    pub fn counters_of_pairs(
        self,
        name: &str,
        help: &str,
        labels: &[&str; 2],
        values: (&[&str], &[&str]),
    ) -> Result<IntCounterVec, Error> {
        let family = self.counters(name, help, labels)?;
        let (firsts, seconds) = values;
        for first in firsts {
            for second in seconds {
                family.with_label_values(&[first, second]);
            }
        }
        Ok(family)
    }

    /// A whole number that is shown once it is known.
    pub fn known(self, name: &str, help: &str) -> Result<KnownGauge, Error> {
        self.gauges(name, help, &[]).map(KnownGauge)
    }

    /// A whole number that goes up and down.
    pub fn gauge(self, name: &str, help: &str) -> Result<IntGauge, Error> {
        FamilyKind::Gauge.check(name)?;
        self.register(IntGauge::new(name, help)?)
    }

    /// One for each combination of labels.
    pub fn gauges(self, name: &str, help: &str, labels: &[&str]) -> Result<IntGaugeVec, Error> {
        FamilyKind::Gauge.check(name)?;
        check_labels(name, labels)?;
        self.register(IntGaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// The same with fractions.
    pub fn fractions(self, name: &str, help: &str, labels: &[&str]) -> Result<GaugeVec, Error> {
        FamilyKind::Gauge.check(name)?;
        check_labels(name, labels)?;
        self.register(GaugeVec::new(Opts::new(name, help), labels)?)
    }

    /// How often a number was in each bucket.
    pub fn histogram(self, name: &str, help: &str, buckets: &[f64]) -> Result<Histogram, Error> {
        FamilyKind::Histogram.check(name)?;
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
        FamilyKind::Histogram.check(name)?;
        check_labels(name, labels)?;
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
    (@type counters_of) => { ::prometheus::IntCounterVec };
    (@type counters_of_pairs) => { ::prometheus::IntCounterVec };
    (@type known) => { $crate::metrics::KnownGauge };
    (@type gauge) => { ::prometheus::IntGauge };
    (@type gauges) => { ::prometheus::IntGaugeVec };
    (@type fractions) => { ::prometheus::GaugeVec };
    (@type histogram) => { ::prometheus::Histogram };
    (@type histograms) => { ::prometheus::HistogramVec };
}

/// Declares an enum whose variants are all values of a label. A family can have all of them from the start.
#[macro_export]
macro_rules! label_values {
    ($(#[$about:meta])* $visible:vis enum $name:ident {
        $($(#[$value_about:meta])* $value:ident = $word:literal,)+
    }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        $visible enum $name { $($(#[$value_about])* $value,)+ }

        impl $name {
            /// Every value, as the metrics have it.
            $visible const WORDS: &[&str] = &[$($word),+];

            /// The value, as the metrics have it.
            #[must_use]
            $visible const fn as_str(self) -> &'static str {
                match self { $(Self::$value => $word,)+ }
            }
        }
    };
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    label_values! {
        enum Size {
            Small = "small",
            Large = "very-large",
        }
    }

    families! {
        struct All {
            a: counter("connectors_a_total", "A"),
            b: counters("connectors_b_total", "B", &["x"]),
            c: gauge("connectors_c", "C"),
            e: counters_of("connectors_e_total", "E", &["x"], &["1", "2"]),
            d: histogram("connectors_d_seconds", "D", &[1.0]),
            f: known("connectors_f", "F"),
            g: known("connectors_g", "G"),
            h: counters_of_pairs("connectors_h_total", "H", &["x", "y"], (&["1"], &["a", "b"])),
            i: counters_of("connectors_i_total", "I", &["size"], Size::WORDS),
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
        metrics.f.set(0);
        metrics.h.with_label_values(&["1", "b"]).inc();
        metrics.e.with_label_values(&["2"]).inc();
        let large = Size::Large.as_str();
        metrics.i.with_label_values(&[large]).inc();
        let small = metrics.i.with_label_values(&[Size::Small.as_str()]);
        assert_eq!(small.get(), 0);
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        let text = text.unwrap();
        for line in [
            "# HELP connectors_a_total A\n",
            "connectors_a_total 1\n",
            "connectors_b_total{x=\"1\"} 1\n",
            "connectors_c 2\n",
            "connectors_e_total{x=\"1\"} 0\nconnectors_e_total{x=\"2\"} 1\n",
            "connectors_d_seconds_bucket{le=\"1\"} 1\n",
            "connectors_f 0\n",
            "connectors_h_total{x=\"1\",y=\"a\"} 0\nconnectors_h_total{x=\"1\",y=\"b\"} 1\n",
            "connectors_i_total{size=\"small\"} 0\nconnectors_i_total{size=\"very-large\"} 1\n",
        ] {
            assert!(text.contains(line), "{text}");
        }
        assert!(!text.contains("connectors_g"), "{text}");
        assert_eq!(metrics.g.get(), None);
        metrics.g.set(1);
        assert_eq!(metrics.g.get(), Some(1.0));
        let text = TextEncoder::new().encode_to_string(&registry.gather());
        assert!(text.unwrap().contains("connectors_g 1\n"));
        assert!(All::register(&registry).is_err());
    }

    #[test]
    fn a_name_that_breaks_the_conventions_is_refused_with_what_it_has_to_be() {
        let registry = Registry::new();
        let new = Families(&registry);
        let refused = [
            (
                new.counter("calls_total", "A").err(),
                "begin with connectors_",
            ),
            (
                new.counter("connectors_calls", "A").err(),
                "end with _total",
            ),
            (
                new.counters("connectors_calls_seconds", "A", &["x"]).err(),
                "end with _total",
            ),
            (
                new.gauge("connectors_calls_total", "A").err(),
                "not end with _total, _bucket, _sum, _count",
            ),
            (
                new.gauges("connectors_calls_count", "A", &["x"]).err(),
                "not end with _total, _bucket, _sum, _count",
            ),
            (
                new.fractions("connectors_calls_sum", "A", &["x"]).err(),
                "not end with _total, _bucket, _sum, _count",
            ),
            (
                new.histogram("connectors_call_milliseconds", "A", &[1.0])
                    .err(),
                "end with _seconds or _bytes",
            ),
            (
                new.histograms("connectors_calls", "A", &[1.0], &["x"])
                    .err(),
                "end with _seconds or _bytes",
            ),
        ];
        for (error, wanted) in refused {
            let text = error.unwrap().to_string();
            assert!(text.ends_with(&format!("has to {wanted}")), "{text}");
        }
        new.histogram("connectors_call_bytes", "A", &[1.0]).unwrap();
    }

    #[test]
    fn a_label_that_scraping_sets_is_refused() {
        let registry = Registry::new();
        let new = Families(&registry);
        for label in OF_TARGETS {
            let errors = [
                new.counters("connectors_a_total", "A", &["x", label]).err(),
                new.gauges("connectors_b", "B", &[label]).err(),
                new.fractions("connectors_c", "C", &[label]).err(),
                new.histograms("connectors_d_seconds", "D", &[1.0], &[label])
                    .err(),
            ];
            for error in errors {
                let text = error.unwrap().to_string();
                assert!(text.contains(&format!("the label {label} of")), "{text}");
            }
        }
    }
}
