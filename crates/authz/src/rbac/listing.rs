//! A list of all objects of a kind, applied page by page while it arrives.

use std::marker::PhantomData;

use super::object::Half;
use super::{BindingId, IndexError, Number, RbacIndex, RbacObject, RoleId};
use crate::hash::HashSet;

/// A list that is being applied to an index, so that no caller has to hold it whole.
///
/// Each object is in effect as soon as it is shown. Objects that the list did not show stay in effect until
/// its end; a listing that is dropped earlier deletes nothing. Between begin and end, only the listing may
/// change objects of this kind in the index.
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

    /// Applies one object of the list. An error means that the object is left out.
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
