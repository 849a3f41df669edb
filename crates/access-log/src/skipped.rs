//! Counts the lines of a log that are no requests and should be none, by kind.

/// The kind of a line that its log may have beside requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SkippedKind {
    /// An empty line.
    Blank,
    /// A directive or a comment, such as `#Fields:`.
    Comment,
    /// A message of the server, or of another logger that writes into the same log.
    Message,
    /// The error of a request that has a line of its own in the access log.
    RequestError,
    /// A connection on which no request was read.
    Connection,
    /// A request that the server could not read, without the address of a client.
    UnreadRequest,
    /// A part of a line that the log driver has split; the last part completes the line.
    Fragment,
    /// A line in an envelope that names a service which has written no request.
    OtherService,
}

impl SkippedKind {
    /// All kinds, in the order of [`SkippedCounts`].
    pub const ALL: [Self; 8] = [
        Self::Blank,
        Self::Comment,
        Self::Message,
        Self::RequestError,
        Self::Connection,
        Self::UnreadRequest,
        Self::Fragment,
        Self::OtherService,
    ];

    /// Returns the noun for one line.
    #[must_use]
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Blank => "blank line",
            Self::Comment => "comment",
            Self::Message => "message",
            Self::RequestError => "error record",
            Self::Connection => "connection",
            Self::UnreadRequest => "unread request",
            Self::Fragment => "fragment",
            Self::OtherService => "line of another service",
        }
    }
}

/// The number of lines of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SkippedCounts([u64; SkippedKind::ALL.len()]);

impl SkippedCounts {
    /// Counts a line.
    pub(crate) fn add(&mut self, kind: SkippedKind) {
        if let Some(count) = self.0.get_mut(kind as usize) {
            *count += 1;
        }
    }

    /// Returns the number of all lines.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// Returns each kind of which there are lines, with their number.
    pub fn iter(&self) -> impl Iterator<Item = (SkippedKind, u64)> {
        let counts = SkippedKind::ALL.into_iter().zip(self.0);
        counts.filter(|(_, count)| *count > 0)
    }
}
