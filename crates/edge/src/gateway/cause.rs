//! Writes the cause of a request without a proper answer for log and metrics: a kind, and the text of the operating system, of TLS or of
//! the parser.
//!
//! The client gets a status and no more; the cause is for the operator. Text that the other side may have chosen is escaped and
//! bounded.

use std::borrow::Cow;
use std::fmt::{self, Write};

use sluicegate_base::bounds::FAILURE_REASON;

use sluicegate_decide::response::GatewayProblem;

/// The cause of a request without a proper answer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Cause {
    /// The kind of the failure; `None` where the client is to blame, or the gateway broke.
    pub(super) failure: Option<&'static str>,
    /// The description.
    pub(super) reason: Cow<'static, str>,
}

impl Cause {
    /// Returns the cause with this kind and text.
    pub(super) fn new(failure: Option<&'static str>, text: &impl fmt::Display) -> Box<Self> {
        Box::new(Self {
            failure,
            reason: bounded(text).into(),
        })
    }

    /// Returns the cause of a rejection by the gateway itself.
    pub(super) fn of_problem(problem: GatewayProblem) -> Box<Self> {
        Box::new(Self {
            failure: problem.failure(),
            reason: problem.detail().into(),
        })
    }
}

/// Returns printable ASCII of at most [`FAILURE_REASON`] bytes.
pub(super) fn bounded(text: &impl fmt::Display) -> String {
    let mut bounded = BoundedText(String::new());
    // The only error is that of a text which is too long, whose beginning is kept.
    let _ = write!(bounded, "{text}");
    bounded.0
}

/// A text that takes characters as long as it is short.
struct BoundedText(String);

impl Write for BoundedText {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for character in text.chars() {
            let before = self.0.len();
            if character == ' ' || character.is_ascii_graphic() {
                self.0.push(character);
            } else if character == '§' {
                self.0.push_str("section ");
            } else {
                write!(self.0, "{}", character.escape_default())?;
            }
            if self.0.len() > FAILURE_REASON {
                self.0.truncate(before.min(FAILURE_REASON - 3));
                self.0.push_str("...");
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Goal: text from an origin neither breaks a log line nor makes it long. Method: any text.
        #[test]
        fn a_reason_is_short_printable_ascii(text in any::<String>(), times in 1_usize..100) {
            let reason = bounded(&text.repeat(times));
            prop_assert!(reason.len() <= FAILURE_REASON);
            prop_assert!(reason.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()));
        }
    }
}
