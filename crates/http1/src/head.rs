//! Owns what the heads of requests and responses have in common: bounds, progress, stages and errors.

use std::error::Error;
use std::fmt;

use crate::violation::RuleViolation;

/// The bounds of a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadLimits {
    /// Bytes of the head, with the empty line.
    pub bytes: usize,
    /// Fields.
    pub fields: usize,
    /// Bytes of a request's target, as sent.
    pub target: usize,
}

impl HeadLimits {
    /// Checks the size of a head that breaks no rule, of which `read` is here.
    pub(crate) fn check(
        &self,
        read: &[u8],
        progress: HeadProgress,
        fields: usize,
    ) -> Result<(), HeadError> {
        let (bytes, fields) = match progress {
            HeadProgress::Partial => (read.len(), 0),
            HeadProgress::Whole(bytes) => (bytes, fields),
        };
        // Ranges have 32 bits.
        if bytes > self.bytes.min(u32::MAX as usize) || fields > self.fields {
            return Err(HeadError::TooLarge);
        }
        Ok(())
    }
}

/// The result of parsing the bytes that are here, unless they are malformed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadProgress {
    /// A partial head, to be parsed again with more bytes behind these.
    Partial,
    /// A whole head of so many bytes, with the empty line.
    Whole(usize),
}

/// The part of a head that is expected next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum HeadStage {
    /// The request line or status line.
    #[default]
    StartLine,
    Fields,
    /// The end; further bytes belong to the body.
    Over,
}

/// A head that cannot be served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadError {
    /// It breaks a rule.
    Rule(RuleViolation),
    /// The target is longer than [`HeadLimits::target`].
    TargetTooLong,
    /// The head has more bytes or fields than [`HeadLimits`] allow.
    TooLarge,
}

impl From<RuleViolation> for HeadError {
    fn from(rule: RuleViolation) -> Self {
        Self::Rule(rule)
    }
}

impl fmt::Display for HeadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Rule(rule) => rule.fmt(f),
            Self::TargetTooLong => f.write_str("the target is too long"),
            Self::TooLarge => f.write_str("the head has too many bytes or fields"),
        }
    }
}

impl Error for HeadError {}
