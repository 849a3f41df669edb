//! Requests are recorded whichever way they end.

use std::net::Ipv4Addr;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use futures_util::FutureExt;
use http::{Uri, Version};
use serde_json::Value;
use sluicegate_base::received::ReceivedHead;
use sluicegate_decide::outcome::RequestDisposition;
use sluicegate_decide::state::{CounterStorage, PersistenceMode};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::super::client::ConnectionFacts;
use super::super::head_writer::AnswerHead;
use super::*;
use sluicegate_budgets::{ClientAccount, OpenFiles};
use sluicegate_config::rules::{AccessLogTarget, ListenerProtocol, LogRules};
use sluicegate_config::{no_review, parse};
use sluicegate_decide::admission::KeySeed;
use sluicegate_origin::request_failure::ClientFailure;
use sluicegate_process::{GatewayProcess, SharedState};
use sluicegate_record::RequestRecorder;
use sluicegate_record::access_log::AccessLog;
use sluicegate_record::metrics::RequestMetrics;
use sluicegate_transport::body_end::BodyEnd;

const CONFIGURATION: &str = "
    listener = [{ address = '127.0.0.1:8080' }]
    route = [{ path = '/*', limits = ['few'], respond = { status = 200 } }]
    [limit.few]
    key = 'client.ip'
    rates = ['5 per 1m']
    concurrency = 1
";

/// The defect of a client's side.
#[derive(Clone, Copy, Debug)]
enum ClientDefect {
    /// The write of an answer panics.
    Panics,
    /// The write of an answer never ends.
    Hangs,
}

struct DefectiveClient {
    account: ClientAccount,
    received: BytesMut,
    defect: ClientDefect,
}

impl RequestClient for DefectiveClient {
    fn account(&self) -> &ClientAccount {
        &self.account
    }

    fn received(&mut self) -> &mut BytesMut {
        &mut self.received
    }

    async fn read_more(&mut self, _: Option<Duration>) -> Result<usize, ClientFailure> {
        std::future::pending().await
    }

    fn begin_answer(&mut self, _: &mut Vec<u8>, _: AnswerHead<'_>) -> std::io::Result<()> {
        Ok(())
    }

    async fn write(&mut self, _: [&[u8]; 2], _: BodyEnd) -> Result<(), ClientFailure> {
        match self.defect {
            ClientDefect::Panics => panic!("a defect"),
            ClientDefect::Hangs => std::future::pending().await,
        }
    }

    async fn left(&mut self) {
        std::future::pending().await
    }

    fn stream(&mut self) -> Option<&mut (impl AsyncRead + AsyncWrite + Send + Unpin)> {
        None::<&mut TcpStream>
    }
}

/// Returns the state of a gateway of [`CONFIGURATION`] that logs to this file.
fn shared(log: &Path) -> Arc<SharedState> {
    let loaded = parse("gateway.toml", CONFIGURATION, no_review).expect("a configuration");
    let log = AccessLog::start(&LogRules::to(AccessLogTarget::File(log.to_owned())));
    let recorder = RequestRecorder::new(Arc::new(RequestMetrics::new()), log.expect("a log"));
    let (storage, seed) = CounterStorage::open(PersistenceMode::Process).expect("a random source");
    let (file, seed) = (Path::new("gateway.toml"), KeySeed::from_seed(seed));
    let files = OpenFiles::default();
    GatewayProcess::new(file, loaded.rules, recorder, storage, seed, files).shared
}

/// Serves a request whose client has this defect, and drops the task where it stops.
fn serve(gateway: &Gateway, defect: ClientDefect) {
    let address = (Ipv4Addr::LOCALHOST, 40_000).into();
    let rules = &gateway.0.snapshot().compiled.rules.client;
    let account = gateway.0.accounts.find(Ipv4Addr::LOCALHOST.into(), rules);
    let facts = ConnectionFacts {
        peer: Some(sluicegate_decide::client::PeerAddress::new(address)),
        secured: None,
        protocol: ListenerProtocol::Http,
        account: account.clone(),
    };
    let head = ReceivedHead {
        uri: Uri::from_static("http://a.test/"),
        version: Version::HTTP_2,
        ..ReceivedHead::default()
    };
    let decided = gateway.decide_stream(head, true, &facts);
    let mut client = DefectiveClient {
        account,
        received: BytesMut::new(),
        defect,
    };
    let (_signal, shutdown) = watch::channel(false);
    let served = gateway.serve_request(decided, &mut client, &shutdown);
    assert!(served.now_or_never().is_none(), "the request ended");
}

/// Goal: a request whose task panics or is cancelled is recorded once and holds nothing. Method: a client whose write panics, and one
/// whose write never ends; the log, the metrics, and the permit of a limit that admits one request at a time.
#[test]
fn a_request_that_no_step_ends_is_recorded() {
    for (defect, disposition, reason) in [
        (
            ClientDefect::Panics,
            RequestDisposition::Internal,
            "its task panicked",
        ),
        (
            ClientDefect::Hangs,
            RequestDisposition::CutOff,
            "the process ended before the request did",
        ),
    ] {
        let directory = tempfile::tempdir().expect("a directory");
        let log = directory.path().join("access.log");
        let gateway = Gateway(shared(&log), (Ipv4Addr::LOCALHOST, 8080).into());
        for _ in 0..2 {
            let served = catch_unwind(AssertUnwindSafe(|| serve(&gateway, defect)));
            assert_eq!(served.is_err(), matches!(defect, ClientDefect::Panics));
        }
        let metrics = &gateway.0.recorder.metrics;
        let ended = metrics.request_counts();
        assert_eq!(metrics.request_totals().all, 2, "{defect:?}");
        let of_its_own: u64 = ended[disposition.index()].iter().sum();
        assert_eq!(of_its_own, 2, "{defect:?}");
        assert_eq!(metrics.requests_in_flight(), 0, "{defect:?}");
        assert!(gateway.0.recorder.log.flush(Duration::from_secs(60)));
        let lines = std::fs::read_to_string(&log).expect("the log");
        assert_eq!(lines.lines().count(), 2, "{lines}");
        for line in lines.lines() {
            let line: Value = serde_json::from_str(line).expect("JSON");
            assert_eq!(line["status"], 200, "{line}");
            assert_eq!(line["outcome"], disposition.as_str(), "{line}");
            assert_eq!(line["reason"], reason, "{line}");
        }
    }
}
