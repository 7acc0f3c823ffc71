//! Breaking lines, as the library goutils does it: by bytes.

use super::{Call, Result};
use crate::error::{Refusal, TemplateRenderProblem};

/// Breaks a line at spaces so that pieces have at most so many bytes; long words too, if asked for.
pub(super) fn wrapped(
    call: &Call<'_>,
    text: &str,
    width: i64,
    line_end: &str,
    long_words: bool,
) -> Result {
    let line_end = if line_end.is_empty() { "\n" } else { line_end };
    let width = usize::try_from(width.max(1)).unwrap_or(usize::MAX);
    let bytes = text.as_bytes();
    let piece = |from: usize, to: usize| {
        let refusal = TemplateRenderProblem::Refused(Refusal::NotUtf8(call.function));
        text.get(from..to).ok_or(refusal)
    };
    call.write(|sink| {
        let mut offset = 0;
        while bytes.len() - offset > width {
            call.meter.steps(1)?;
            if bytes.get(offset) == Some(&b' ') {
                offset += 1;
                continue;
            }
            let end = offset + width;
            let window = bytes.get(offset..=end).unwrap_or_default();
            let space = window
                .iter()
                .rposition(|it| *it == b' ')
                .map(|it| it + offset);
            // Where a word ends is looked for only where the line is broken there: each byte is looked at once.
            let word_end = || {
                let mut rest = bytes.iter().skip(end);
                let next = rest.position(|it| *it == b' ').map(|it| it + end);
                call.meter.looks(next.unwrap_or(bytes.len()) - end)?;
                Ok::<_, TemplateRenderProblem>(next)
            };
            let broken = match space {
                Some(space) => Some((space, space + 1)),
                None if long_words => Some((end, end)),
                None => word_end()?.map(|next| (next, next + 1)),
            };
            let Some((to, after)) = broken else {
                sink.push(piece(offset, bytes.len())?)?;
                offset = bytes.len();
                break;
            };
            sink.push(piece(offset, to)?)?;
            sink.push(line_end)?;
            offset = after;
        }
        Ok(sink.push(piece(offset, bytes.len())?)?)
    })
}
