//! Reads the streams that only the client writes, RFC 9114 §6.2.

use std::time::Duration;

use sluicegate_http2::StreamEnd;

use super::ServerConnection;
use super::action::StreamAction;
use super::client_streams::ClientStream;
use crate::error_code::ErrorCode;
use crate::qpack::read_encoder_stream;
use crate::stream_id::StreamId;
use crate::varint;
use crate::violation::RuleViolation;

impl ServerConnection {
    pub(super) fn receive_from_client(
        &mut self,
        stream: StreamId,
        input: &mut &[u8],
        end: StreamEnd,
        now: Duration,
    ) -> Result<(), RuleViolation> {
        self.read_type(stream, input)?;
        match self.client_streams.find(stream) {
            Some(ClientStream::Control) => self.receive_control(input, now)?,
            Some(ClientStream::Encoder) => {
                read_encoder_stream(input)?;
                self.skip(input.len(), now)?;
            }
            Some(ClientStream::Decoder) => {
                for byte in *input {
                    if self.decoder.read(*byte)? {
                        self.count_control_frame(now)?;
                    }
                }
            }
            Some(ClientStream::Undetermined(..)) | None => {}
        }
        *input = &[];
        match end {
            StreamEnd::Here => self.client_streams.end(stream),
            StreamEnd::NotYet => Ok(()),
        }
    }

    /// Reads the type of a stream, RFC 9114 §6.2, unless it has come.
    fn read_type(&mut self, stream: StreamId, input: &mut &[u8]) -> Result<(), RuleViolation> {
        while let Some(ClientStream::Undetermined(mut bytes, count)) =
            self.client_streams.find(stream)
        {
            let Some(byte) = input.split_off_first() else {
                return Ok(());
            };
            if let Some(place) = bytes.get_mut(count) {
                *place = *byte;
            }
            let came = bytes.get(..=count).unwrap_or_default();
            match varint::read(came).map(|(kind, _)| kind) {
                None => {
                    let more = ClientStream::Undetermined(bytes, count + 1);
                    self.client_streams.set(stream, more);
                }
                Some(0x00) => self
                    .client_streams
                    .determine(stream, ClientStream::Control)?,
                Some(0x01) => return Err(RuleViolation::PushStream),
                Some(0x02) => self
                    .client_streams
                    .determine(stream, ClientStream::Encoder)?,
                Some(0x03) => self
                    .client_streams
                    .determine(stream, ClientStream::Decoder)?,
                // RFC 9114 §6.2.3: others, those that are reserved among them, are not read.
                Some(_) => {
                    self.client_streams.end(stream)?;
                    let code = ErrorCode::STREAM_CREATION_ERROR;
                    self.actions.push_back(StreamAction::Stop { stream, code });
                }
            }
        }
        Ok(())
    }
}
