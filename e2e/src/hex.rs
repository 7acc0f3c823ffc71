//! Bytes as text.

use std::fmt::Write;

/// Bytes as lower-case hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_leading_zeros() {
        assert_eq!(hex(&[0, 10, 255]), "000aff");
        assert_eq!(hex(&[]), "");
    }
}
