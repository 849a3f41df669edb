//! Lists the failures for which no origin is to blame: the name in the access log, the status, `Retry-After` and the text of each, in one
//! table.
//!
//! A new failure is one entry here, its row in docs/operations/logs.md, and the line of the code that finds it.

use http::StatusCode;

macro_rules! own_failures {
    ($(
        #[doc = $doc:literal]
        $failure:ident = $name:literal, $status:ident, retry_after: $retry_after:expr,
            $detail:literal;
    )*) => {
        /// The kind of a failure for which no origin is to blame. Those of origins are in the module `failure` of the gateway; of a request
        /// that a limit rejects for want of its store the outcome is the failure.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum OwnFailure {
            $(#[doc = $doc] $failure,)*
        }

        impl OwnFailure {
            /// Every kind.
            pub const ALL: [Self; [$(Self::$failure),*].len()] = [$(Self::$failure),*];

            /// Returns the name in the log.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$failure => $name,)* }
            }

            /// Returns the status of the answer.
            #[must_use]
            pub const fn status(self) -> StatusCode {
                match self { $(Self::$failure => StatusCode::$status,)* }
            }

            /// Returns the value of `Retry-After` in seconds; `None` where the time is unknown.
            #[must_use]
            pub const fn retry_after(self) -> Option<u64> {
                match self { $(Self::$failure => $retry_after,)* }
            }

            /// Returns a sentence about the failure, for the client.
            #[must_use]
            pub const fn detail(self) -> &'static str {
                match self { $(Self::$failure => $detail,)* }
            }
        }
    };
}

/// The wait where requests end all the time, in seconds.
const SOON: Option<u64> = Some(1);

own_failures! {
    /// Too many requests are delayed already.
    DelayQueueFull = "delay-queue-full", SERVICE_UNAVAILABLE, retry_after: None,
        "too many requests wait for their turn already";
    /// The bound on requests in flight to origins is reached, in all or for the client.
    OriginRequestsFull = "origin-requests-full", SERVICE_UNAVAILABLE, retry_after: SOON,
        "too many requests are on their way to origins; try again soon";
    /// The bound on bytes of bodies that are read for keys is reached, in all or for the client.
    KeyBodiesFull = "key-bodies-full", SERVICE_UNAVAILABLE, retry_after: SOON,
        "too many request bodies are being read; try again soon";
    /// The bound on bytes of heads that are not whole is reached, in all or for the client.
    PartialHeadsFull = "partial-heads-full", SERVICE_UNAVAILABLE, retry_after: SOON,
        "too many heads of requests are not whole; send yours at once";
    /// The bound on bytes of large heads is reached, in all or for the client.
    LargeHeadsFull = "large-heads-full", SERVICE_UNAVAILABLE, retry_after: SOON,
        "too many requests with large heads wait; try again soon";
    /// The bound on unread bytes of answers is reached, in all or for the client.
    UnreadFull = "unread-full", SERVICE_UNAVAILABLE, retry_after: SOON,
        "too many answers wait to be read; try again soon";
    /// The client accepts a stored answer only, and there is none; RFC 9111 §5.2.1.7 defines the status.
    NotStored = "not-stored", GATEWAY_TIMEOUT, retry_after: None,
        "nothing fitting is stored, and only-if-cached forbids to ask the origin";
}
