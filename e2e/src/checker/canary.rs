//! Looks for anything that has the form of a signed token where none may be.

/// The shortest part of a token that is taken for one: words with dots are everywhere.
const SHORTEST_PART: usize = 10;
/// How the base64 of a JSON object begins.
const BEGINNING: &str = "eyJ";

/// Whether a text holds something in the form of a signed token.
#[must_use]
pub fn holds_token(text: &str) -> bool {
    text.match_indices(BEGINNING).any(|(at, _)| {
        let mut rest = text.get(at..).unwrap_or_default();
        for part in 0..3 {
            let length = rest
                .bytes()
                .take_while(|byte| is_part_of_token(*byte))
                .count();
            if length < SHORTEST_PART {
                return false;
            }
            rest = rest.get(length..).unwrap_or_default();
            if part < 2 {
                let Some(next) = rest.strip_prefix('.') else {
                    return false;
                };
                rest = next;
            }
        }
        true
    })
}

fn is_part_of_token(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_'
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOKEN: &str = "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsiYSJdfQ.c2lnbmF0dXJlLWJ5dGVz";

    #[test]
    fn a_token_is_found_wherever_it_stands() {
        for text in [
            TOKEN.to_owned(),
            format!("\"token\":\"{TOKEN}\","),
            format!("eyJ {TOKEN}="),
        ] {
            assert!(holds_token(&text), "{text}");
        }
    }

    #[test]
    fn what_only_looks_a_little_like_a_token_is_none() {
        for text in [
            "",
            "eyJ",
            "eyJhbGciOiJSUzI1NiJ9",
            "eyJhbGciOiJSUzI1NiJ9.eyJhdWQiOlsiYSJdfQ",
            "eyJhbGciOiJSUzI1NiJ9..c2lnbmF0dXJl",
            "eyJ.a.b",
            "connectors.alauda.io/accessRequest",
            "eyJäääääääää.aaaaaaaaaa.aaaaaaaaaa",
        ] {
            assert!(!holds_token(text), "{text}");
        }
    }
}
