//! The exit codes, by which scripts distinguish answers.

use std::process::ExitCode;

/// How a command ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ExitWord {
    /// The answer is yes, or there is nothing to report.
    Yes,
    /// The answer is no: access waits or is refused, a policy has errors, a test failed, there is something to mend.
    No,
    /// The command line or a file that it names is wrong.
    Usage,
    /// The cluster gave no answer, or the user may not read what the answer depends on.
    Unknown,
}

impl ExitWord {
    /// Every kind of end.
    pub const ALL: [Self; 4] = [Self::Yes, Self::No, Self::Usage, Self::Unknown];

    /// The code for scripts.
    #[must_use]
    pub const fn code(self) -> u8 {
        match self {
            Self::Yes => 0,
            Self::No => 1,
            Self::Usage => 2,
            Self::Unknown => 3,
        }
    }

    /// The meaning of the code.
    #[must_use]
    pub const fn about(self) -> &'static str {
        match self {
            Self::Yes => "yes, or nothing to report",
            Self::No => {
                "no: access waits or is refused, a policy has errors, a test failed, there is something to mend"
            }
            Self::Usage => "the command line, or a file that it names, is wrong",
            Self::Unknown => {
                "not known: the cluster gave no answer, or you may not read what the answer depends on"
            }
        }
    }
}

impl From<ExitWord> for ExitCode {
    fn from(word: ExitWord) -> Self {
        Self::from(word.code())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scripts rely on the codes: changing one is a breaking change.
    #[test]
    fn the_codes_are_those_of_the_documentation() {
        assert_eq!(ExitWord::ALL.map(ExitWord::code), [0, 1, 2, 3]);
    }
}
