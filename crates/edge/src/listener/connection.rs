//! Reads the heads of one HTTP/1 connection, each within its time and size, and keeps the bytes that a client sends ahead.

use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use futures_util::FutureExt;
use http::HeaderMap;
use pingora::prelude::timeout;
use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_decide::client::PeerAddress;
use sluicegate_decide::own_failure::OwnFailure;
use sluicegate_decide::response::GatewayProblem;
use sluicegate_http1::{
    BodyFraming, ChunkDecoder, HeadError, HeadLimits, HeadProgress, RequestHead, leading_line_end,
};
use sluicegate_limiter::Timestamp;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::client_stream::ClientStream;
use super::guarded_stream::{GuardedStream, ReadPace};
use crate::gateway::{AnswerHead, CHUNK_LIMITS, ConnectionFacts, RequestClient, connection_closed};
use sluicegate_budgets::{
    BudgetCap, BytesPermit, ClientAccount, ClientBytes, ClientConnectionPermit,
};
use sluicegate_config::rules::ServerRules;
use sluicegate_origin::request_failure::{ClientFailure, GatewayFailure};
use sluicegate_process::SharedState;
use sluicegate_transport::body_end::BodyEnd;
use sluicegate_transport::reusable_timeout::ReusableTimeout;
use sluicegate_transport::thread_buffer::{WriteBuffer, read_through};

/// The next event of a connection.
pub(super) enum NextHead {
    /// A whole head of so many bytes.
    Head(usize),
    /// A head that is answered with a problem, after which the connection ends.
    Problem(GatewayProblem),
    /// No head for now: the client has sent nothing of it for [`IDLE_AFTER`].
    Idle,
    /// The client has left.
    End,
}

/// Time without bytes of a client after which its connection counts as idle, and gives the memory back in which it serves requests.
pub(super) const IDLE_AFTER: Duration = Duration::from_secs(1);

/// The result of one read.
enum Wait {
    Read,
    /// The client left.
    Gone,
    /// The timeout has passed.
    Over,
}

impl Wait {
    fn from_read(read: io::Result<usize>) -> Self {
        match read {
            Ok(0) | Err(_) => Self::Gone,
            Ok(_) => Self::Read,
        }
    }
}

/// The beginning of the first head of a connection, by which its protocol was told.
#[derive(Debug)]
pub(super) struct BegunHead {
    /// The time at which it began.
    pub(super) since: Timestamp,
    /// The bytes that were read.
    pub(super) bytes: BytesMut,
}

/// One HTTP/1 connection between two requests.
pub(super) struct Http1Connection {
    pub(super) stream: Box<GuardedStream>,
    /// Bytes that were read and not yet served.
    pub(super) read: BytesMut,
    /// The head at their start, as far as it is parsed.
    pub(super) head: RequestHead,
    /// Answers that are not sent yet, since further requests were received with those that they answer.
    answers: Option<WriteBuffer>,
    /// The time at which its first head began, where that was looked at before.
    began: Option<Timestamp>,
    timeout: ReusableTimeout,
    account: ClientAccount,
    peer: Option<IpAddr>,
    /// Bytes that it holds beside those that wait to be sent: of records of TLS.
    pending_records: u64,
    /// True while the end of the connection would be the end of an answer that is not whole.
    is_cut_short: bool,
    /// True until a request has come.
    is_new: bool,
    /// True if the end of the answer is withheld.
    withholds_end: bool,
    /// The last byte of an answer, while it is withheld.
    last_byte: Option<u8>,
    shared: Arc<SharedState>,
    permit: ClientConnectionPermit,
}

impl Http1Connection {
    /// Returns a connection with these facts from which nothing has been read, but for the beginning of a head.
    pub(super) fn new(
        stream: ClientStream,
        permit: ClientConnectionPermit,
        begun: Option<BegunHead>,
        facts: &ConnectionFacts,
        shared: Arc<SharedState>,
    ) -> Self {
        let is_secured = facts.secured.is_some();
        let (began, read) = begun.map(|begun| (begun.since, begun.bytes)).unzip();
        Self {
            stream: GuardedStream::new(stream),
            read: read.unwrap_or_default(),
            head: RequestHead::new(),
            answers: None,
            began,
            timeout: ReusableTimeout::default(),
            account: facts.account.clone(),
            peer: facts.peer.as_ref().map(PeerAddress::ip),
            pending_records: if is_secured {
                bounds::PENDING_RECORDS
            } else {
                0
            },
            is_cut_short: false,
            is_new: true,
            withholds_end: false,
            last_byte: None,
            shared,
            permit,
        }
    }

