//! A set of words that appears on the wire, in logs and in metrics, as one enum.

/// Declares an enum without the parts for the wire. Its variants *are* the words, so that no word is repeated as a
/// string, and its doc comments are their meanings, which the reference of the documentation has.
#[macro_export]
macro_rules! told_words {
    ($(#[doc = $of:literal])+ $name:ident { $($(#[doc = $about:literal])+ $word:ident,)+ }) => {
        $(#[doc = $of])+
        #[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
        pub enum $name { $($(#[doc = $about])+ $word,)+ }

        $crate::meanings! { $($of)+ => $name { $($($about)+ => $word,)+ } }
    };
}

/// The words of an enum, and their meanings.
#[macro_export]
#[doc(hidden)]
macro_rules! meanings {
    ($($of:literal)+ => $name:ident { $($($about:literal)+ => $word:ident,)+ }) => {
        impl $name {
            /// Every word of the set.
            pub const ALL: &[Self] = &[$(Self::$word),+];

            /// The subject of the set.
            pub const SUBJECT: &str = concat!($($of),+);

            /// The word as it is spelled everywhere.
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

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// Declares such an enum that can be written and read, and has a schema.
macro_rules! words {
    ($(#[doc = $of:literal])+ $name:ident { $($(#[doc = $about:literal])+ $word:ident,)+ }) => {
        $(#[doc = $of])+
        #[derive(
            Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd,
            serde::Deserialize, serde::Serialize, schemars::JsonSchema,
        )]
        pub enum $name { $($(#[doc = $about])+ $word,)+ }

        $crate::meanings! { $($of)+ => $name { $($($about)+ => $word,)+ } }
    };
}

pub(crate) use words;
