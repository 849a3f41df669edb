//! Names the failures for which no origin is to blame, in the words of the access log.

/// The kind of a failure for which no origin is to blame. Those of origins are in the module `failure` of the gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OwnFailure {
    /// Too many requests are delayed already.
    DelayQueueFull,
    /// A cap on requests in flight to origins is reached.
    OriginRequestsFull,
    /// A cap on the bytes of bodies that are read for keys is reached.
    KeyBodiesFull,
    /// A cap on the bytes of heads that are not whole is reached.
    PartialHeadsFull,
    /// A cap on the bytes of large heads is reached.
    LargeHeadsFull,
    /// A cap on the unread bytes of answers is reached.
    UnreadFull,
    /// The client accepts a stored answer only, and there is none.
    NotStored,
    /// The store that decides a limit was unavailable.
    StoreUnavailable,
}

impl OwnFailure {
    /// Every kind.
    pub const ALL: [Self; 8] = [
        Self::DelayQueueFull,
        Self::OriginRequestsFull,
        Self::KeyBodiesFull,
        Self::PartialHeadsFull,
        Self::LargeHeadsFull,
        Self::UnreadFull,
        Self::NotStored,
        Self::StoreUnavailable,
    ];

    /// Returns the name in the log.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::DelayQueueFull => "delay-queue-full",
            Self::OriginRequestsFull => "origin-requests-full",
            Self::KeyBodiesFull => "key-bodies-full",
            Self::PartialHeadsFull => "partial-heads-full",
            Self::LargeHeadsFull => "large-heads-full",
            Self::UnreadFull => "unread-full",
            Self::NotStored => "not-stored",
            Self::StoreUnavailable => "store-unavailable",
        }
    }
}
