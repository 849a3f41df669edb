//! Puts requests into the order of time: holds those of the latest seconds, and returns a second when no line can come before it.
//!
//! Servers write a line when a request ends, and some logs are written by many processes, so lines are nearly in order. Requests lie in
//! one buffer for each second; a second is sorted when it is returned. Equal times keep the order of the lines.
//!
//! # Limits
//! The buffers hold at most [`MAX_HELD_BYTES`]; beyond that the oldest second is returned early. Buffers are used again, so that a line
//! allocates nothing.

use std::collections::VecDeque;
use std::net::IpAddr;
use std::time::Duration;

use crate::field_selection::FieldSpelling;
use crate::line::{FieldKind, LoggedTreatment, ParsedLine};
use crate::request::{ByteSpan, LoggedFields, LoggedRequest, StoredField};
use crate::text::RawText;
use crate::time::SECOND;

/// Time by which lines may be out of order.
pub const REORDER_WINDOW: Duration = Duration::from_secs(120);

/// Bytes of requests that wait for lines before them.
pub const MAX_HELD_BYTES: usize = 512 * 1024 * 1024;

/// Buffers that are kept for later seconds.
const SPARE_BUCKETS: usize = 128;

/// The times at which requests count.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimeSpread {
    /// Those of the log.
    #[default]
    AsLogged,
    /// Those of one second are spread evenly over it, in the order of the log.
    OverSecond,
}

/// Counts of requests that came out of order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderStats {
    /// Requests whose line came behind a later one and was sorted before it.
    pub sorted: u64,
    /// Requests that came too late to be sorted; they count at the time that was reached.
    pub late: u64,
}

/// A request that was added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct BufferedLine {
    time: u64,
    /// Its index in the bucket of its second.
    index: u32,
    /// Set if it is counted as sorted or late.
    is_counted: bool,
}

/// A request as it is stored.
#[derive(Debug)]
struct StoredRequest {
    time: u64,
    client: IpAddr,
    peer: Option<IpAddr>,
    method: ByteSpan,
    host: ByteSpan,
    target: ByteSpan,
    id: ByteSpan,
    status: u16,
    treatment: LoggedTreatment,
    bytes: Option<u64>,
    duration: Option<u64>,
    first_byte: Option<u64>,
    hits: Option<u32>,
    fields: (u32, u32),
}

/// The requests of one second.
#[derive(Debug, Default)]
struct SecondBucket {
    second: u64,
    requests: Vec<StoredRequest>,
    fields: Vec<StoredField>,
    bytes: Vec<u8>,
    /// Indexes of requests that are not returned.
    left_out: Vec<u32>,
    /// Time and index of each request.
    order: Vec<(u64, u32)>,
}

/// Holds requests until no earlier one can come.
#[derive(Debug, Default)]
pub(crate) struct ReorderBuffer {
    /// By second.
    buckets: VecDeque<SecondBucket>,
    /// The second that is returned, and the number of requests of it that were.
    current: SecondBucket,
    returned: usize,
    spare: Vec<SecondBucket>,
    held_bytes: usize,
    /// The latest time that was returned.
    floor: u64,
    /// The latest time that was added and is confirmed.
    newest: u64,
    spread: TimeSpread,
    pub(crate) stats: OrderStats,
}

impl ReorderBuffer {
    pub(crate) fn spread(&mut self, spread: TimeSpread) {
        self.spread = spread;
    }

    /// Adds the request of a line.
    pub(crate) fn add(&mut self, line: &ParsedLine<'_>) -> BufferedLine {
        let Some(client) = line.client else {
            return BufferedLine::default();
        };
        let time = line.time.max(self.floor);
        let place = self.bucket(time / SECOND);
        let Some(bucket) = self.buckets.get_mut(place) else {
            return BufferedLine::default();
        };
        let before = bucket.held();
        let index = bucket.requests.len() as u32;
        bucket.add(line, client, time);
        self.held_bytes += bucket.held() - before;
        let is_late = line.time < self.floor;
        let is_sorted = !is_late && line.time < self.newest;
        self.stats.late += u64::from(is_late);
        self.stats.sorted += u64::from(is_sorted);
        BufferedLine {
            time,
            index,
            is_counted: is_late || is_sorted,
        }
    }

    /// Says that lines behind this one are out of order if their time is before its own.
    pub(crate) fn confirm(&mut self, line: BufferedLine) {
        if line.time < self.newest && !line.is_counted {
            self.stats.sorted += 1;
        }
        self.newest = self.newest.max(line.time);
    }

    /// Leaves out the request of a line. Returns false if it was returned before, for want of memory.
    pub(crate) fn leave_out(&mut self, line: BufferedLine) -> bool {
        let second = line.time / SECOND;
        let place = (self.buckets).binary_search_by_key(&second, |bucket| bucket.second);
        let bucket = place.ok().and_then(|place| self.buckets.get_mut(place));
        bucket.is_some_and(|bucket| {
            bucket.left_out.push(line.index);
            true
        })
    }

    /// Returns whether there are requests to return although lines of later times than `until` may still come. Those that were returned
    /// are dropped.
    pub(crate) fn advance(&mut self, until: u64) -> bool {
        while self.returned == self.current.order.len() {
            let Some(oldest) = self.buckets.front() else {
                return false;
            };
            let is_complete = oldest.second < until / SECOND || until == u64::MAX;
            if !is_complete && self.held_bytes <= MAX_HELD_BYTES {
                return false;
            }
            self.release_oldest();
        }
        true
    }

