//! How words are hashed.
//!
//! The names of pods, accounts and roles are chosen by tenants, who must not be able to choose names
//! that all fall together: every process, and every table, hashes under a random key of its own. Nothing
//! is stored or compared beyond the process, and a guess at the key shows in nothing but time.

pub(crate) use foldhash::fast::RandomState as Hashing;

/// A map under a random key.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, Hashing>;

/// A set under a random key.
pub(crate) type HashSet<T> = std::collections::HashSet<T, Hashing>;
