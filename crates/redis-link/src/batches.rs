//! Decides when the calls that wait for one server are sent, and how many of them in one run of the script.
//!
//! While fewer than [`UNANSWERED`] batches are under way, a call is sent at once, so a call that is alone waits for nothing. Beyond that
//! calls gather, as in the group commit of a database, until an answer comes, [`SCRIPT_CALLS`] of them wait, or [`SPACING`] has passed
//! since the latest batch: the busier the server, the more calls share a run of the script and a packet.
//!
//! # Concurrency
//! A task of each connection gathers and sends. A caller waits for its own answer within its own timeout. A call whose caller has gone is
//! dropped if it was not sent; its neighbors never learn of it.
//!
//! # Limits
//! `bounds::QUEUE` calls wait to be gathered; further ones wait within their timeouts.

use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{mpsc, oneshot};
use tokio::time::sleep_until;

use crate::bounds::{BATCHES, QUEUE, SCRIPT_CALLS};
use crate::call::{Call, Reply};
use crate::error::{ErrorReply, StoreError};
use crate::script_batch::{CallAnswers, LoadedScript};
use crate::time::deadline;

/// The batches under way beyond which calls gather. A second one keeps the server busy while the answer of the first travels.
const UNANSWERED: usize = 2;

/// The time after a batch at which the next is sent though no answer has come: a server that is far away would otherwise delay calls by a
/// round trip. A call that comes then finds it over; where none comes the timer does, whose steps are of a millisecond.
const SPACING: Duration = Duration::from_micros(200);

/// A call that waits, with the way to its caller.
#[derive(Debug)]
struct WaitingCall {
    call: Arc<Call>,
    answer: oneshot::Sender<Result<Reply, ErrorReply>>,
}

/// The calls that wait for one server.
#[derive(Clone, Debug)]
pub(crate) struct Batches {
    waiting: mpsc::Sender<WaitingCall>,
}

/// The way to a server.
pub(crate) trait BatchTransport: Send + Sync + 'static {
    /// Runs calls, and returns as many answers in their order.
    fn run(&self, calls: &[&Call]) -> impl Future<Output = CallAnswers> + Send;
}

impl BatchTransport for LoadedScript {
    async fn run(&self, calls: &[&Call]) -> CallAnswers {
        self.run(calls).await
    }
}

impl Batches {
    /// Spawns the task that sends batches, which ends with the last handle. Must be called on a runtime.
    pub(crate) fn spawn(transport: impl BatchTransport) -> Self {
        let (waiting, calls) = mpsc::channel(QUEUE);
        tokio::spawn(send_batches(calls, transport));
        Self { waiting }
    }

    /// Sends a call, alone or with others, and waits for its answer, without a timeout.
    pub(crate) async fn run(&self, call: Arc<Call>) -> Result<Reply, ErrorReply> {
        let (answer, answered) = oneshot::channel();
        let unavailable = ErrorReply::Failed(StoreError::Unavailable);
        let waiting = WaitingCall { call, answer };
        if self.waiting.send(waiting).await.is_err() {
            return Err(unavailable);
        }
        // The task ends with the connection: the call may be under way.
        let lost = ErrorReply::Failed(StoreError::ConnectionLost);
        answered.await.unwrap_or(Err(lost))
    }
}

/// Gathers calls and sends them until nobody can make any.
async fn send_batches(mut calls: mpsc::Receiver<WaitingCall>, transport: impl BatchTransport) {
    let mut gathered: Vec<WaitingCall> = Vec::with_capacity(SCRIPT_CALLS);
    let mut under_way = FuturesUnordered::new();
    let mut next_at = deadline(Duration::ZERO);
    loop {
        let has_room = gathered.len() < SCRIPT_CALLS;
        let waits = !gathered.is_empty() && under_way.len() < BATCHES;
        tokio::select! {
            biased;
            Some(()) = under_way.next() => {}
            received = calls.recv(), if has_room => match received {
                Some(call) => gathered.push(call),
                None => break,
            },
            () = sleep_until(next_at), if waits => {}
        }
        while gathered.len() < SCRIPT_CALLS
            && let Ok(call) = calls.try_recv()
        {
            gathered.push(call);
        }
        gathered.retain(|waiting| !waiting.answer.is_closed());
        let is_full = gathered.len() >= SCRIPT_CALLS;
        let may_send = under_way.len() < UNANSWERED
            || under_way.len() < BATCHES && (is_full || deadline(Duration::ZERO) >= next_at);
        if may_send && !gathered.is_empty() {
            under_way.push(run_batch(&transport, std::mem::take(&mut gathered)));
            next_at = deadline(SPACING);
        }
    }
    // Nobody waits for what is gathered.
    while let Some(()) = under_way.next().await {}
}

