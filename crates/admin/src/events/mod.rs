//! Streams events to pages: `GET /events`, as `text/event-stream`.
//!
//! One task samples the gateway while at least one stream is open, and every stream gets the same bytes through a bounded channel. A
//! request pays nothing for it but what [`RejectionTail`](sluicegate_record::RejectionTail) says. A stream that reads too slowly loses the
//! oldest events and is told how many; it never delays the task or another stream.
//!
//! | event | when | content |
//! |---|---|---|
//! | `overview` | at first, and after each reload | what the configuration says: limits, listeners, the last reload |
//! | `state` | at first, and when it changes | origins, store, certificates |
//! | `problems` | at first, and when they change | what is wrong now |
//! | `history` | at first whole, then at each step and mark | the steps and marks of the last hour |
//! | `counters` | at first all, then each second those that changed | requests, limits, loads of tables |
//! | `rejections` | up to four times a second | a sample of rejected requests |
//! | `dropped` | after a gap | the number of events that the stream lost |
//! | `end` | at last | why the gateway ends the stream |
//!
//! # Limits
//! [`bounds::EVENT_STREAMS`] streams, [`bounds::EVENTS_WAITING`] events that wait for all of them together. Counters are sums since the
//! start of the process, so a lost event leaves no error behind.

mod overview;
mod rejections;
mod sampler;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, X_CONTENT_TYPE_OPTIONS};
use http::request::Parts;
use http::{HeaderName, HeaderValue, Method, Response, StatusCode};
use serde::Serialize;
use sluicegate_base::bounds;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::broadcast::{Receiver, Sender};
use tokio::time::MissedTickBehavior;

use super::operator::TokenHolder;
use super::page::{AdminPage, RESOURCE_POLICY, dressed, is_reading, only_reading};
use super::task::AdminTask;
use super::token::token_of;
use sampler::EventSampler;
use sluicegate_config::rules::AdminToken;
use sluicegate_process::GatewayProcess;

/// The path of the stream.
pub(super) const PATH: &str = "/events";

const EVENT_STREAM: &str = "text/event-stream";
/// Asks nginx in front not to collect events.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");
/// The name and the role of the request's token, for the page.
const OPERATOR: HeaderName = HeaderName::from_static("sluicegate-operator");
const ROLE: HeaderName = HeaderName::from_static("sluicegate-role");

/// The open streams, and the task that feeds them.
#[derive(Debug)]
pub struct EventHub {
    events: Sender<Bytes>,
    state: Mutex<HubState>,
}

#[derive(Debug, Default)]
struct HubState {
    streams: usize,
    /// Some while the task runs.
    sampler: Option<EventSampler>,
}

/// The use of the task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum HubUse {
    Followed,
    Idle,
}

/// One open stream; dropping it closes it.
pub struct EventStream {
    hub: Arc<EventHub>,
    process: Arc<GatewayProcess>,
    events: Receiver<Bytes>,
    opening: VecDeque<Bytes>,
    holder: Option<TokenHolder>,
    /// The token at its begin; `None` where none was configured.
    token: Option<Option<AdminToken>>,
    is_over: bool,
}

/// Returns the token of this holder as it is in force; `None` where no token is configured, `Some(None)` where the token is gone.
fn token_held(
    process: &GatewayProcess,
    holder: Option<&TokenHolder>,
) -> Option<Option<AdminToken>> {
    let tokens = token_of(process)?;
    let mut tokens = tokens.iter();
    Some(holder.and_then(|holder| tokens.find(|token| token.name == holder.name).cloned()))
}

/// The number of streams is at its maximum.
#[derive(Clone, Copy, Debug)]
pub struct TooManyStreams;

/// Returns the task of a stream; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    if request.uri.path() != PATH {
        return None;
    }
    Some(match &request.method {
        &Method::GET => AdminTask::Stream,
        method if is_reading(method) => {
            AdminTask::Show(AdminPage::new(StatusCode::OK, EVENT_STREAM, &b""[..]))
        }
        _ => AdminTask::Show(only_reading()),
    })
}

impl Default for EventHub {
    fn default() -> Self {
        Self {
            events: Sender::new(bounds::EVENTS_WAITING),
            state: Mutex::default(),
        }
    }
}

