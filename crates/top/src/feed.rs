//! Asks a gateway for what is shown: its state, the keys of the chosen limit, one key.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use serde::de::DeserializeOwned;
use sluicegate_base::bounds::{TOP_REJECTED_CLIENTS, TOP_SHOWN_KEYS};
use sluicegate_base::clock;

use super::client_view::RejectedClientList;
use super::history::HistoryAnswer;
use super::key_view::{KeyDetail, NearestKeys};
use super::sample::GatewaySample;
use crate::admin_client::{AdminClient, AdminError};

/// The limit and the key that are looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FeedFocus {
    /// The limit whose keys are shown.
    pub(super) limit: Option<String>,
    /// The key of that limit that is shown in detail.
    pub(super) key: Option<String>,
}

/// The answers of a gateway at one moment.
#[derive(Debug)]
pub(super) struct FeedAnswer {
    pub(super) sample: GatewaySample,
    /// `None` where the gateway is too old to have one.
    pub(super) history: Option<HistoryAnswer>,
    /// `None` where the gateway is busy with another walk, or the limit is gone.
    pub(super) nearest: Option<NearestKeys>,
    /// `None` where the gateway shows no clients.
    pub(super) rejected: Option<RejectedClientList>,
    pub(super) key: Option<KeyDetail>,
}

/// Asks one gateway.
#[derive(Debug)]
pub struct GatewayFeed(AdminClient);

/// A feed on a thread of its own.
#[derive(Debug)]
pub(super) struct FeedThread {
    focus: Sender<FeedFocus>,
    answers: Receiver<Result<FeedAnswer, AdminError>>,
}

impl GatewayFeed {
    /// Returns the feed of the gateway that `client` reaches.
    #[must_use]
    pub fn new(client: AdminClient) -> Self {
        Self(client)
    }

    /// Returns host and port of the gateway.
    #[must_use]
    pub fn authority(&self) -> &str {
        self.0.authority()
    }

    /// Samples the gateway.
    ///
    /// # Errors
    /// The gateway does not answer, or not as a gateway does.
    pub fn sample(&self) -> Result<GatewaySample, AdminError> {
        let status = self.0.get("/status")?;
        let metrics = self.0.get("/metrics")?;
        GatewaySample::parse(clock::now(), &status, &metrics).map_err(|_| {
            AdminError::NotAdmin(
                self.authority().to_owned(),
                "the status is not that of a gateway",
            )
        })
    }

    /// Samples the gateway, and what `focus` names of it; of its history what is later than `since`, in milliseconds since 1970.
    pub(super) fn answer(&self, focus: &FeedFocus, since: u64) -> Result<FeedAnswer, AdminError> {
        let sample = self.sample()?;
        let key = focus.limit.as_ref().zip(focus.key.as_ref());
        Ok(FeedAnswer {
            history: self.history(since),
            nearest: self.nearest(focus),
            rejected: self.rejected_clients(),
            key: key.and_then(|(limit, key)| self.read(&format!("/limits/{limit}/keys/{key}"))),
            sample,
        })
    }

    /// Returns the history since then.
    pub(super) fn history(&self, since: u64) -> Option<HistoryAnswer> {
        self.read(&format!("/history?since={since}"))
    }

    /// Returns the keys that are nearest to the limit in focus.
    pub(super) fn nearest(&self, focus: &FeedFocus) -> Option<NearestKeys> {
        let limit = focus.limit.as_ref()?;
        self.read(&format!("/limits/{limit}/top?n={TOP_SHOWN_KEYS}"))
    }

    /// Returns the clients that are rejected most.
    pub(super) fn rejected_clients(&self) -> Option<RejectedClientList> {
        self.read(&format!("/clients/rejected?n={TOP_REJECTED_CLIENTS}"))
    }

    /// Reads what may be missing: a limit that a reload has removed, a walk while another is under way.
    fn read<T: DeserializeOwned>(&self, target: &str) -> Option<T> {
        serde_json::from_str(&self.0.get(target).ok()?).ok()
    }

    /// Moves the feed to a thread that asks every `interval`, and at once when the focus changes. The thread ends with the returned value.
    pub(super) fn spawn(self, interval: Duration) -> std::io::Result<FeedThread> {
        let (focus, focuses) = channel();
        let (send, answers) = channel();
        let run = move || self.run(interval, &focuses, &send);
        std::thread::Builder::new()
            .name("top-feed".to_owned())
            .spawn(run)?;
        Ok(FeedThread { focus, answers })
    }

    fn run(
        &self,
        interval: Duration,
        focuses: &Receiver<FeedFocus>,
        answers: &Sender<Result<FeedAnswer, AdminError>>,
    ) {
        let mut focus = FeedFocus::default();
        let mut since = 0;
        loop {
            let answer = self.answer(&focus, since);
            let history = answer
                .as_ref()
                .ok()
                .and_then(|answer| answer.history.as_ref());
            since = history.map_or(0, HistoryAnswer::last_end).max(since);
            if answers.send(answer).is_err() {
                return;
            }
            match focuses.recv_timeout(interval) {
                Ok(next) => focus = focuses.try_iter().last().unwrap_or(next),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

impl FeedThread {
    /// Returns the answers that came since the last call.
    pub(super) fn answers(&self) -> impl Iterator<Item = Result<FeedAnswer, AdminError>> {
        self.answers.try_iter()
    }

    /// Asks for another limit or key.
    pub(super) fn look_at(&self, focus: FeedFocus) {
        // The thread is gone only when the process ends.
        let _ = self.focus.send(focus);
    }
}
