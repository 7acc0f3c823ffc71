//! The cost limits of a template, and the meaning of a missing key.

/// The stack that a thread has by default is enough for this nesting, and not for much more.
pub const MAX_DEPTH: usize = 100;

/// Variables that one template can see at a time. They are looked for one by one.
pub(crate) const MAX_VARIABLES: usize = 1_000;

/// The limits that the caller sets for a template.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TemplateLimits {
    /// Bytes of a template's text.
    pub text: usize,
    /// Nesting: of actions and parentheses in the text, of all of them and of calls of templates when rendering, and of
    /// values. At most [`MAX_DEPTH`] counts.
    pub depth: usize,
    /// Steps of one rendering: one for each node of the template, each element that a function looks at, and each 64
    /// bytes that it takes or writes.
    pub steps: u64,
    /// Bytes of the output.
    pub output: usize,
    /// Bytes of one value.
    pub value: usize,
    /// Bytes of all values that one rendering makes, whether they are still in use or not.
    pub memory: usize,
    /// Characters and classes of a regular expression, with its repetitions written out.
    pub regex: usize,
}

impl Default for TemplateLimits {
    fn default() -> Self {
        Self {
            text: 1 << 20,
            depth: 64,
            steps: 200_000,
            output: 1 << 20,
            value: 1 << 20,
            memory: 16 << 20,
            regex: 1_000,
        }
    }
}

impl TemplateLimits {
    /// The nesting that counts.
    pub(crate) fn nesting(&self) -> usize {
        self.depth.min(MAX_DEPTH)
    }
}

/// The value of a field that its dictionary lacks: Go's option `missingkey`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MissingKey {
    /// An error (`missingkey=error`): a file with `<no value>` in the place of a credential must not be written.
    #[default]
    Error,
    /// The zero value of the dictionary's elements (`missingkey=zero`).
    Zero,
    /// No value at all, printed as `<no value>` (`missingkey=default`).
    NoValue,
}