    /// Returns the next head, if it comes soon. Checks bytes that are already here before it waits for others. While a head is not whole,
    /// `received` counts its bytes.
    pub(super) async fn next(
        &mut self,
        rules: &ServerRules,
        received: &Arc<ClientBytes>,
    ) -> NextHead {
        let limits = head_limits(rules);
        let mut began = self.began.take();
        let mut held = None;
        self.stream.begin(read_pace(rules));
        loop {
            match self.head.parse(&self.read, &limits) {
                Ok(HeadProgress::Partial) => {}
                Ok(HeadProgress::Whole(_)) | Err(_) if !self.permit.begin() => {
                    return NextHead::End;
                }
                Ok(HeadProgress::Whole(bytes)) => return self.check_body(bytes, rules),
                Err(error) => return NextHead::Problem(error.into()),
            }
            if self.send_answers().await.is_err() {
                return NextHead::End;
            }
            // An empty line after the previous request does not begin the next one, which may never come.
            let is_idle = leading_line_end(&self.read) == self.read.len();
            let patience = if is_idle {
                self.permit.wait();
                IDLE_AFTER.min(self.idle_patience(rules))
            } else {
                // The whole head has one deadline, so that a field every few seconds does not hold a connection forever.
                let began = *began.get_or_insert_with(clock::now);
                self.permit.wait_for_rest(began);
                (rules.defence)
                    .client_header_timeout
                    .saturating_sub(clock::since(began))
            };
            if !is_idle {
                // What has come is read first: only a head whose rest has not come is held back.
                match self.read_now() {
                    Some(Wait::Read) => continue,
                    Some(Wait::Gone | Wait::Over) => return NextHead::End,
                    None => {}
                }
                if self.hold(&mut held, rules, received).is_err() {
                    return NextHead::Problem(GatewayProblem::Own(OwnFailure::PartialHeadsFull));
                }
            }
            match self.read_more(patience).await {
                Wait::Read => {}
                Wait::Gone => return NextHead::End,
                Wait::Over if is_idle => return NextHead::Idle,
                Wait::Over => return NextHead::Problem(GatewayProblem::HeadTimeout),
            }
        }
    }

    /// Returns the time for which it may be idle: before its first request, that of a head.
    pub(super) fn idle_patience(&self, rules: &ServerRules) -> Duration {
        match self.is_new {
            true => rules.defence.client_header_timeout,
            false => rules.keepalive_timeout,
        }
    }

    /// Waits for bytes of the next request of an idle connection, for what is left of the time that it may be idle. Returns whether they
    /// came.
    pub(super) async fn await_request(&mut self, patience: Duration) -> bool {
        if self.read.is_empty() {
            // An idle connection holds no memory for bytes, and none for the places of fields.
            self.read = BytesMut::new();
            self.head = RequestHead::new();
        }
        let left = patience.saturating_sub(IDLE_AFTER);
        matches!(self.read_more(left).await, Wait::Read)
    }

    /// Reserves the memory of a head that is not whole: of its buffer, which grows by doubling, and of the reads that make it grow.
    fn hold(
        &self,
        held: &mut Option<BytesPermit>,
        rules: &ServerRules,
        received: &Arc<ClientBytes>,
    ) -> Result<(), BudgetCap> {
        let length = self.read.len();
        let buffer = match length {
            ..bounds::HEAD_READ => length,
            _ => self.read.capacity().max(length) + bounds::BODY_READ,
        };
        let bytes = buffer.next_multiple_of(bounds::HEAD_READ) as u64;
        let configured = rules.defence.max_received_bytes;
        received.extend(held, &self.account, bytes, configured)
    }

    /// Rewrites the head of so many bytes into its canonical form, and returns its new length.
    fn respell(&mut self, head_bytes: usize, rules: &ServerRules) -> Result<usize, HeadError> {
        let behind = self.read.split_off(head_bytes);
        let written = self.head.respelled(&self.read);
        self.read.clear();
        self.read.extend_from_slice(&written);
        self.read.unsplit(behind);
        self.head.clear();
        // The head is within its limits as it was sent; a target that is percent-encoded is longer.
        let limits = HeadLimits {
            bytes: usize::MAX,
            fields: usize::MAX,
            ..head_limits(rules)
        };
        self.head.parse(&self.read, &limits)?;
        Ok(written.len())
    }

    /// Checks what came with a head of so many bytes: malformed chunks are rejected before the limits.
    fn check_body(&mut self, mut head_bytes: usize, rules: &ServerRules) -> NextHead {
        if self.head.needs_respelling() {
            match self.respell(head_bytes, rules) {
                Ok(bytes) => head_bytes = bytes,
                Err(error) => return NextHead::Problem(error.into()),
            }
        }
        if self.head.framing() == BodyFraming::Chunked
            && let Err(rule) = ChunkDecoder::new(CHUNK_LIMITS).check(&self.read[head_bytes..])
        {
            return NextHead::Problem(GatewayProblem::BadRequest(rule.into()));
        }
        NextHead::Head(head_bytes)
    }

