//! Declares the methods that both sides of a connection show, so that they stay the same.

/// Implements the methods of a side whose state is in its field `core`.
macro_rules! shared_methods {
    ($connection:ident, $event:ident) => {
        impl $connection {
            /// Reads bytes of the peer up to the next event, and removes those that were read from `input`. Returns `None` when all were
            /// read.
            ///
            /// `now` is the time since the same moment as that of [`new`](Self::new). The caller calls it until it returns `None`, then
            /// writes the output and asks which streams may [send](Self::next_ready).
            pub fn receive<'a>(
                &mut self,
                input: &mut &'a [u8],
                now: ::std::time::Duration,
            ) -> Option<$event<'a>> {
                $crate::connection::receive::receive(self, input, now)
            }

            /// Returns the bytes that wait for the socket.
            #[must_use]
            pub fn output(&self) -> &[u8] {
                self.core.output.waiting()
            }

            /// Removes bytes of [`output`](Self::output) that the socket has taken.
            pub fn advance_output(&mut self, bytes: usize) {
                self.core.output.advance(bytes);
            }

            /// Returns how many bytes will have gone to the socket when those that wait have. A message has left when
            /// [`sent_bytes`](Self::sent_bytes) has reached the number that this was behind its last byte.
            #[must_use]
            pub fn queued_bytes(&self) -> u64 {
                self.core.output.end()
            }

            /// Returns how many bytes have gone to the socket since the connection began.
            #[must_use]
            pub fn sent_bytes(&self) -> u64 {
                self.core.output.sent()
            }

            /// Returns whether the caller should read. While much output waits it should not: what it reads makes more.
            #[must_use]
            pub fn wants_input(&self) -> bool {
                self.core.wants_input()
            }

            /// Returns the bytes that are kept of a frame or a block of fields whose end has not come.
            #[must_use]
            pub fn held_back(&self) -> usize {
                self.core.held_back()
            }

            /// Returns the number of streams that are not over.
            #[must_use]
            pub fn open_streams(&self) -> usize {
                self.core.streams.len()
            }

            /// Releases memory that an idle connection does not need. The caller calls it before it waits without a stream.
            pub fn shrink(&mut self) {
                self.core.shrink();
            }

            /// Releases bytes of a body that the caller has taken, so that the peer may send as many more.
            pub fn release(&mut self, stream: $crate::StreamId, bytes: usize) {
                self.core.release(stream, bytes);
            }

            /// Sends trailers, which end the message, RFC 9113 §8.1.
            ///
            /// # Errors
            /// The stream is over, or its message has no body that is open.
            pub fn send_trailers<'f>(
                &mut self,
                stream: $crate::StreamId,
                fields: impl IntoIterator<Item = (&'f [u8], &'f [u8])>,
            ) -> Result<(), $crate::StreamGone> {
                self.core.send_trailers(stream, fields)
            }

            /// Sends DATA as far as the windows of the peer and the output have room, and no stream that goes first waits. Returns how many
            /// bytes were taken; where these are not all, the stream waits until [`next_ready`](Self::next_ready) names it, and the caller
            /// then sends the rest. The end is sent with the last byte.
            ///
            /// # Errors
            /// The stream is over, or its message has no body that is open.
            pub fn send_data(
                &mut self,
                stream: $crate::StreamId,
                data: &[u8],
                end: $crate::StreamEnd,
            ) -> Result<usize, $crate::StreamGone> {
                self.core.send_data(stream, data, end)
            }

            /// Returns the next stream that waits to send DATA and can: the most urgent one, RFC 9218 §10. Room is kept for it until it
            /// sends, so that the caller may call this until it returns `None`, and only then let the streams send, in this order.
            pub fn next_ready(&mut self) -> Option<$crate::StreamId> {
                self.core.next_ready()
            }

            /// Resets a stream with this code, RFC 9113 §6.4. One that is over stays so.
            ///
            /// `NO_ERROR` of a server behind its whole answer asks the client to send no more of its request, §8.1.
            pub fn reset(&mut self, stream: $crate::StreamId, code: $crate::ErrorCode) {
                self.core.reset(stream, code);
            }

            /// Returns whether nothing more is read or sent, except the output that waits.
            #[must_use]
            pub fn is_closed(&self) -> bool {
                self.core.is_closed()
            }
        }
    };
}

pub(super) use shared_methods;
