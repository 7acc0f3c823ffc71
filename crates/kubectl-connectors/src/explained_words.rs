//! Words of reports, each with its meaning: the program prints the word, and the documents have the meaning.

/// Defines an enum of words. The doc comment of a word is its meaning.
macro_rules! explained_words {
    ($(#[doc = $of:literal])+ $name:ident { $($(#[doc = $about:literal])+ $word:ident,)+ }) => {
        $(#[doc = $of])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
        pub enum $name { $($(#[doc = $about])+ $word,)+ }

        impl $name {
            /// Every word.
            pub const ALL: &[Self] = &[$(Self::$word),+];

            /// The word as it is printed.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word),)+ }
            }

            /// The meaning of the word.
            #[must_use]
            pub const fn about(self) -> &'static str {
                match self { $(Self::$word => concat!($($about),+),)+ }
            }
        }
    };
}
pub(crate) use explained_words;
