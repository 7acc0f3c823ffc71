//! A command about files, again after each change of them.

use std::path::Path;
use std::time::Duration;

use tokio::time::sleep;

use super::{Outcome, RunPlace};
use crate::files;
use crate::output::Format;

/// The pause between two looks at the files.
const PAUSE: Duration = Duration::from_secs(1);

/// Runs a command, and again after each change of a file of the directory, until there is no reader any more.
pub(super) async fn watch<F: Future<Output = Outcome>>(
    directory: &Path,
    format: Format,
    place: &RunPlace,
    mut run: impl FnMut() -> F,
) -> Outcome {
    loop {
        // A change during the run is a change after it.
        let stamps = files::stamps(directory);
        let Outcome { output, errors, .. } = run().await;
        let head = match format {
            Format::Yaml => "---\n",
            Format::Table | Format::Json => "",
        };
        if !(place.print)(&format!("{head}{output}{errors}")) {
            return Outcome::said("");
        }
        while files::stamps(directory) == stamps {
            sleep(PAUSE).await;
        }
    }
}
