//! The caps of the export, each with its unit and its reason.

use std::time::Duration;

/// The bytes of records that one call carries, and one record more; the rest waits for the next call. Collectors accept 4 MiB or more.
pub const BATCH: usize = 512 * 1024;

/// The series of a family that one record has, some 200 bytes each, or 500 of a histogram.
pub const SERIES: usize = 256;

/// The bytes of a collector's response that are read. It has the number of rejected records and a reason; a longer one counts as empty.
pub const RESPONSE: usize = 64 * 1024;

/// The longest pause between two calls to a collector that accepts nothing, unless it asks for a longer one.
pub const PAUSE: Duration = Duration::from_secs(30);

/// The longest pause that a collector may ask for: its clock may be wrong, and a pause of a day would lose the records of a day.
pub const REQUESTED_PAUSE: Duration = Duration::from_secs(300);
