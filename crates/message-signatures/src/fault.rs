//! Names what is wrong with a signature.

/// A fault of a signature. Each is the client's fault, or its clock's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SignatureFault {
    /// The fields exceed the caps, or are no structured fields.
    Malformed,
    /// A parameter that must be there is not.
    Incomplete,
    /// The algorithm is not that of the key.
    Algorithm,
    /// It does not cover the authority, or not the `Signature-Agent` that is there.
    Uncovered,
    /// It covers a component that has no value here, or is not understood.
    Component,
    /// It was made later than now.
    Early,
    /// It has expired, or its key has.
    Expired,
    /// It would be valid for too long.
    LongLived,
    /// The signature is not that of the key over this request.
    Mismatch,
}

impl SignatureFault {
    /// Every fault.
    pub const ALL: [Self; 9] = [
        Self::Malformed,
        Self::Incomplete,
        Self::Algorithm,
        Self::Uncovered,
        Self::Component,
        Self::Early,
        Self::Expired,
        Self::LongLived,
        Self::Mismatch,
    ];

    /// Returns its name in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Malformed => "signature-malformed",
            Self::Incomplete => "signature-incomplete",
            Self::Algorithm => "signature-algorithm",
            Self::Uncovered => "signature-uncovered",
            Self::Component => "signature-component",
            Self::Early => "signature-early",
            Self::Expired => "signature-expired",
            Self::LongLived => "signature-long-lived",
            Self::Mismatch => "signature-mismatch",
        }
    }
}
