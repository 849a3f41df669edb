//! Reads an answer of HTTP/3 from the bytes of its stream, RFC 9114 §4.1.

use bytes::BytesMut;
use sluicegate_http3::frame::FrameKind;
use sluicegate_http3::{qpack, varint};

use crate::Failure;

/// The greatest head of an answer in bytes, encoded or decoded; servers here send a few hundred.
const MAX_HEAD_BYTES: usize = 65_536;

/// A whole answer.
pub struct Answer {
    /// The status of its final head.
    pub status: u16,
    /// The bytes of its body.
    pub body_bytes: u64,
}

/// An answer of which a part has come.
pub struct AnswerInput {
    /// The bytes of a frame's head that is not whole.
    frame_head: Vec<u8>,
    kind: FrameKind,
    /// The bytes that the payload of the frame still has.
    left: u64,
    /// The payload of HEADERS before the final status.
    section: Vec<u8>,
    status: Option<u16>,
    body_bytes: u64,
}

impl AnswerInput {
    /// Returns an answer of which nothing has come.
    pub fn new() -> Self {
        Self {
            frame_head: Vec::new(),
            kind: FrameKind::DATA,
            left: 0,
            section: Vec::new(),
            status: None,
            body_bytes: 0,
        }
    }

    /// Takes the next bytes of the stream.
    ///
    /// # Errors
    /// They are no answer.
    pub fn receive(&mut self, mut input: &[u8]) -> Result<(), Failure> {
        while let Some((first, rest)) = input.split_first() {
            if self.left == 0 {
                self.frame_head.push(*first);
                input = rest;
                self.begin_frame()?;
                continue;
            }
            let length = usize::try_from(self.left)?.min(input.len());
            let (payload, rest) = input.split_at(length);
            input = rest;
            self.left -= length as u64;
            match self.kind {
                FrameKind::DATA => self.body_bytes += length as u64,
                FrameKind::HEADERS if self.status.is_none() => self.receive_head(payload)?,
                _ => {}
            }
        }
        Ok(())
    }

    /// Returns the answer, where its stream has ended.
    ///
    /// # Errors
    /// The stream ended within a frame or before a head.
    pub fn end(self) -> Result<Answer, Failure> {
        if self.left > 0 || !self.frame_head.is_empty() {
            return Err("the answer ends within a frame".into());
        }
        Ok(Answer {
            status: self.status.ok_or("the answer has no head")?,
            body_bytes: self.body_bytes,
        })
    }

    /// Begins a frame where its head is whole.
    fn begin_frame(&mut self) -> Result<(), Failure> {
        let Some((kind, rest)) = varint::read(&self.frame_head) else {
            return Ok(());
        };
        let Some((length, _)) = varint::read(rest) else {
            return Ok(());
        };
        self.frame_head.clear();
        self.kind = FrameKind(kind);
        self.left = length;
        match self.kind {
            FrameKind::DATA if self.status.is_none() => Err("DATA before HEADERS".into()),
            FrameKind::HEADERS if length > MAX_HEAD_BYTES as u64 => Err("a huge head".into()),
            _ => Ok(()),
        }
    }

    fn receive_head(&mut self, payload: &[u8]) -> Result<(), Failure> {
        self.section.extend_from_slice(payload);
        if self.left == 0 {
            let status = status(&self.section)?;
            self.section.clear();
            // RFC 9110 §15.2: another head follows an interim one.
            self.status = (status >= 200).then_some(status);
        }
        Ok(())
    }
}

/// Returns the value of `:status` in a section of fields.
fn status(section: &[u8]) -> Result<u16, Failure> {
    let mut lines = BytesMut::new();
    let mut status = None;
    let decoded = qpack::decode(section, MAX_HEAD_BYTES, &mut lines, |lines, field| {
        if lines.get(field.places.name) == Some(b":status") {
            let value = lines.get(field.places.value);
            status = value.and_then(|value| std::str::from_utf8(value).ok()?.parse().ok());
        }
    });
    decoded.map_err(|violation| format!("a head that QPACK does not have: {violation:?}"))?;
    status.ok_or_else(|| "a head without :status".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use sluicegate_http3::frame::{FrameHead, write_head};

    fn frame(kind: FrameKind, payload: &[u8]) -> Vec<u8> {
        let length = payload.len() as u64;
        let mut bytes = Vec::new();
        write_head(FrameHead { kind, length }, &mut bytes);
        bytes.extend_from_slice(payload);
        bytes
    }

    fn head(status: u16) -> Vec<u8> {
        let mut section = Vec::new();
        qpack::write_prefix(&mut section);
        qpack::write_status(status, &mut section);
        qpack::write_field(b"server", b"a", &mut section);
        frame(FrameKind::HEADERS, &section)
    }

    /// Goal: an answer is read in any split. Method: interim and final heads, two frames of a body, an unknown frame and trailers, whole
    /// and byte for byte; then without the last byte.
    #[test]
    fn an_answer_is_read_in_any_split() {
        let mut section = Vec::new();
        qpack::write_prefix(&mut section);
        qpack::write_field(b"x-sum", b"1", &mut section);
        let parts = [
            head(103),
            head(429),
            frame(FrameKind::DATA, b"abc"),
            frame(FrameKind(0x21), b"??"),
            frame(FrameKind::DATA, &[b'd'; 100]),
            frame(FrameKind::HEADERS, &section),
        ];
        let bytes = parts.concat();
        for size in [1, bytes.len()] {
            let mut input = AnswerInput::new();
            for piece in bytes.chunks(size) {
                input.receive(piece).unwrap();
            }
            let answer = input.end().unwrap();
            assert_eq!((answer.status, answer.body_bytes), (429, 103));
        }
        let mut input = AnswerInput::new();
        input.receive(&bytes[..bytes.len() - 1]).unwrap();
        assert!(input.end().is_err());
    }

    /// Goal: an answer without a head is none. Method: a body alone, interim heads alone, and an empty stream.
    #[test]
    fn an_answer_has_a_head() {
        let mut input = AnswerInput::new();
        assert!(input.receive(&frame(FrameKind::DATA, b"a")).is_err());
        let mut input = AnswerInput::new();
        input.receive(&head(100)).unwrap();
        assert!(input.end().is_err());
        assert!(AnswerInput::new().end().is_err());
    }
}
