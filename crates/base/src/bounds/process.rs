//! Times of the process itself: drain, upgrade, reload.

use std::time::Duration;

/// Time for which the end of the process waits for the access log: a disk that hangs may not delay a shutdown. Then the lines
/// are lost.
pub const LAST_LINES: Duration = Duration::from_secs(2);

/// Time for which a process that drains leaves idle connections open: a request that is on its way to one is read and answered,
/// for clients as far away as a second. Then the process ends.
pub const DRAIN_IDLE: Duration = Duration::from_secs(1);

/// Interval at which a process that drains, or follows an old process, checks its progress.
pub const DRAIN_LOOKS: Duration = Duration::from_millis(10);

/// Time for which the end of the process waits until the requests that it cuts off are recorded. A task that does not return to its
/// scheduler for so long is not recorded.
pub const CUT_OFF: Duration = Duration::from_secs(1);

/// Time for which a handover waits for the other process. The tables of ten thousand limits are opened in a few seconds. At the
/// bound the old process continues, and the new one ends.
pub const UPGRADE_PATIENCE: Duration = Duration::from_secs(60);

/// Bytes of a line of the handover: a path, `PATH_MAX` of Linux, has 4096. A longer one ends the connection.
pub const UPGRADE_LINE: usize = 8 * 1024;

/// Descriptors of one handover that were received before their lines were read: more than lines can have come. It ends the
/// connection.
pub const UPGRADE_DESCRIPTORS: usize = 1024;

/// Connections at the upgrade socket at the same time: one with a new process, one with a command, and some that only probe.
/// Others are closed at once.
pub const UPGRADE_CONVERSATIONS: usize = 8;

/// Maximum time that Pingora would wait for a drain. The process ends earlier, at the latest after `shutdown_timeout`.
pub const LONGEST_DRAIN: Duration = Duration::from_secs(24 * 60 * 60);

/// Time for which the admin listener waits for the end of a requested reload.
pub const RELOAD_PATIENCE: Duration = Duration::from_secs(60);

/// Reloads that are kept with their results, the latest.
pub const RELOADS_KEPT: usize = 20;

/// Changes that are kept of each of them; the others are counted. The last one has all.
pub const RELOAD_CHANGES_KEPT: usize = 100;

/// Bytes of the error that are kept of each of them; the last one has the whole error.
pub const RELOAD_ERROR_KEPT: usize = 4096;

/// Time for which the end of the process waits for a collector to receive the last spans, lines and metrics.
pub const LAST_EXPORTS: Duration = Duration::from_secs(1);
