//! Stores the body of a response while it passes, and passes the part of it that the client gets. Limits read their costs from it.
//!
//! # Limits
//! A body that turns out to be larger than `max_object_bytes` is not stored, and its URL is remembered; requests that wait for it then
//! go to the origin, each by itself.

use pingora::cache::predictor::CacheablePredictor;
use pingora::cache::{CacheKey, NoCacheReason};
use sluicegate_base::reported_cost::CostReader;

use super::ClientPart;
use sluicegate_cache::entry_writer::EntryWriter;
use sluicegate_cache::fill_lock::FillPermit;
use sluicegate_origin::request_failure::Result;

/// A response that is being stored. Dropped before its end, it stores nothing.
pub(in super::super) struct BodyFill {
    pub(super) writer: EntryWriter,
    /// The permit, if other requests may wait.
    pub(super) permit: Option<FillPermit>,
    /// Bytes that the body may still have.
    pub(super) room: usize,
    pub(super) key: CacheKey,
    pub(super) predictor: &'static (dyn CacheablePredictor + Sync),
}

/// The uses of a body that passes: the cache stores it, the client gets a part of it, limits find costs in it.
pub(in super::super) struct BodyTap {
    fill: Option<Box<BodyFill>>,
    part: ClientPart,
    /// The readers of costs in the body.
    costs: Vec<CostReader>,
}

impl BodyTap {
    /// Returns the uses of a body; `None` where all of it passes, and none is stored or read.
    pub(in super::super) fn new(
        fill: Option<Box<BodyFill>>,
        part: ClientPart,
        costs: Vec<CostReader>,
    ) -> Option<Box<Self>> {
        let passes = matches!(part, ClientPart::AsItIs | ClientPart::Whole);
        let is_used = fill.is_some() || !costs.is_empty();
        (!passes || is_used).then(|| Box::new(Self { fill, part, costs }))
    }

    /// Returns the readers of costs, which have read what has passed.
    pub(in super::super) fn take_costs(&mut self) -> Vec<CostReader> {
        std::mem::take(&mut self.costs)
    }

    /// Returns whether the client has all of its part.
    pub(in super::super) fn is_client_served(&self) -> bool {
        self.part.is_over()
    }

    /// Returns whether all of the body is needed, whatever the client gets of it: it is being stored, or a cost is read from it.
    pub(in super::super) fn needs_whole(&self) -> bool {
        let is_stored = |fill: &BodyFill| !fill.writer.is_aborted();
        !self.costs.is_empty() || self.fill.as_deref().is_some_and(is_stored)
    }

    /// Takes a piece of the body, and passes the client's part of it on.
    ///
    /// # Errors
    /// Those of `pass`.
    pub(in super::super) fn take(
        &mut self,
        piece: &[u8],
        pass: impl FnMut(&[u8]) -> Result<()>,
    ) -> Result<()> {
        self.take_unsent(piece);
        self.part.cut(piece, pass)
    }

    /// Takes a piece of the body of which the client gets nothing.
    pub(in super::super) fn take_unsent(&mut self, piece: &[u8]) {
        for cost in &mut self.costs {
            cost.read(piece);
        }
        self.store(piece);
    }

    fn store(&mut self, piece: &[u8]) {
        let Some(fill) = &mut self.fill else { return };
        match fill.room.checked_sub(piece.len()) {
            Some(room) => {
                fill.room = room;
                fill.writer.push(piece);
            }
            None => {
                if let Some(fill) = self.fill.take() {
                    fill.end_as_too_large();
                }
            }
        }
    }

    /// Ends the body.
    pub(in super::super) fn end(&mut self) {
        if let Some(fill) = self.fill.take() {
            fill.writer.store();
            if let Some(permit) = fill.permit {
                permit.stored();
            }
        }
    }
}

impl BodyFill {
    fn end_as_too_large(self) {
        let reason = NoCacheReason::ResponseTooLarge;
        let _ = self.predictor.mark_uncacheable(&self.key, reason);
        if let Some(permit) = self.permit {
            permit.not_storable();
        }
    }
}