/// Runs a batch, and gives each caller its answer.
async fn run_batch(transport: &impl BatchTransport, batch: Vec<WaitingCall>) {
    let calls: Vec<&Call> = batch.iter().map(|waiting| &*waiting.call).collect();
    let answers = transport.run(&calls).await;
    for (waiting, answer) in batch.into_iter().zip(answers) {
        // A caller whose timeout has ended does not take it.
        let _ = waiting.answer.send(answer);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use tokio::time::Instant;

    /// The names of the calls of a batch, and the time at which it came.
    #[derive(Clone, Debug)]
    struct ReceivedBatch {
        at: Duration,
        names: Vec<String>,
    }

    /// A server that takes `delay` for each batch, and answers each call with its first argument.
    #[derive(Clone, Default)]
    struct SlowServer {
        delay: Duration,
        batches: Arc<Mutex<Vec<ReceivedBatch>>>,
        errors: Arc<Mutex<VecDeque<ErrorReply>>>,
        start: Option<Instant>,
    }

    impl SlowServer {
        fn new(delay: Duration) -> Self {
            Self {
                delay,
                start: Some(Instant::now()),
                ..Self::default()
            }
        }

        /// Returns the sizes of the batches that came, each with the microseconds since the start.
        fn sizes(&self) -> Vec<(u128, usize)> {
            let batches = self.batches.lock().unwrap();
            let sizes = batches
                .iter()
                .map(|batch| (batch.at.as_micros(), batch.names.len()));
            sizes.collect()
        }
    }

    impl BatchTransport for SlowServer {
        async fn run(&self, calls: &[&Call]) -> CallAnswers {
            let names = calls
                .iter()
                .map(|call| String::from_utf8(call.args[0].clone()));
            let names: Vec<String> = names.map(Result::unwrap).collect();
            let at = self.start.unwrap().elapsed();
            let batch = ReceivedBatch {
                at,
                names: names.clone(),
            };
            self.batches.lock().unwrap().push(batch);
            let error = self.errors.lock().unwrap().pop_front();
            tokio::time::sleep(self.delay).await;
            match error {
                Some(error) => vec![Err(error); calls.len()],
                None => names
                    .into_iter()
                    .map(|name| Ok(Reply::Bytes(name.into())))
                    .collect(),
            }
        }
    }

    fn call(name: usize) -> Arc<Call> {
        Arc::new(Call {
            keys: Vec::new(),
            args: vec![name.to_string().into_bytes()],
        })
    }

    type Answers = Vec<tokio::task::JoinHandle<Result<Reply, ErrorReply>>>;

    /// Makes so many calls in their order.
    async fn make_calls(batches: &Batches, names: std::ops::Range<usize>) -> Answers {
        let mut answers = Vec::new();
        for name in names {
            let batches = batches.clone();
            answers.push(tokio::spawn(async move { batches.run(call(name)).await }));
            tokio::task::yield_now().await;
        }
        answers
    }

    const ROUND_TRIP: Duration = Duration::from_millis(10);

    /// Goal: a call that is alone waits for nothing. Method: calls one after the other, and two at a time.
    #[tokio::test(start_paused = true)]
    async fn a_call_that_is_alone_is_sent_at_once() {
        let server = SlowServer::new(ROUND_TRIP);
        let batches = Batches::spawn(server.clone());
        for name in 0..3 {
            let answer = batches.run(call(name)).await;
            assert_eq!(answer, Ok(Reply::Bytes(name.to_string().into_bytes())));
        }
        for answer in make_calls(&batches, 3..5).await {
            answer.await.unwrap().unwrap();
        }
        let each = [(0, 1), (10_000, 1), (20_000, 1), (30_000, 1), (30_000, 1)];
        assert_eq!(server.sizes(), each);
    }

    /// Goal: calls gather while two batches are under way, at most as many as a run carries, and each gets its own answer. Method: a
    /// hundred calls at once.
    #[tokio::test(start_paused = true)]
    async fn calls_gather_until_a_batch_is_full() {
        let server = SlowServer::new(ROUND_TRIP);
        let batches = Batches::spawn(server.clone());
        let answers = make_calls(&batches, 0..100).await;
        for (name, answer) in answers.into_iter().enumerate() {
            let answer = answer.await.unwrap();
            assert_eq!(answer, Ok(Reply::Bytes(name.to_string().into_bytes())));
        }
        let sizes: Vec<usize> = server.sizes().iter().map(|(_, size)| *size).collect();
        assert_eq!(sizes, [1, 1, SCRIPT_CALLS, SCRIPT_CALLS, SCRIPT_CALLS, 2]);
    }

    /// Goal: what has gathered is sent when an answer comes. Method: a server that answers before [`SPACING`] has passed.
    #[tokio::test(start_paused = true)]
    async fn an_answer_sends_what_has_gathered() {
        let server = SlowServer::new(SPACING / 2);
        let batches = Batches::spawn(server.clone());
        for answer in make_calls(&batches, 0..6).await {
            answer.await.unwrap().unwrap();
        }
        let sizes: Vec<usize> = server.sizes().iter().map(|(_, size)| *size).collect();
        assert_eq!(sizes, [1, 1, 4]);
    }

    /// Goal: a server that is far away delays no call by a round trip. Method: a call while two are under way, and one that comes when
    /// [`SPACING`] has passed; the clock of tokio has steps of a millisecond.
    #[tokio::test(start_paused = true)]
    async fn a_batch_is_sent_without_an_answer_after_a_moment() {
        let server = SlowServer::new(ROUND_TRIP);
        let batches = Batches::spawn(server.clone());
        let mut answers = make_calls(&batches, 0..3).await;
        tokio::time::sleep(Duration::from_millis(3)).await;
        answers.extend(make_calls(&batches, 3..4).await);
        for answer in answers {
            answer.await.unwrap().unwrap();
        }
        let sizes = server.sizes();
        let numbers: Vec<usize> = sizes.iter().map(|(_, size)| *size).collect();
        assert_eq!(numbers, [1; 4]);
        assert!((200..=2_000).contains(&sizes[2].0), "{sizes:?}");
        assert_eq!(sizes[3].0, 3_000);
    }

    /// Goal: a caller that has gone disturbs no other. Method: of calls that gather one is dropped, and one that is under way.
    #[tokio::test(start_paused = true)]
    async fn a_caller_that_has_gone_is_left_out() {
        let server = SlowServer::new(SPACING / 2);
        let batches = Batches::spawn(server.clone());
        let answers = make_calls(&batches, 0..5).await;
        for gone in [0, 3] {
            answers[gone].abort();
        }
        for (name, answer) in answers.into_iter().enumerate() {
            match name {
                0 | 3 => assert!(answer.await.unwrap_err().is_cancelled()),
                _ => assert_eq!(
                    answer.await.unwrap(),
                    Ok(Reply::Bytes(name.to_string().into_bytes()))
                ),
            }
        }
        let sent = server.batches.lock().unwrap();
        let last = sent.last().map(|batch| batch.names.clone());
        assert_eq!(last.unwrap(), ["2", "4"]);
    }

    /// Goal: an error of a batch is that of each of its calls, and the next batch is none the worse. Method: one error.
    #[tokio::test(start_paused = true)]
    async fn an_error_of_a_batch_reaches_all_its_calls() {
        let server = SlowServer::new(SPACING / 2);
        let batches = Batches::spawn(server.clone());
        let first = make_calls(&batches, 0..2).await;
        let lost = ErrorReply::Failed(StoreError::ConnectionLost);
        let gathered = make_calls(&batches, 2..5).await;
        server.errors.lock().unwrap().push_back(lost.clone());
        for answer in first {
            answer.await.unwrap().unwrap();
        }
        for answer in gathered {
            assert_eq!(answer.await.unwrap(), Err(lost.clone()));
        }
        assert!(batches.run(call(9)).await.is_ok());
    }

    /// Goal: no more batches are under way than the bound says. Method: a server that does not answer.
    #[tokio::test(start_paused = true)]
    async fn a_silent_server_gets_no_more_than_the_bound() {
        let server = SlowServer::new(Duration::from_secs(3_600));
        let batches = Batches::spawn(server.clone());
        let calls = BATCHES * SCRIPT_CALLS + 500;
        let answers = make_calls(&batches, 0..calls).await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(server.sizes().len(), BATCHES);
        answers.iter().for_each(tokio::task::JoinHandle::abort);
    }
}
