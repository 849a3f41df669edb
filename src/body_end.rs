//! Names the position of a piece in its body, for both sides of the gateway.

/// The position of a piece in its body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BodyEnd {
    /// The last piece.
    Here,
    /// Pieces may follow.
    NotYet,
}
