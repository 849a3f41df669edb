//! Caps of written, edited and stored responses.

use std::time::Duration;

/// Bytes of one body that the configuration defines for rejections: a rejection must cost little, and the answers to repeated
/// ones are collected in a buffer of every connection. More is rejected when the configuration is read.
pub const REFUSAL_BODY: usize = 16 * 1024;

/// Fields that the configuration adds to a rejection. More are rejected when the configuration is read.
pub const REFUSAL_FIELDS: usize = 16;

/// Edits of fields on one route, those of every route included. Each costs a request a look-up. More are refused when the configuration is
/// read.
pub const FIELD_EDITS: usize = 64;

/// Bytes of a path and its query that a template makes for the origin, or of a redirect: a value has its length in the request,
/// and may be used repeatedly. A longer one is answered with 400.
pub const SHAPED_TARGET: usize = 64 * 1024;

/// Bytes of one page for failures: each is held in memory once, and sent as often as something fails. A larger one is refused when the
/// configuration is read.
pub const ERROR_PAGE: usize = 256 * 1024;

/// Bytes of an origin's own error that are dropped so that its connection stays usable, where the client gets a page instead. Beyond them
/// the connection or stream is closed.
pub const REPLACED_BYTES: usize = 64 * 1024;

/// URLs whose last answer could not be stored, which are then not looked up: 16 bytes of hash each, and twice, for requests with
/// and without credentials. At the bound the one that was marked longest ago is looked up again.
pub const UNSTORABLE_URLS: usize = 16 * 4096;

/// Maximum time for which one request may fetch for all that wait. Then another may try: a client that reads slowly, or an
/// origin that hangs, delays the others no longer than this, and an origin gets one request of a URL in this time.
pub const FILL_AGE: Duration = Duration::from_secs(5);

/// Maximum time for which a request waits for others that fetch the same response, in all. Then it goes to the origin itself.
pub const FILL_PATIENCE: Duration = Duration::from_secs(10);

/// Stored answers of one URL: its variants under `Vary` on all routes. At the bound the oldest makes room: a client that varies a field
/// fills no more than this, and the search among them stays short.
pub const URL_VARIANTS: usize = 64;

/// Fields that an answer may differ by. One that names more is not stored.
pub const VARY_FIELDS: usize = 16;

/// Bytes of a stored body that are handed to the connection at once, so that the time allowed for one write is that of a proxied answer.
pub const STORED_PIECE: usize = 64 * 1024;

/// Ranges of one request that are cut from a stored answer; one that asks for more gets the whole.
pub const RANGES: usize = 32;