    /// Reads once, unless the connection is closed for another one.
    async fn read_more(&mut self, patience: Duration) -> Wait {
        if patience.is_zero() {
            return Wait::Over;
        }
        // A body that was sent along comes with its head.
        let mut read = pin!(read_through(
            &mut *self.stream,
            &mut self.read,
            bounds::BODY_READ
        ));
        let permit = &self.permit;
        let read = poll_fn(|context| match read.as_mut().poll(context) {
            Poll::Ready(read) => Poll::Ready(Wait::from_read(read)),
            Poll::Pending => permit.poll_reclaimed(context).map(|()| Wait::Gone),
        });
        let read = self.timeout.wait(pin!(read), patience).await;
        read.unwrap_or(Wait::Over)
    }

    /// Reads once what has come; `None` where nothing has.
    fn read_now(&mut self) -> Option<Wait> {
        let read = read_through(&mut *self.stream, &mut self.read, bounds::BODY_READ);
        read.now_or_never().map(Wait::from_read)
    }

    /// Takes the bytes of the head; those behind it stay.
    pub(super) fn split_head(&mut self, head_bytes: usize) -> BytesMut {
        self.read.split_to(head_bytes)
    }

    /// Returns the answers that are not sent yet, so that another one is appended.
    pub(super) fn take_answers(&mut self) -> WriteBuffer {
        self.answers.take().unwrap_or_else(WriteBuffer::take)
    }

    /// Keeps answers until they are [sent](Self::send_answers).
    pub(super) fn queue_answers(&mut self, answers: WriteBuffer) {
        self.answers = (!answers.is_empty()).then_some(answers);
    }

    /// Returns whether as many bytes of answers wait as may.
    pub(super) fn is_queue_full(&self) -> bool {
        (self.answers.as_ref()).is_some_and(|answers| answers.len() >= bounds::QUEUED_ANSWERS)
    }

    /// Sends the answers that are not sent yet. While the client does not take them, what the connection holds takes room among unread
    /// answers.
    ///
    /// # Errors
    /// The client has left, or reads too slowly, or there is no room.
    pub(super) async fn send_answers(&mut self) -> io::Result<()> {
        let Some(answers) = self.answers.take() else {
            return Ok(());
        };
        let stream = &mut self.stream;
        let mut write = pin!(async {
            stream.write_all(&answers).await?;
            stream.flush().await
        });
        if let Some(written) = (&mut write).now_or_never() {
            return written;
        }
        let buffers = (self.read.capacity() + answers.capacity()) as u64;
        let bytes = buffers + self.pending_records + bounds::PENDING_ANSWER;
        let configured = self
            .shared
            .snapshot()
            .compiled
            .rules
            .server
            .defence
            .max_unread_bytes;
        let budget = &self.shared.unread_answers;
        let entered = budget.enter(&self.account, bytes, configured);
        let _permit = entered.map_err(|cap| {
            let failure = GatewayFailure::UnreadAnswers(cap, budget.most(configured));
            let why = format_args!("its connection is ended: {failure}");
            self.shared.recorder.notices.tell(self.peer, &why);
            io::Error::from(io::ErrorKind::QuotaExceeded)
        })?;
        write.await
    }

    /// Begins the body of a request whose head was taken.
    pub(super) fn begin_body(&mut self, rules: &ServerRules) {
        self.is_new = false;
        self.withholds_end = false;
        self.head.clear();
        self.stream.begin(read_pace(rules));
    }

    /// Ends a connection without a further answer. With TLS it sends close_notify, RFC 8446 §6.1: otherwise the end could be an
    /// attacker's truncation. One whose answer was cut short ends by a reset, when it is dropped.
    pub(super) async fn end(mut self) {
        if self.is_cut_short {
            return;
        }
        if self.stream.is_secured() {
            // A client that reads nothing any more does not need close_notify.
            let _ = timeout(bounds::LINGER_TIME, self.stream.shutdown()).await;
        }
    }

    /// Reads and drops some bytes before it closes: a close with unread bytes makes the kernel send a reset that can overtake
    /// the answer.
    pub(super) async fn linger(mut self) {
        if self.is_cut_short {
            return;
        }
        // A client that held back a head would have it kept for as long as it lingers.
        self.read = BytesMut::new();
        // The client may have left; then there is nothing to wait for.
        let _ = self.stream.shutdown().await;
        let mut scrap = BytesMut::with_capacity(bounds::HEAD_READ);
        let drop_rest = async {
            let mut dropped = 0;
            while dropped < bounds::LINGER_BYTES {
                scrap.clear();
                match self.stream.read_buf(&mut scrap).await {
                    Ok(0) | Err(_) => return,
                    Ok(bytes) => dropped += bytes,
                }
            }
        };
        // A timeout is the expected end for a client that keeps sending.
        let _ = timeout(bounds::LINGER_TIME, drop_rest).await;
    }
}

