//! A list of all objects of a kind, taken in while it is still arriving.

use std::marker::PhantomData;

use super::object::Half;
use super::{BindingId, IndexError, Number, RbacIndex, RbacObject, RoleId};
use crate::hash::HashSet;

/// A list on its way into an index, so that nobody has to hold it whole.
///
/// Each object counts when it is shown. What the list did not show counts until its end, as it did when
/// the list began; a listing that is dropped before deletes nothing. Between its begin and its end the
/// index hears of this kind from the listing alone.
#[derive(Debug)]
pub struct Listing<K> {
    unseen: HashSet<Number>,
    kind: PhantomData<fn(K)>,
}

impl<K: RbacObject> Listing<K> {
    /// Begins a list.
    #[must_use]
    pub fn begin(index: &RbacIndex) -> Self {
        Self {
            unseen: index.all::<K>(),
            kind: PhantomData,
        }
    }

    /// Takes an object of it. An error says that it is left out.
    pub fn show(&mut self, index: &mut RbacIndex, object: &K) -> Result<(), IndexError> {
        let number = index.put(object)?;
        self.unseen.remove(&number);
        Ok(())
    }

    /// The list is complete: what it did not show was deleted.
    pub fn end(self, index: &mut RbacIndex) {
        for number in self.unseen {
            match K::HALF {
                Half::Roles => index.forget_role(RoleId(number)),
                Half::Bindings => index.forget_binding(BindingId(number)),
            }
        }
    }
}
