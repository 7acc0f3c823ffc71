//! A set of words that appears on the wire, in logs and in metrics, as one enum.

/// Declares an enum. Its variants *are* the words, so that no word is repeated as a string.
macro_rules! words {
    ($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $word:ident,)+ }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd,
            serde::Deserialize, serde::Serialize, schemars::JsonSchema,
        )]
        pub enum $name { $($(#[$doc])* $word,)+ }

        impl $name {
            /// Every word of the set.
            pub const ALL: &[Self] = &[$(Self::$word),+];

            /// The word as it is spelled everywhere.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$word => stringify!($word),)+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

pub(crate) use words;
