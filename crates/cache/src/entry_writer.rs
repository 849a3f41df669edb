//! Collects the body of an answer while it passes, and stores it once it is complete.
//!
//! Its bytes count against the memory of the cache from the first one. Where there is no room, or the body is not as announced
//! by its head, storing is aborted: the client gets its answer all the same, so this module never returns an error.

use std::sync::Arc;

use bytes::Bytes;
use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderValue, StatusCode};

use super::memory_storage::{MemoryStorage, RoomResult};
use super::storage_shard::{CacheEntry, EntryId, PendingEntry, UrlHash};
use super::stored_head::StoredHead;

/// An answer that is being stored. Dropped before it is finished, it stores nothing.
pub struct EntryWriter {
    storage: &'static MemoryStorage,
    url: UrlHash,
    identity: EntryId,
    filling: Arc<PendingEntry>,
    /// `None` once it is stored or aborted.
    answer: Option<WrittenResponse>,
}

struct WrittenResponse {
    head: StoredHead,
    body: Vec<u8>,
}

impl EntryWriter {
    pub(super) fn new(
        storage: &'static MemoryStorage,
        identity: EntryId,
        key: &[u8],
        head: StoredHead,
    ) -> Self {
        let (url, filling) = storage.begin(key);
        Self {
            storage,
            url,
            identity,
            filling,
            answer: Some(WrittenResponse {
                head,
                body: Vec::new(),
            }),
        }
    }

    /// Appends a piece of the body. Aborts the storing where there is no room for it.
    pub fn push(&mut self, piece: &[u8]) {
        let Some(WrittenResponse { body, .. }) = &mut self.answer else {
            return;
        };
        let before = body.capacity();
        if body.capacity() - body.len() < piece.len() {
            body.reserve(piece.len());
        }
        let grown = body.capacity() - before;
        body.extend_from_slice(piece);
        if grown > 0 && self.storage.reserve(grown) == RoomResult::None {
            self.abandon();
        }
    }

    /// Stores the response, if its body is whole and there is room. Returns the size of the body that was stored.
    pub fn store(mut self) -> usize {
        if self
            .answer
            .as_ref()
            .is_some_and(|answer| !answer.is_whole())
        {
            self.abandon();
        }
        let Some(WrittenResponse { mut head, body }) = self.answer.take() else {
            return 0;
        };
        self.storage.give_back(body.capacity());
        let body = Bytes::from(body.into_boxed_slice());
        let size = body.len();
        if head.header.status != StatusCode::NO_CONTENT {
            // The length is known now, so ranges can be cut, and no chunks are needed. Two fields out of sixty thousand always
            // fit.
            head.header.remove_header(&TRANSFER_ENCODING);
            let _ = head
                .header
                .insert_header(CONTENT_LENGTH, HeaderValue::from(size));
        }
        let entry = CacheEntry {
            number: 0,
            identity: self.identity,
            key: self.filling.key.clone(),
            head: Arc::new(head),
            body,
            used: false,
        };
        self.storage.store(self.url, &self.filling, entry);
        size
    }

    /// Returns whether the storing was aborted.
    #[must_use]
    pub fn is_aborted(&self) -> bool {
        self.answer.is_none()
    }

    fn abandon(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.storage.abandon(answer.body.capacity());
        }
    }
}

impl WrittenResponse {
    /// Returns whether the body is as long as the head announces.
    fn is_whole(&self) -> bool {
        let announced = self.head.header.headers.get(CONTENT_LENGTH);
        announced.is_none_or(|length| {
            length
                .to_str()
                .is_ok_and(|text| text.parse() == Ok(self.body.len()))
        })
    }
}

impl Drop for EntryWriter {
    fn drop(&mut self) {
        if let Some(answer) = self.answer.take() {
            self.storage.give_back(answer.body.capacity());
        }
        self.storage.end(self.url, &self.filling);
    }
}
