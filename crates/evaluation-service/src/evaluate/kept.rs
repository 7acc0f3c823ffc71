//! What was found before, for whoever brings the very same again.
//!
//! Owns: how much is kept, and what goes first. Refuses to know: what it is. Entries are found by a hash under
//! a random key; whether one is what is looked for is for the finder to compare.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hasher};
use std::mem;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use foldhash::fast::RandomState;

/// Something that may be kept.
pub(super) trait Entry {
    /// Entries that are kept.
    const MOST: usize;
    /// Bytes of all that is kept.
    const MOST_BYTES: usize;

    /// What it takes, about.
    fn bytes(&self) -> usize;
}

/// Entries that hold as long as nobody forgets them.
#[derive(Debug)]
pub(super) struct Kept<T> {
    seed: RandomState,
    known: Mutex<Generations<T>>,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self {
            seed: RandomState::default(),
            known: Mutex::default(),
        }
    }
}

/// What was asked for lately, and what before that. When there is too much of the former it becomes the
/// latter, whose entries go: so the one that was asked for least lately goes first, about.
#[derive(Debug)]
pub(super) struct Generations<T> {
    pub(super) young: Generation<T>,
    pub(super) old: Generation<T>,
}

impl<T> Default for Generations<T> {
    fn default() -> Self {
        Self {
            young: Generation::default(),
            old: Generation::default(),
        }
    }
}

#[derive(Debug)]
pub(super) struct Generation<T> {
    pub(super) entries: HashMap<u64, Arc<T>, RandomState>,
    pub(super) bytes: usize,
}

impl<T> Default for Generation<T> {
    fn default() -> Self {
        Self {
            entries: HashMap::default(),
            bytes: 0,
        }
    }
}

impl<T: Entry> Kept<T> {
    /// The hash of what is written into a hasher.
    pub(super) fn hash(
        &self,
        write: impl FnOnce(&mut <RandomState as BuildHasher>::Hasher),
    ) -> u64 {
        let mut hasher = self.seed.build_hasher();
        write(&mut hasher);
        hasher.finish()
    }

    /// The entry of a hash.
    pub(super) fn get(&self, hash: u64) -> Option<Arc<T>> {
        self.lock().get(hash)
    }

    /// Keeps an entry, in the place of others when there are too many.
    pub(super) fn put(&self, hash: u64, entry: T) {
        self.lock().put(hash, Arc::new(entry));
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, Generations<T>> {
        // Entries are put in and taken out whole.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: Entry> Generations<T> {
    fn get(&mut self, hash: u64) -> Option<Arc<T>> {
        if let Some(known) = self.young.entries.get(&hash) {
            return Some(Arc::clone(known));
        }
        let known = self.old.take(hash)?;
        self.put(hash, Arc::clone(&known));
        Some(known)
    }

    fn put(&mut self, hash: u64, entry: Arc<T>) {
        // Of two entries of one hash the later one is kept.
        self.young.take(hash);
        self.old.take(hash);
        let bytes = self.young.bytes + entry.bytes();
        if bytes > T::MOST_BYTES / 2 || self.young.entries.len() >= T::MOST / 2 {
            self.old = mem::take(&mut self.young);
        }
        self.young.put(hash, entry);
    }
}

impl<T: Entry> Generation<T> {
    fn put(&mut self, hash: u64, entry: Arc<T>) {
        self.bytes += entry.bytes();
        self.entries.insert(hash, entry);
    }

    fn take(&mut self, hash: u64) -> Option<Arc<T>> {
        let entry = self.entries.remove(&hash)?;
        self.bytes -= entry.bytes();
        Some(entry)
    }
}