impl RequestClient for Http1Connection {
    fn account(&self) -> &ClientAccount {
        &self.account
    }

    fn received(&mut self) -> &mut BytesMut {
        &mut self.read
    }

    async fn read_more(&mut self, patience: Option<Duration>) -> Result<usize, ClientFailure> {
        let read = read_through(&mut *self.stream, &mut self.read, bounds::BODY_READ);
        let mut read = pin!(read);
        let read = match patience {
            Some(patience) => self.timeout.wait(read, patience).await,
            None => Some(read.as_mut().await),
        };
        Ok(read.ok_or(ClientFailure::Stalled)??)
    }

    fn begin_answer(&mut self, into: &mut Vec<u8>, head: AnswerHead<'_>) -> io::Result<()> {
        self.is_cut_short = head.ends_with_connection();
        head.write_http1(into);
        Ok(())
    }

    async fn write(&mut self, mut pieces: [&[u8]; 2], end: BodyEnd) -> Result<(), ClientFailure> {
        if self.withholds_end && end.is_here() {
            self.last_byte = split_last(&mut pieces);
        }
        match pieces {
            [b"", b""] => {}
            [bytes, b""] | [b"", bytes] => {
                self.stream.write_all(bytes).await?;
                self.stream.flush().await?;
            }
            [first, second] => {
                let mut both = Buf::chain(first, second);
                self.stream.write_all_buf(&mut both).await?;
                self.stream.flush().await?;
            }
        }
        if end.is_here() && !self.withholds_end {
            self.is_cut_short = false;
        }
        Ok(())
    }

    fn withhold_end(&mut self) {
        self.withholds_end = true;
    }

    async fn end_answer(&mut self, _: Option<HeaderMap>) -> Result<(), ClientFailure> {
        if let Some(last) = self.last_byte.take() {
            self.stream.write_all(&[last]).await?;
            self.stream.flush().await?;
        }
        self.withholds_end = false;
        self.is_cut_short = false;
        Ok(())
    }

    async fn left(&mut self) {
        connection_closed(|| self.stream.socket().is_closed_by_peer()).await;
    }

    fn stream(&mut self) -> Option<&mut (impl AsyncRead + AsyncWrite + Send + Unpin)> {
        Some(&mut *self.stream)
    }
}

impl Drop for Http1Connection {
    fn drop(&mut self) {
        if !self.is_cut_short {
            return;
        }
        // RFC 9112 §8: a client cannot tell such an answer from a whole one, if its connection just ends.
        if let Err(error) = self.stream.socket().reset_on_close() {
            let why =
                format_args!("its answer is cut short, and its connection not reset: {error}");
            self.shared.recorder.notices.tell(self.peer, &why);
        }
    }
}

/// Takes the last byte of the pieces.
fn split_last(pieces: &mut [&[u8]; 2]) -> Option<u8> {
    let last = pieces.iter_mut().rfind(|piece| !piece.is_empty())?;
    let whole = *last;
    let (byte, before) = whole.split_last()?;
    *last = before;
    Some(*byte)
}

/// Returns the bounds of a request's head.
pub(super) fn head_limits(rules: &ServerRules) -> HeadLimits {
    HeadLimits {
        bytes: rules.max_header_bytes,
        fields: rules.max_headers,
        target: rules.defence.max_uri_bytes,
    }
}

/// Returns the minimum rate and the timeout for a client that reads an answer.
pub(super) fn read_pace(rules: &ServerRules) -> ReadPace {
    ReadPace {
        patience: rules.client_write_timeout,
        rate: rules.defence.client_min_read_rate,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use sluicegate_http1::Authority;

    use sluicegate_base::host;

    proptest! {
        /// Goal: an authority passes where its host has a normal form, and two are the same where it is. Method: arbitrary short ones.
        #[test]
        fn authorities_are_hosts(texts in prop::array::uniform2("[abAB.:1\\[\\]~@-]{0,8}")) {
            let normal = |text: &str| host::normalize(text).ok().map(|name| name.into_owned());
            let [one, other] = texts.each_ref().map(|text| Authority::parse(text.as_bytes(), 80));
            prop_assert_eq!(one.is_some(), normal(&texts[0]).is_some());
            if one.is_some() && one == other {
                prop_assert_eq!(normal(&texts[0]), normal(&texts[1]));
            }
        }
    }
}
