//! Random choices that a seed repeats, on every machine.

pub(super) struct Dice(u64);

impl Dice {
    pub(super) const fn of(seed: u64) -> Self {
        Self(seed)
    }

    const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below this one.
    pub(super) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end.max(1)).unwrap();
        usize::try_from(self.next() % end).unwrap()
    }

    /// True once in so many times.
    pub(super) fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub(super) fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }

    pub(super) fn any<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())]
    }

    /// Some of them, in their order.
    pub(super) fn some<'a>(&mut self, of: &[&'a str]) -> Vec<&'a str> {
        let mut some = of.to_vec();
        some.retain(|_| self.one_in(2));
        some
    }
}
