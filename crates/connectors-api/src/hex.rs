//! Bytes as text.

use std::fmt::Write as _;

/// Two lower-case hexadecimal digits for each byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::hex;

    #[test]
    fn each_byte_has_two_lower_case_digits() {
        assert_eq!(hex(&[0, 9, 0x0a, 0xff]), "00090aff");
        assert_eq!(hex(&[]), "");
    }
}