    /// Makes the oldest second the one that is returned.
    fn release_oldest(&mut self) {
        let Some(mut next) = self.buckets.pop_front() else {
            return;
        };
        self.held_bytes -= next.held();
        next.sort(self.spread, self.floor);
        self.floor = self
            .floor
            .max(next.order.last().map_or(0, |(time, _)| *time));
        let mut last = std::mem::replace(&mut self.current, next);
        last.clear();
        if self.spare.len() < SPARE_BUCKETS {
            self.spare.push(last);
        }
        self.returned = 0;
    }

    /// Returns the next requests that [`Self::advance`] found, at most `most`.
    pub(crate) fn take(&mut self, most: usize) -> impl Iterator<Item = LoggedRequest<'_>> {
        let begin = self.returned;
        self.returned = self.current.order.len().min(begin.saturating_add(most));
        let bucket = &self.current;
        (begin..self.returned).filter_map(|turn| bucket.request(turn))
    }

    /// Returns the index of the bucket of a second, which is made if there is none.
    fn bucket(&mut self, second: u64) -> usize {
        // Nearly always the last.
        let behind = self
            .buckets
            .iter()
            .rev()
            .position(|bucket| bucket.second <= second);
        let at = behind.map_or(0, |behind| self.buckets.len() - behind);
        match at.checked_sub(1) {
            Some(last)
                if self
                    .buckets
                    .get(last)
                    .is_some_and(|bucket| bucket.second == second) =>
            {
                last
            }
            _ => {
                let mut bucket = self.spare.pop().unwrap_or_default();
                bucket.second = second;
                self.buckets.insert(at, bucket);
                at
            }
        }
    }
}

impl SecondBucket {
    fn held(&self) -> usize {
        self.bytes.len()
            + self.requests.len() * size_of::<StoredRequest>()
            + self.fields.len() * size_of::<StoredField>()
    }

    fn clear(&mut self) {
        self.requests.clear();
        self.fields.clear();
        self.bytes.clear();
        self.left_out.clear();
        self.order.clear();
    }

    fn add(&mut self, line: &ParsedLine<'_>, client: IpAddr, time: u64) {
        let first_field = self.fields.len() as u32;
        for field in &line.fields {
            let name = match field.kind {
                FieldKind::RequestField => self.store_name(field.name, line.spelling),
                _ => self.store(field.name),
            };
            let value = self.store(field.value);
            self.fields.push(StoredField {
                kind: field.kind,
                name,
                value,
            });
        }
        let mut target = self.store(line.target);
        if !line.query.is_empty() {
            self.bytes.push(b'?');
            target.end = self.store(line.query).end;
        }
        let stored = StoredRequest {
            time,
            client,
            peer: line.peer,
            method: self.store(line.method),
            host: self.store(line.host),
            target,
            id: self.store(line.id),
            status: line.status,
            treatment: line.treatment,
            bytes: line.bytes,
            duration: line.duration,
            first_byte: line.first_byte,
            hits: line.hits,
            fields: (first_field, self.fields.len() as u32),
        };
        self.requests.push(stored);
    }

    fn store(&mut self, text: RawText<'_>) -> ByteSpan {
        let start = self.bytes.len() as u32;
        text.append_to(&mut self.bytes);
        let end = self.bytes.len() as u32;
        ByteSpan { start, end }
    }

    /// Stores the name of a request field in lower case, with dashes.
    fn store_name(&mut self, name: RawText<'_>, spelling: FieldSpelling) -> ByteSpan {
        let start = self.bytes.len() as u32;
        let bytes = name.raw().iter();
        (self.bytes).extend(bytes.map(|byte| spelling.normalized(*byte)));
        let end = self.bytes.len() as u32;
        ByteSpan { start, end }
    }

    /// Sorts the requests, of which none is earlier than `floor`.
    fn sort(&mut self, spread: TimeSpread, floor: u64) {
        let indexes = (0..).zip(&self.requests);
        self.order
            .extend(indexes.map(|(index, request): (u32, _)| (request.time, index)));
        if !self.left_out.is_empty() {
            self.order
                .retain(|(_, index)| !self.left_out.contains(index));
        }
        if !self.order.is_sorted() {
            self.order.sort_unstable();
        }
        if spread == TimeSpread::OverSecond {
            // Late requests have what is left of a second that was returned.
            let start = self.second * SECOND;
            let begin = floor.max(start);
            let left = SECOND.saturating_sub(begin - start);
            let step = left / (self.order.len() as u64).max(1);
            for ((time, _), turn) in self.order.iter_mut().zip(0_u64..) {
                *time = begin + turn * step;
            }
        }
    }

    fn request(&self, turn: usize) -> Option<LoggedRequest<'_>> {
        let (time, index) = *self.order.get(turn)?;
        let stored = self.requests.get(index as usize)?;
        let (first, end) = stored.fields;
        Some(LoggedRequest {
            time,
            client: stored.client,
            peer: stored.peer,
            method: stored.method.slice(&self.bytes),
            host: stored.host.slice(&self.bytes),
            target: stored.target.slice(&self.bytes),
            id: stored.id.slice(&self.bytes),
            status: stored.status,
            bytes: stored.bytes,
            duration: stored.duration,
            first_byte: stored.first_byte,
            treatment: stored.treatment,
            hits: stored.hits,
            fields: LoggedFields {
                fields: self
                    .fields
                    .get(first as usize..end as usize)
                    .unwrap_or_default(),
                bytes: &self.bytes,
            },
        })
    }
}
