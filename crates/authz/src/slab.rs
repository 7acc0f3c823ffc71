//! Values under small numbers, which stay theirs until they are removed.

#[derive(Debug)]
pub(crate) struct Slab<T> {
    values: Vec<Option<T>>,
    free: Vec<usize>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            values: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> usize {
        let place = self.free.pop().unwrap_or(self.values.len());
        match self.values.get_mut(place) {
            Some(slot) => *slot = Some(value),
            None => self.values.push(Some(value)),
        }
        place
    }

    pub(crate) fn get(&self, place: usize) -> Option<&T> {
        self.values.get(place)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: usize) -> Option<&mut T> {
        self.values.get_mut(place)?.as_mut()
    }

    pub(crate) fn remove(&mut self, place: usize) -> Option<T> {
        let value = self.values.get_mut(place)?.take()?;
        self.free.push(place);
        Some(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_used_again_only_after_its_value_is_gone() {
        let mut slab = Slab::default();
        let (a, b) = (slab.insert("a"), slab.insert("b"));
        assert_eq!(slab.remove(a), Some("a"));
        assert_eq!(slab.remove(a), None);
        assert_eq!(slab.get(a), None);
        assert_eq!(slab.insert("c"), a);
        assert_ne!(slab.insert("d"), a);
        assert_eq!((slab.get(a), slab.get(b)), (Some(&"c"), Some(&"b")));
        assert_eq!(slab.get(9), None);
    }
}
