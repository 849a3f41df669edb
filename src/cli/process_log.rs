//! Starts the process log: what is written to the standard error, and what of the libraries is left out.

/// The level of each source, unless `SLUICEGATE_LOG` says otherwise.
///
/// What a client does wrong is told in the gateway's own words, rarely and with the address (`record::Notices`), and what becomes of a
/// request is in the access log. The libraries tell both too, as errors, once for each time that a stranger pleases:
/// - `pingora_core::apps` and `::protocols`: every handshake of HTTP/2 that fails, every answer that a client does not take.
/// - `pingora_proxy`: every request that breaks off. What the gateway itself did wrong `gateway` tells.
/// - `pingora_core::connectors`: idle connections to origins that are wanted just while they are being looked at, which costs a new
///   connection and nobody anything else, and such that are closed, without a word whose they were.
/// - `rustls`: alerts, and names that are none, of every client that pleases. Why a handshake failed is told, with the address.
/// - `notify`: every directory that goes, as one does whenever Kubernetes swaps a config map. `config::watch` tells what cannot be watched.
const LEVELS: &str = "info,pingora=warn,pingora_core=warn,pingora_core::apps=off,pingora_core::protocols=off,\
                      pingora_core::connectors=off,pingora_proxy=off,rustls=off,notify=off";

/// Logs to the standard error; `SLUICEGATE_LOG` sets the level, `info` unless told.
pub(super) fn start() {
    let environment = env_logger::Env::new().filter_or("SLUICEGATE_LOG", LEVELS);
    // Only fails when a logger is installed already, which then logs.
    let _ = env_logger::Builder::from_env(environment).try_init();
}
