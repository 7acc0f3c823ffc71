//! Values with small numeric ids, which stay the same until the value is removed.

/// Values per page. The slab grows by pages, so that it never copies all values and never reserves twice as
/// many. Pages are large because allocators do housekeeping before they return a large block, and so there
/// are few of them.
const PAGE: usize = 2_048;

#[derive(Debug)]
pub(crate) struct Slab<T> {
    pages: Vec<Vec<Option<T>>>,
    free: Vec<u32>,
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Self {
            pages: Vec::new(),
            free: Vec::new(),
        }
    }
}

impl<T> Slab<T> {
    pub(crate) fn insert(&mut self, value: T) -> u32 {
        if let Some(place) = self.free.pop() {
            self.replace(place, value);
            return place;
        }
        let full = self.pages.len().saturating_sub(1) * PAGE;
        match self.pages.last_mut() {
            Some(page) if page.len() < PAGE => {
                let place = number(full + page.len());
                page.push(Some(value));
                place
            }
            Some(_) | None => {
                let mut page = Vec::with_capacity(PAGE);
                page.push(Some(value));
                self.pages.push(page);
                number((self.pages.len() - 1) * PAGE)
            }
        }
    }

    /// Puts a value in a place; returns the previous one.
    pub(crate) fn replace(&mut self, place: u32, value: T) -> Option<T> {
        self.slot(place)?.replace(value)
    }

    pub(crate) fn get(&self, place: u32) -> Option<&T> {
        let place = place as usize;
        self.pages.get(place / PAGE)?.get(place % PAGE)?.as_ref()
    }

    pub(crate) fn get_mut(&mut self, place: u32) -> Option<&mut T> {
        self.slot(place)?.as_mut()
    }

    pub(crate) fn remove(&mut self, place: u32) -> Option<T> {
        let value = self.slot(place)?.take()?;
        self.free.push(place);
        Some(value)
    }

    fn slot(&mut self, place: u32) -> Option<&mut Option<T>> {
        let place = place as usize;
        self.pages.get_mut(place / PAGE)?.get_mut(place % PAGE)
    }
}

/// Memory is exhausted long before there are more places. A value beyond the last id is never found.
fn number(place: usize) -> u32 {
    u32::try_from(place).unwrap_or(u32::MAX)
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

    #[test]
    fn places_stay_the_same_while_pages_come() {
        let mut slab = Slab::default();
        let numbers = 0..3 * PAGE;
        let places: Vec<u32> = numbers.clone().map(|number| slab.insert(number)).collect();
        for (number, place) in numbers.zip(&places) {
            assert_eq!(slab.get(*place), Some(&number));
        }
        assert_eq!(slab.replace(places[PAGE], 7), Some(PAGE));
        assert_eq!(slab.get_mut(places[PAGE]), Some(&mut 7));
        let last = places.last().copied().unwrap();
        assert_eq!(slab.get(last + 1), None);
    }
}
