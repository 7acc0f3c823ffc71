//! Words of reports, each with its meaning: the program prints the word, and the documents have the meaning.

/// Defines an enum of words. The doc comment of a word is its meaning.
macro_rules! explained_words {
    ($(#[doc = $of:literal])+ $name:ident { $($(#[doc = $about:literal])+ $word:ident,)+ }) => {
        $(#[doc = $of])+
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
        pub enum $name { $($(#[doc = $about])+ $word,)+ }

        connectors_api::meanings! { $($of)+ => $name { $($($about)+ => $word,)+ } }
    };
}
pub(crate) use explained_words;