impl EventHub {
    /// Opens a stream for the holder of a token. The first one starts the task, on the runtime of the caller.
    ///
    /// # Errors
    /// There are too many.
    pub fn open(
        self: &Arc<Self>,
        process: &Arc<GatewayProcess>,
        holder: Option<TokenHolder>,
    ) -> Result<EventStream, TooManyStreams> {
        let mut state = self.lock();
        if state.streams >= bounds::EVENT_STREAMS {
            return Err(TooManyStreams);
        }
        state.streams += 1;
        // Before the opening is made, so that no change falls between the two; one that comes twice changes nothing.
        let events = self.events.subscribe();
        let sampler = state.sampler.get_or_insert_with(|| {
            process.shared.recorder.rejections.open();
            tokio::spawn(Arc::clone(self).publish(Arc::clone(process)));
            EventSampler::default()
        });
        Ok(EventStream {
            opening: sampler.opening(process).into(),
            hub: Arc::clone(self),
            process: Arc::clone(process),
            events,
            token: token_held(process, holder.as_ref()),
            holder,
            is_over: false,
        })
    }

    /// Samples the gateway until no stream is left.
    async fn publish(self: Arc<Self>, process: Arc<GatewayProcess>) {
        let mut ticks = tokio::time::interval(bounds::EVENTS_TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            if self.publish_once(&process) == HubUse::Idle {
                return;
            }
        }
    }

    /// Sends the events of one tick, or stops sampling where no stream is left.
    fn publish_once(&self, process: &GatewayProcess) -> HubUse {
        let mut state = self.lock();
        if state.streams == 0 {
            state.sampler = None;
            process.shared.recorder.rejections.close();
            return HubUse::Idle;
        }
        let made = state.sampler.as_mut().map(|sampler| sampler.tick(process));
        for event in made.into_iter().flatten() {
            // An error says that the last stream has just closed.
            let _ = self.events.send(event);
        }
        HubUse::Followed
    }

    fn lock(&self) -> MutexGuard<'_, HubState> {
        // The count changes in one step, and a sampler that broke off sends what it had not sent.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EventStream {
    /// Returns the next event; `None` after the last one.
    pub async fn next(&mut self) -> Option<Bytes> {
        if let Some(event) = self.opening.pop_front() {
            return Some(event);
        }
        if self.is_over {
            return None;
        }
        let event = tokio::select! {
            () = self.process.lifecycle.drains() => return Some(self.end("the gateway drains")),
            event = self.events.recv() => event,
        };
        if token_held(&self.process, self.holder.as_ref()) != self.token {
            return Some(self.end("the token was changed"));
        }
        match event {
            Ok(event) => Some(event),
            Err(RecvError::Lagged(events)) => event_of("dropped", &DroppedEvents { events }),
            Err(RecvError::Closed) => None,
        }
    }

    /// Returns the head of the response, for a client of HTTP/1.1.
    #[must_use]
    pub fn head(&self) -> Response<()> {
        let mut response = Response::new(());
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static(EVENT_STREAM));
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        headers.insert(X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
        headers.insert(RESOURCE_POLICY, HeaderValue::from_static("same-origin"));
        headers.insert(BUFFERING, HeaderValue::from_static("no"));
        if let Some(holder) = &self.holder
            && let Ok(name) = HeaderValue::from_str(&holder.name)
        {
            headers.insert(OPERATOR, name);
            headers.insert(ROLE, HeaderValue::from_static(holder.role.as_str()));
        }
        response
    }

    fn end(&mut self, why: &'static str) -> Bytes {
        self.is_over = true;
        event_of("end", &StreamEnd { why }).unwrap_or_default()
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        self.hub.lock().streams -= 1;
    }
}

impl TooManyStreams {
    /// Returns the response to a request for one more.
    #[must_use]
    pub fn response(self) -> Response<Vec<u8>> {
        let error = "as many streams of events are open as may be; close a page, or try again";
        let page = AdminPage::error(StatusCode::SERVICE_UNAVAILABLE, error);
        dressed(page.with(RETRY_AFTER, "5"), &Method::GET)
    }
}

#[derive(Serialize)]
struct DroppedEvents {
    events: u64,
}

#[derive(Serialize)]
struct StreamEnd {
    why: &'static str,
}

