//! The events about the files of a `ConnectorClass`. The class's status is of other software.

use crate::words::words;

words! {
    /// Events about a class.
    ClassEvent {
        /// Templates of its files cannot be parsed: no pod gets these files.
        TemplatesUnreadable,
        /// All of them can be parsed again.
        TemplatesReadable,
    }
}

impl ClassEvent {
    /// True for events that need attention.
    #[must_use]
    pub const fn is_warning(self) -> bool {
        matches!(self, Self::TemplatesUnreadable)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_no_pod_gets_need_attention() {
        let warnings = ClassEvent::ALL.iter().filter(|it| it.is_warning());
        assert_eq!(
            warnings.collect::<Vec<_>>(),
            [&ClassEvent::TemplatesUnreadable]
        );
    }

    /// Alerts and people's scripts rely on these words: changing one is a breaking change.
    #[test]
    fn the_words_stay() {
        let words: Vec<_> = ClassEvent::ALL.iter().map(|it| it.as_str()).collect();
        assert_eq!(words, ["TemplatesUnreadable", "TemplatesReadable"]);
    }
}
