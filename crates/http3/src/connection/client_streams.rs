//! Owns the streams that only the client writes, RFC 9114 §6.2: the use of each, and that there is one of a kind.

use crate::stream_id::StreamId;
use crate::varint;
use crate::violation::RuleViolation;

/// The streams of a client that are read.
#[derive(Debug, Default)]
pub(super) struct ClientStreams {
    open: Vec<(StreamId, ClientStream)>,
}

/// The use of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClientStream {
    /// Its type is not whole: the bytes that came, and their number.
    Undetermined([u8; varint::LONGEST], usize),
    /// RFC 9114 §6.2.1.
    Control,
    /// RFC 9204 §4.2: insertions into a table.
    Encoder,
    /// RFC 9204 §4.2: acknowledgments.
    Decoder,
}

impl ClientStreams {
    pub(super) fn open(&mut self, stream: StreamId) {
        let undetermined = ClientStream::Undetermined([0; varint::LONGEST], 0);
        self.open.push((stream, undetermined));
    }

    /// Ends a stream. RFC 9114 §6.2: it may end before its type has come.
    ///
    /// # Errors
    /// The stream lasts as long as the connection.
    pub(super) fn end(&mut self, stream: StreamId) -> Result<(), RuleViolation> {
        match self.find(stream) {
            None | Some(ClientStream::Undetermined(..)) => {
                self.open.retain(|(other, _)| *other != stream);
                Ok(())
            }
            Some(_) => Err(RuleViolation::ClosedCriticalStream),
        }
    }

    pub(super) fn find(&self, stream: StreamId) -> Option<ClientStream> {
        let mut open = self.open.iter();
        let found = open.find(|(other, _)| *other == stream);
        found.map(|(_, found)| *found)
    }

    pub(super) fn set(&mut self, stream: StreamId, found: ClientStream) {
        for (other, place) in &mut self.open {
            if *other == stream {
                *place = found;
            }
        }
    }

    /// Sets the use of a stream, which no other one has.
    pub(super) fn determine(
        &mut self,
        stream: StreamId,
        found: ClientStream,
    ) -> Result<(), RuleViolation> {
        if self.open.iter().any(|(_, other)| *other == found) {
            return Err(RuleViolation::SecondStream);
        }
        self.set(stream, found);
        Ok(())
    }
}
