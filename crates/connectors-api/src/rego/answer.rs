//! The answer of a module about an object.

use regorus::Value;
use thiserror::Error;

use crate::check_state::ObjectState;

/// The limit for a message in a status.
const LONGEST_MESSAGE: usize = 1024;

/// The answer of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ModuleOutput {
    /// The state of the object according to the module.
    pub state: ObjectState,
    /// The module's explanation, shortened to the limit of a status.
    pub message: Option<String>,
}

/// The reason why the output of a module is not an answer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum ModuleOutputError {
    /// No rule applies.
    #[error("output is undefined for this object; give it an else or a default")]
    Undefined,
    /// Not an object.
    #[error("output must be an object with state and message")]
    NotAnObject,
    /// An unknown field, which would be ignored.
    #[error("output has a field other than state and message")]
    UnknownField,
    /// The state is not a text.
    #[error("output.state must be a string")]
    State,
    /// The state is too long for a word.
    #[error("output.state is too long for a state")]
    TooLong,
    /// The message is not a text.
    #[error("output.message must be a string")]
    Message,
}

impl ModuleOutput {
    pub(super) fn read(output: &Value) -> Result<Self, ModuleOutputError> {
        if matches!(output, Value::Undefined) {
            return Err(ModuleOutputError::Undefined);
        }
        let fields = output
            .as_object()
            .map_err(|_| ModuleOutputError::NotAnObject)?;
        let (mut state, mut message) = (None, None);
        for (name, value) in fields.iter() {
            match (name, value) {
                (Value::String(name), Value::Null) if matches!(&**name, "state" | "message") => {}
                (Value::String(name), Value::String(text)) if &**name == "state" => {
                    state = Some(text);
                }
                (Value::String(name), Value::String(text)) if &**name == "message" => {
                    message = Some(text);
                }
                (Value::String(name), _) if &**name == "state" => {
                    return Err(ModuleOutputError::State);
                }
                (Value::String(name), _) if &**name == "message" => {
                    return Err(ModuleOutputError::Message);
                }
                _ => return Err(ModuleOutputError::UnknownField),
            }
        }
        Self::of(state.map(|it| &**it), message.map(|it| &**it))
    }

    /// The answer with these texts.
    pub(super) fn of(
        state: Option<&str>,
        message: Option<&str>,
    ) -> Result<Self, ModuleOutputError> {
        let word = state.unwrap_or_default();
        Ok(Self {
            state: ObjectState::from_word(word).ok_or(ModuleOutputError::TooLong)?,
            message: message.map(shortened),
        })
    }
}

fn shortened(text: &str) -> String {
    if text.len() <= LONGEST_MESSAGE {
        return text.to_owned();
    }
    let end = text.floor_char_boundary(LONGEST_MESSAGE - '…'.len_utf8());
    format!("{}…", text.get(..end).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_message_keeps_as_much_as_fits_and_ends_between_letters() {
        let exact = "x".repeat(LONGEST_MESSAGE);
        assert_eq!(shortened(&exact), exact);
        let cut = shortened(&"x".repeat(LONGEST_MESSAGE + 1));
        assert_eq!(cut.len(), LONGEST_MESSAGE);
        assert!(cut.ends_with("x…"));
        let cut = shortened(&"ü".repeat(LONGEST_MESSAGE));
        assert!(cut.len() <= LONGEST_MESSAGE && cut.len() >= LONGEST_MESSAGE - 1);
        assert!(cut.ends_with("ü…"));
    }
}
