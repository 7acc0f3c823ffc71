//! Logs: structured lines on standard output, as text for people or JSON for machines.
//!
//! One module of the Kubernetes client writes whole response bodies at levels below `error` when it
//! cannot parse them, and the response to a token review repeats the token. Its lines below `error` are
//! therefore dropped, and no filter brings them back.

use std::io;

use thiserror::Error;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::{
    EnvFilter, Layer,
    filter::{ParseError, filter_fn},
    fmt::MakeWriter,
    layer::SubscriberExt,
    util::SubscriberInitExt,
};

/// The module of the client that logs response bodies.
const LOGS_BODIES: &str = "kube_client::client";

/// The form of log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    Text,
    /// One JSON object a line
    Json,
}

/// Why a process cannot log.
#[derive(Debug, Error)]
pub enum TelemetryError {
    /// The filter is not one.
    #[error("{filter:?} is not a log filter")]
    Filter {
        /// As it was given.
        filter: String,
        /// The problem of the filter.
        #[source]
        source: ParseError,
    },
    /// Logging was set up before.
    #[error("logging is already set up")]
    Twice(#[source] tracing_subscriber::util::TryInitError),
}

/// Sets up logging for the whole process; to be called once, first of all.
pub fn init(filter: &str, format: LogFormat) -> Result<(), TelemetryError> {
    subscriber(filter, format, io::stdout)?
        .try_init()
        .map_err(TelemetryError::Twice)
}

fn subscriber<W>(
    filter: &str,
    format: LogFormat,
    writer: W,
) -> Result<impl Subscriber + Send + Sync, TelemetryError>
where
    W: for<'a> MakeWriter<'a> + Send + Sync + 'static,
{
    let filter = EnvFilter::try_new(filter).map_err(|source| TelemetryError::Filter {
        filter: filter.to_owned(),
        source,
    })?;
    let lines = tracing_subscriber::fmt::layer()
        .with_ansi(false)
        .with_writer(writer);
    let lines = match format {
        LogFormat::Text => lines.boxed(),
        LogFormat::Json => lines.json().flatten_event(true).boxed(),
    };
    Ok(tracing_subscriber::registry()
        .with(filter)
        .with(filter_fn(never_shows_bodies))
        .with(lines))
}

fn never_shows_bodies(line: &Metadata<'_>) -> bool {
    line.target() != LOGS_BODIES || *line.level() == Level::ERROR
}

#[cfg(test)]
pub(crate) mod tests {
    use std::{
        io,
        sync::{Arc, Mutex},
    };

    use tracing::{
        Dispatch, error, info,
        subscriber::{DefaultGuard, NoSubscriber, set_default},
        warn,
    };

    use super::{LogFormat, TelemetryError, subscriber};

    #[derive(Clone, Default)]
    struct Lines(Arc<Mutex<Vec<u8>>>);

    impl io::Write for Lines {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().write(bytes)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// The log of a thread, until this is dropped.
    pub(crate) struct Listener {
        lines: Lines,
        _guard: DefaultGuard,
        /// A subscriber that is alone decides only about lines that its own thread writes first. Other tests write some
        /// of them as well.
        _second: Dispatch,
    }

    impl Listener {
        pub(crate) fn text(&self) -> String {
            String::from_utf8(self.lines.0.lock().unwrap().clone()).unwrap()
        }
    }

    /// Listens to the log of this thread.
    pub(crate) fn listen(filter: &str, format: LogFormat) -> Listener {
        let second = Dispatch::new(NoSubscriber::new());
        let lines = Lines::default();
        let writer = lines.clone();
        let subscriber = subscriber(filter, format, move || writer.clone()).unwrap();
        Listener {
            lines,
            _guard: set_default(subscriber),
            _second: second,
        }
    }

    fn logged(filter: &str, format: LogFormat, speak: impl FnOnce()) -> String {
        let log = listen(filter, format);
        speak();
        log.text()
    }

    #[test]
    fn text_has_the_message_and_the_fields() {
        let text = logged("info", LogFormat::Text, || info!(pod = "a", "held"));
        assert!(text.contains("held"), "{text}");
        assert!(text.contains("pod=\"a\""), "{text}");
    }

    #[test]
    fn json_is_one_object_a_line_with_fields_at_its_top() {
        let text = logged("info", LogFormat::Json, || info!(pod = "a", "held"));
        let line: serde_json::Value = serde_json::from_str(text.trim()).unwrap();
        assert_eq!(
            (&line["message"], &line["pod"]),
            (&"held".into(), &"a".into())
        );
    }

    #[test]
    fn what_the_filter_leaves_out_is_not_written() {
        assert_eq!(logged("warn", LogFormat::Text, || info!("held")), "");
    }

    #[test]
    fn a_filter_that_is_none_is_an_error_that_names_it() {
        let Err(error) = subscriber("kube=loud", LogFormat::Text, io::stdout) else {
            panic!("accepted");
        };
        assert_eq!(error.to_string(), "\"kube=loud\" is not a log filter");
        assert!(matches!(error, TelemetryError::Filter { .. }));
    }

    #[test]
    fn no_filter_shows_the_bodies_that_the_client_logs() {
        let text = logged("trace,kube_client::client=trace", LogFormat::Text, || {
            warn!(target: "kube_client::client", "the body with the token");
            error!(target: "kube_client::client", "an error without a body");
        });
        assert!(!text.contains("token"), "{text}");
        assert!(text.contains("an error without a body"), "{text}");
    }
}
