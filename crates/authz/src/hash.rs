//! Hashing of names and other words.
//!
//! Tenants choose the names of pods, accounts and roles. They must not be able to choose names that collide,
//! so every process and every table hashes with a random key of its own. No hash is stored or compared
//! outside the process, and a guessed key affects lookup time only.

pub(crate) use foldhash::fast::RandomState as Hashing;

/// A map with a random hash key.
pub(crate) type HashMap<K, V> = std::collections::HashMap<K, V, Hashing>;

/// A set with a random hash key.
pub(crate) type HashSet<T> = std::collections::HashSet<T, Hashing>;
