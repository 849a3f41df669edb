//! The reasons why reverse DNS does not prove a claim.

/// The reason why an address is not confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReverseDnsFault {
    /// Its names are not in a domain of the crawler, or do not have it.
    Names(NamesFault),
    /// DNS did not answer lately.
    Failed,
    /// Its look-up waits or is under way.
    Pending,
    /// A bound of look-ups prevents its look-up at the moment.
    Throttled,
    /// This process looks no names up.
    NotLookedUp,
}

/// The answer of DNS about an address that it does not confirm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NamesFault {
    /// The address has no name.
    NoName,
    /// None of its names is in a domain of a crawler.
    OtherDomain,
    /// The names in such a domain do not have the address.
    Mismatch,
}

impl ReverseDnsFault {
    /// Returns its name in logs.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Names(NamesFault::NoName) => "dns-no-name",
            Self::Names(NamesFault::OtherDomain) => "dns-other-domain",
            Self::Names(NamesFault::Mismatch) => "dns-mismatch",
            Self::Failed => "dns-failed",
            Self::Pending => "dns-pending",
            Self::Throttled => "dns-throttled",
            Self::NotLookedUp => "dns-not-looked-up",
        }
    }
}
