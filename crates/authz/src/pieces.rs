//! Several texts in one block of memory, for objects that exist a hundred thousand times.

use std::fmt;

/// Bits of a length per character; one more bit marks that another character follows. All such code points
/// are valid, and those below 128 take one byte.
const BITS: u32 = 14;
const MORE: usize = 1 << BITS;

/// Texts, each preceded by its length, which is encoded as characters.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct Pieces(Box<str>);

impl<T: AsRef<str>> From<&[T]> for Pieces {
    fn from(pieces: &[T]) -> Self {
        let texts = pieces.iter().map(AsRef::as_ref);
        // Exact for short pieces, so that the string is never reallocated.
        let room = texts.clone().map(|text| text.len() + 1).sum();
        let mut packed = String::with_capacity(room);
        for text in texts {
            let mut length = text.len();
            while length >= MORE {
                packed.push(character(length % MORE + MORE));
                length /= MORE;
            }
            packed.push(character(length));
            packed.push_str(text);
        }
        Self(packed.into_boxed_str())
    }
}

impl Pieces {
    pub(crate) fn iter(&self) -> Iter<'_> {
        Iter(&self.0)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl fmt::Debug for Pieces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

fn character(digit: usize) -> char {
    let digit = u32::try_from(digit).ok();
    digit.and_then(char::from_u32).unwrap_or_default()
}

#[derive(Clone)]
pub(crate) struct Iter<'a>(&'a str);

impl<'a> Iterator for Iter<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let mut rest = self.0.chars();
        let (mut length, mut shift) = (0, 0);
        loop {
            let digit = u32::from(rest.next()?) as usize;
            length += (digit % MORE) << shift;
            shift += BITS;
            if digit < MORE {
                break;
            }
        }
        let (piece, rest) = rest.as_str().split_at_checked(length)?;
        self.0 = rest;
        Some(piece)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_come_out_as_they_went_in() {
        let long = "ü".repeat(MORE);
        for pieces in [
            vec![],
            vec![""],
            vec!["", ""],
            vec!["a"],
            vec!["a", "", "bc", "\0", "\u{10ffff}", "ü"],
            vec![&long[..126], &long[..128], &long[..MORE], &long, "end"],
        ] {
            let packed = Pieces::from(&*pieces);
            assert_eq!(packed.iter().collect::<Vec<_>>(), pieces);
            assert_eq!(packed.is_empty(), pieces.is_empty());
            assert_eq!(format!("{packed:?}"), format!("{pieces:?}"));
        }
    }

    /// Not every number is a character.
    #[test]
    fn a_text_of_any_length_comes_out_whole() {
        let long = "x".repeat(5 * MORE);
        for length in (0..long.len()).step_by(997) {
            let pieces = [&long[..length], "end"];
            let packed = Pieces::from(&pieces[..]);
            assert!(packed.iter().eq(pieces), "{length} bytes");
        }
    }

    #[test]
    fn other_pieces_are_not_the_same() {
        let packed = |pieces: &[&str]| Pieces::from(pieces);
        assert_eq!(packed(&["a", "b"]), packed(&["a", "b"]));
        assert_ne!(packed(&["ab"]), packed(&["a", "b"]));
        assert_ne!(packed(&[]), packed(&[""]));
    }

    #[test]
    fn short_pieces_cost_one_byte_more_than_their_text() {
        let packed = Pieces::from(&["abc", "de"][..]);
        assert_eq!(packed.0.len(), 3 + 2 + 2);
    }
}