/// Returns the bytes of an event; `None` where the value cannot be written.
fn event_of(name: &str, value: &impl Serialize) -> Option<Bytes> {
    // JSON on one line has no line end, which would end the field.
    match serde_json::to_string(value) {
        Ok(json) => Some(format!("event: {name}\ndata: {json}\n\n").into()),
        Err(error) => {
            tracing::error!("admin: the event {name} cannot be written: {error}");
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use sluicegate_limiter::Timestamp;

    use super::super::tests::{gateway, used_limit};
    use super::*;
    use sluicegate_process::Phase;

    /// Returns the name and the value of an event.
    fn parsed(event: &Bytes) -> (String, Value) {
        let text = std::str::from_utf8(event).expect("events are text");
        let (name, rest) = text.split_once('\n').expect("two lines");
        let name = name.strip_prefix("event: ").expect("a name");
        let data = rest.strip_prefix("data: ").expect("a value");
        assert!(data.ends_with("\n\n") && data.matches('\n').count() == 2);
        (name.to_owned(), serde_json::from_str(data).expect("JSON"))
    }

    /// Goal: a page knows everything at once, and then only what changes. Method: the opening; then two ticks of counters, of which the
    /// second has nothing new.
    #[tokio::test]
    async fn a_stream_begins_with_everything_and_goes_on_with_changes() {
        let (process, now) = (Arc::new(gateway(None)), Timestamp::from_secs(1_795_245_038));
        used_limit(&process, now);
        let mut sampler = EventSampler::default();
        let opening: Vec<_> = sampler.opening(&process).iter().map(parsed).collect();
        let names: Vec<_> = opening.iter().map(|(name, _)| &**name).collect();
        assert_eq!(
            names,
            ["overview", "state", "problems", "counters", "history"]
        );
        let overview = &opening[0].1;
        assert_eq!(overview["actions"], "none");
        assert_eq!(overview["limits"][0]["name"], "otp");
        assert_eq!(overview["limits"][0]["ban"], 600.0);
        assert_eq!(opening[3].1["requests"]["failed_by_gateway"], 0);
        let mut second = || -> Vec<_> {
            let ticks = 0..bounds::EVENTS_TICKS_OF_COUNTERS;
            let events = ticks.flat_map(|_| sampler.tick(&process));
            events.map(|event| parsed(&event)).collect()
        };
        let first = second();
        assert_eq!(first.len(), 1, "{first:?}");
        let counters = &first[0].1;
        assert_eq!(counters["loads"]["otp"]["overflow"], false);
        let next = second();
        assert_eq!(next.len(), 1, "{next:?}");
        assert_eq!(next[0].0, "counters");
        assert_eq!(next[0].1["loads"], serde_json::json!({}));
    }

    /// Goal: streams are bounded, and the task ends with the last. Method: one more than may be; then all are dropped, and the task looks.
    #[tokio::test]
    async fn as_many_streams_as_may_be_and_no_task_without_any() {
        let (hub, process) = (Arc::new(EventHub::default()), Arc::new(gateway(None)));
        let streams: Vec<_> = (0..bounds::EVENT_STREAMS)
            .map(|_| hub.open(&process, None).expect("a stream"))
            .collect();
        let refused = hub
            .open(&process, None)
            .err()
            .expect("one too many")
            .response();
        assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(hub.publish_once(&process), HubUse::Followed);
        drop(streams);
        assert_eq!(hub.publish_once(&process), HubUse::Idle);
        assert!(hub.lock().sampler.is_none());
        assert!(hub.open(&process, None).is_ok());
    }

    /// Goal: a stream that is not read costs a bounded number of events, and is told. Method: many ticks while one stream waits; then it is
    /// read.
    #[tokio::test]
    async fn a_stream_that_is_behind_is_told_what_it_lost() {
        let (hub, process) = (Arc::new(EventHub::default()), Arc::new(gateway(None)));
        let mut stream = hub.open(&process, None).expect("a stream");
        for _ in 0..60 * bounds::EVENTS_TICKS_OF_COUNTERS {
            assert_eq!(hub.publish_once(&process), HubUse::Followed);
        }
        let mut names = Vec::new();
        while let Some(event) = stream.next().await {
            let (name, value) = parsed(&event);
            if name == "dropped" {
                let lost = value["events"].as_u64().expect("a number");
                assert!((30..=60).contains(&lost), "{lost}");
                names.push(name);
                break;
            }
            names.push(name);
        }
        assert_eq!(
            names,
            [
                "overview", "state", "problems", "counters", "history", "dropped"
            ]
        );
    }

    /// Goal: a stream ends with the drain, and when its token is revoked. Method: both, each on a stream of its own.
    #[tokio::test]
    async fn a_stream_ends_with_the_drain_and_with_its_token() {
        let (hub, process) = (
            Arc::new(EventHub::default()),
            Arc::new(gateway(Some("s3cret"))),
        );
        let mut of_another = hub.open(&process, None).expect("a stream");
        of_another.token = None;
        let mut stream = hub.open(&process, None).expect("a stream");
        let last = async |stream: &mut EventStream| {
            let mut last = None;
            while let Some(event) = stream.next().await {
                last = Some(parsed(&event));
            }
            last.expect("events")
        };
        let (name, value) = last(&mut of_another).await;
        assert_eq!(
            (&*name, &value["why"]),
            ("end", &"the token was changed".into())
        );
        process.lifecycle.enter(Phase::Draining);
        let (name, value) = last(&mut stream).await;
        assert_eq!(
            (&*name, &value["why"]),
            ("end", &"the gateway drains".into())
        );
    }
}
