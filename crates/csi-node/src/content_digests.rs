//! Digests of the inputs of each volume's content: the same inputs need no new rendering and no write.
//!
//! A digest is stored after its content was written, and removed before another write. It is lost at a restart. The
//! first look after a restart compares the files themselves.

use std::{
    collections::HashMap,
    fmt,
    sync::{Mutex, MutexGuard, PoisonError},
};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::volume::VolumePath;

/// A digest of all inputs of a content. The pod's token is one of them.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct ContentDigest([u8; 32]);

/// Without the value, which only this process can use.
impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ContentDigest(..)")
    }
}

impl ContentDigest {
    /// The digest of these inputs. None if they cannot be serialized. Then they count as new.
    pub(crate) fn of(inputs: &impl Serialize) -> Option<Self> {
        let json = serde_json::to_vec(inputs).ok()?;
        Some(Self(Sha256::digest(json).into()))
    }
}

/// The digests of the volumes of this node.
#[derive(Debug, Default)]
pub(crate) struct ContentDigests(Mutex<HashMap<VolumePath, ContentDigest>>);

impl ContentDigests {
    /// True if this process wrote the volume from exactly these inputs.
    pub(crate) fn has(&self, place: &VolumePath, digest: Option<ContentDigest>) -> bool {
        digest.is_some() && self.digests().get(place).copied() == digest
    }

    /// The volume has the content of these inputs.
    pub(crate) fn put(&self, place: &VolumePath, digest: Option<ContentDigest>) {
        if let Some(digest) = digest {
            self.digests().insert(place.clone(), digest);
        }
    }

    /// The volume is about to be written, or is gone.
    pub(crate) fn forget(&self, place: &VolumePath) {
        self.digests().remove(place);
    }

    /// How many volumes are known.
    #[cfg(test)]
    pub(crate) fn census(&self) -> usize {
        self.digests().len()
    }

    fn digests(&self) -> MutexGuard<'_, HashMap<VolumePath, ContentDigest>> {
        // A panic elsewhere leaves the map whole, because only single calls change it.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::place;

    #[test]
    fn a_volume_has_the_digest_that_was_put_last_until_it_is_forgotten() {
        let digests = ContentDigests::default();
        let (first, second) = (ContentDigest::of(&"t1"), ContentDigest::of(&"t2"));
        assert!(!digests.has(&place("a"), first));
        digests.put(&place("a"), first);
        assert!(digests.has(&place("a"), first) && !digests.has(&place("b"), first));
        digests.put(&place("a"), second);
        assert!(!digests.has(&place("a"), first) && digests.has(&place("a"), second));
        digests.forget(&place("a"));
        assert!(!digests.has(&place("a"), second));
        assert_eq!(digests.census(), 0);
    }

    /// No digest is equal to none.
    #[test]
    fn what_cannot_be_written_down_is_always_new() {
        let digests = ContentDigests::default();
        let odd = ContentDigest::of(&std::collections::HashMap::from([((1, 2), 3)]));
        assert_eq!(odd, None);
        digests.put(&place("a"), odd);
        assert!(!digests.has(&place("a"), odd));
    }

    #[test]
    fn no_digest_is_printed() {
        assert_eq!(
            format!("{:?}", ContentDigest::of(&"t1")),
            "Some(ContentDigest(..))"
        );
    }
}
