//! base64, base32, JSON, and hashes.

use base64::{
    Engine as _, alphabet,
    engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig, general_purpose::STANDARD},
};
use sha2::{Digest, Sha256, Sha512};

use super::{Call, Function, Result, Takes, function};
use crate::{
    error::Refusal,
    json::{self, Style},
    value::Value,
};

const TEXT: &[Takes] = &[Takes::Text];
const ONE: &[Takes] = &[Takes::Any];
const COMPACT: Style = Style {
    pretty: false,
    html: true,
};
const PRETTY: Style = Style {
    pretty: true,
    html: true,
};
const RAW: Style = Style {
    pretty: false,
    html: false,
};

pub(super) const FUNCTIONS: &[Function] = &[
    function("b64enc", TEXT, |call| {
        call.meter.room(call.text(0).len().saturating_mul(4) / 3)?;
        call.make(STANDARD.encode(&*call.text(0)))
    }),
    function("b64dec", TEXT, |call| {
        // Go reads over line ends, and over bits that are left at the end.
        let text = call.text(0).replace(['\r', '\n'], "");
        decoded(call, LENIENT.decode(text).ok())
    }),
    function("b32enc", TEXT, |call| {
        call.meter.room(call.text(0).len().saturating_mul(8) / 5)?;
        call.make(base32(call.text(0).as_bytes()))
    }),
    function("b32dec", TEXT, |call| {
        decoded(call, from_base32(&call.text(0)))
    }),
    function("sha256sum", TEXT, |call| {
        call.work(call.text(0).len().saturating_mul(8))?;
        call.make(hex(&Sha256::digest(&*call.text(0))))
    }),
    function("sha512sum", TEXT, |call| {
        call.work(call.text(0).len().saturating_mul(8))?;
        call.make(hex(&Sha512::digest(&*call.text(0))))
    }),
    function("adler32sum", TEXT, |call| {
        call.work(call.text(0).len())?;
        call.make(adler32(call.text(0).as_bytes()).to_string())
    }),
    function("toJson", ONE, |call| written(call, COMPACT, false)),
    function("mustToJson", ONE, |call| written(call, COMPACT, true)),
    function("toPrettyJson", ONE, |call| written(call, PRETTY, false)),
    function("mustToPrettyJson", ONE, |call| written(call, PRETTY, true)),
    function("toRawJson", ONE, |call| written(call, RAW, true)),
    function("mustToRawJson", ONE, |call| written(call, RAW, true)),
    function("fromJson", TEXT, |call| {
        Ok(json::read(call.meter, &call.text(0))?.unwrap_or(Value::Nil))
    }),
    function("mustFromJson", TEXT, |call| {
        let value = json::read(call.meter, &call.text(0))?;
        value.ok_or_else(|| call.failed("invalid JSON"))
    }),
];

const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

fn decoded(call: &Call<'_>, bytes: Option<Vec<u8>>) -> Result {
    call.work(call.text(0).len())?;
    let bytes = bytes.ok_or(Refusal::NotEncoded(call.function))?;
    let text = String::from_utf8(bytes).map_err(|_| Refusal::NotUtf8(call.function))?;
    call.make(text)
}

fn written(call: &Call<'_>, style: Style, must: bool) -> Result {
    match json::write(call.meter, &call.value(0), style)? {
        Some(text) => call.make(text),
        None if must => Err(call.failed("json: unsupported value")),
        None => call.make(""),
    }
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().flat_map(|it| [it >> 4, it & 15]);
    digits
        .filter_map(|it| char::from_digit(it.into(), 16))
        .collect()
}

fn adler32(bytes: &[u8]) -> u32 {
    const MODULUS: u32 = 65521;
    let sums = bytes.iter().fold((1, 0), |(one, two), byte| {
        let one = (one + u32::from(*byte)) % MODULUS;
        (one, (two + one) % MODULUS)
    });
    sums.1 << 16 | sums.0
}

const BASE32: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";

fn base32(bytes: &[u8]) -> String {
    let mut text = String::new();
    for chunk in bytes.chunks(5) {
        let mut group = [0; 5];
        group
            .iter_mut()
            .zip(chunk)
            .for_each(|(into, byte)| *into = *byte);
        let bits = group
            .iter()
            .fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
        let written = (chunk.len() * 8).div_ceil(5);
        for place in 0..8 {
            let index = usize::try_from(bits >> (35 - 5 * place) & 31).unwrap_or(0);
            let letter = BASE32.get(index).copied().map_or('=', char::from);
            text.push(if place < written { letter } else { '=' });
        }
    }
    text
}

/// None for text in another encoding; line ends are skipped.
fn from_base32(text: &str) -> Option<Vec<u8>> {
    let text = text.replace(['\r', '\n'], "");
    let mut bytes = Vec::new();
    let groups: Vec<&[u8]> = text.as_bytes().chunks(8).collect();
    for (place, group) in groups.iter().enumerate() {
        let letters: Vec<u8> = group.iter().copied().take_while(|it| *it != b'=').collect();
        let padding = group.len() - letters.len();
        let is_last = place + 1 == groups.len();
        if group.len() != 8 || !group.iter().skip(letters.len()).all(|it| *it == b'=') {
            return None;
        }
        if !matches!(padding, 0 | 1 | 3 | 4 | 6) || padding > 0 && !is_last {
            return None;
        }
        let mut bits = 0_u64;
        for place in 0..8 {
            let letter = letters.get(place).copied().unwrap_or(b'A');
            let value = BASE32.iter().position(|it| *it == letter)?;
            bits = bits << 5 | u64::try_from(value).ok()?;
        }
        let whole = letters.len() * 5 / 8;
        bytes.extend(bits.to_be_bytes().into_iter().skip(3).take(whole));
    }
    Some(bytes)
}
