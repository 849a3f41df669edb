//! Returns a stored body, whole or in parts, in pieces that one write can take.

use std::any::Any;

use async_trait::async_trait;
use bytes::Bytes;
use pingora::cache::CacheKey;
use pingora::cache::storage::{HandleHit, Storage};
use pingora::cache::trace::SpanHandle;
use pingora::{Error, ErrorType, Result};
use sluicegate_base::bounds;

/// A stored body that is being sent.
pub(super) struct StoredBody {
    body: Bytes,
    /// The rest of the requested part.
    rest: Bytes,
}

impl StoredBody {
    /// Returns the whole body.
    pub(super) fn new(body: Bytes) -> Self {
        Self {
            rest: body.clone(),
            body,
        }
    }
}

#[async_trait]
impl HandleHit for StoredBody {
    async fn read_body(&mut self) -> Result<Option<Bytes>> {
        let length = self.rest.len().min(bounds::STORED_PIECE);
        Ok((length > 0).then(|| self.rest.split_to(length)))
    }

    async fn finish(
        self: Box<Self>,
        _: &'static (dyn Storage + Sync),
        _: &CacheKey,
        _: &SpanHandle,
    ) -> Result<()> {
        Ok(())
    }

    fn can_seek(&self) -> bool {
        true
    }

    fn seek(&mut self, start: usize, end: Option<usize>) -> Result<()> {
        let end = end.map_or(self.body.len(), |end| end.min(self.body.len()));
        if start >= end {
            // The range was checked against the length of this body.
            return Error::e_explain(ErrorType::InternalError, "a range outside of its body");
        }
        self.rest = self.body.slice(start..end);
        Ok(())
    }

    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }

    fn as_any_mut(&mut self) -> &mut (dyn Any + Send + Sync) {
        self
    }
}
