//! Owns the trace that a request belongs to: W3C Trace Context, read from clients, written for origins, named in the log.
//!
//! A trace that a client began is continued, since its id reveals nothing and costs nothing. Whether it is *recorded* costs the origins and
//! all behind them, so a client does not decide that unless it is trusted: the flag is drawn from the trace's own id, by which all gateways
//! with one share draw alike. A new trace has the id of its request, so that one search finds both.
//!
//! # Limits
//! [`TRACE_STATE`](bounds::TRACE_STATE) bytes of `tracestate` go on; a longer one is left out, as the standard allows.

use std::net::IpAddr;

use http::HeaderValue;
use sluicegate_base::bounds;
use sluicegate_base::received::{FieldValue, ReceivedFields};
use sluicegate_decide::client::{PeerTrust, hop};
use sluicegate_decide::request_id::{RequestId, draw};
use sluicegate_decide::trace_fields::{TRACEPARENT, TRACESTATE};

use sluicegate_config::Share;
use sluicegate_config::rules::{OtlpSignal, Rules};

/// A span of a trace: the gateway's own part of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TraceContext {
    /// The id of the trace, never zero.
    id: u128,
    /// The id of the gateway's span, never zero.
    span: u64,
    /// The client's span, which is the parent of the gateway's.
    parent: Option<u64>,
    /// The parent of the origin's span: the gateway's span, or that of its request to the origin where that has one.
    exit: u64,
    /// The side that started the trace.
    origin: TraceStart,
    sampled: SamplingDecision,
}

/// The side that started a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceStart {
    /// The gateway.
    Here,
    /// The client, or a sender before it.
    Before,
}

/// The decision to record a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SamplingDecision {
    /// The trace is recorded.
    Yes,
    /// The trace is not recorded.
    No,
}

/// The export of the gateway's spans to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanExport {
    /// The spans of recorded traces are exported.
    Spans,
    /// No span is exported: the log has them.
    Nothing,
}

/// The side whose decision to record a trace counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlagAuthority {
    /// The sender, which is trusted.
    Sender,
    /// The gateway.
    Gateway,
}

/// Decides whether this share of all traces includes one. W3C Trace Context Level 2: the last 7 bytes of an id are random.
fn sampled(id: u128, share: Share) -> SamplingDecision {
    let random = ((id >> 24) & u128::from(u32::MAX)) as u32;
    if share.holds(random) {
        SamplingDecision::Yes
    } else {
        SamplingDecision::No
    }
}

impl TraceContext {
    /// Returns the trace of a request that `peer` sends with these fields; `None` where `rules` keep none. A peer that is trusted to name
    /// the client also decides what is recorded.
    #[must_use]
    pub fn begin(
        rules: &Rules,
        peer: IpAddr,
        headers: &ReceivedFields,
        request_id: RequestId,
    ) -> Option<Self> {
        let tracing = rules.tracing.as_ref()?;
        let flag_of = match hop(peer, &rules.client) {
            PeerTrust::Trusted => FlagAuthority::Sender,
            PeerTrust::Stranger => FlagAuthority::Gateway,
        };
        let trace = Self::from_headers(headers, request_id, flag_of, tracing.sample_ratio);
        let collector = tracing.otlp.as_ref();
        Some(
            match collector.map(|rules| rules.sends(OtlpSignal::Traces)) {
                Some(true) => trace.exported_as(SpanExport::Spans),
                Some(false) | None => trace.exported_as(SpanExport::Nothing),
            },
        )
    }

    /// Makes the span for a request with these fields and this id.
    #[must_use]
    pub fn from_headers(
        headers: &ReceivedFields,
        request_id: RequestId,
        flag_of: FlagAuthority,
        share: Share,
    ) -> Self {
        let span = some_span();
        match parent(headers) {
            Some(TraceParent {
                id,
                span: parent,
                sampled: sent,
            }) => Self {
                id,
                span,
                parent: Some(parent),
                exit: span,
                origin: TraceStart::Before,
                sampled: match flag_of {
                    FlagAuthority::Sender => sent,
                    FlagAuthority::Gateway => sampled(id, share),
                },
            },
            None => {
                // One that was given is no id of a trace.
                let id = request_id.bits().unwrap_or_else(draw).max(1);
                Self {
                    id,
                    span,
                    parent: None,
                    exit: span,
                    origin: TraceStart::Here,
                    sampled: sampled(id, share),
                }
            }
        }
    }

    /// Adds a span for the request to the origin where spans are exported and the trace is recorded.
    #[must_use]
    pub(super) fn exported_as(self, export: SpanExport) -> Self {
        match (export, self.sampled) {
            (SpanExport::Spans, SamplingDecision::Yes) => Self {
                exit: some_span(),
                ..self
            },
            _ => self,
        }
    }

    /// Returns the `traceparent` of the request to the origin.
    #[must_use]
    pub fn parent_field(&self) -> HeaderValue {
        let text = format!(
            "00-{:032x}-{:016x}-{:02x}",
            self.id,
            self.exit,
            self.flags()
        );
        HeaderValue::from_str(&text).expect("hexadecimal digits and dashes are visible ASCII")
    }

    /// Returns the flags of the trace: bit 0, it is recorded.
    #[must_use]
    pub fn flags(&self) -> u8 {
        u8::from(self.sampled == SamplingDecision::Yes)
    }

    /// Returns the `tracestate` of the request to the origin; none where the trace is not continued, since the field is about another
    /// trace.
    #[must_use]
    pub fn state_fields(&self, headers: &ReceivedFields) -> Option<HeaderValue> {
        if self.origin == TraceStart::Here {
            return None;
        }
        let lines = headers.get_all(&TRACESTATE).map(FieldValue::as_bytes);
        let joined = lines.collect::<Vec<_>>().join(&b","[..]);
        if joined.is_empty() || joined.len() > bounds::TRACE_STATE {
            return None;
        }
        HeaderValue::from_bytes(&joined).ok()
    }

    /// Returns the id of the trace, 32 digits.
    #[must_use]
    pub fn id(&self) -> RequestId {
        RequestId::from_bits(self.id)
    }

    /// Returns the id of the gateway's span, 16 digits.
    #[must_use]
    pub fn span(&self) -> u64 {
        self.span
    }

    /// Returns the id of the span that is the parent of the origin's, 16 digits.
    #[must_use]
    pub fn exit(&self) -> u64 {
        self.exit
    }

    /// Returns the client's span, where the client began the trace.
    #[must_use]
    pub fn parent(&self) -> Option<u64> {
        self.parent
    }

    /// Returns the bits of the trace's id.
    #[must_use]
    pub fn bits(&self) -> u128 {
        self.id
    }

    /// Returns whether its spans are exported.
    #[must_use]
    pub fn is_told(&self) -> bool {
        // Two draws of 64 bits differ.
        self.exit != self.span
    }
}

/// A parsed `traceparent` of a client.
struct TraceParent {
    id: u128,
    span: u64,
    sampled: SamplingDecision,
}

/// Returns a random id of a span, never zero.
fn some_span() -> u64 {
    (draw() as u64).max(1)
}

/// Reads the trace of a client and its flag to record it; `None` where there is none or it is malformed.
fn parent(headers: &ReceivedFields) -> Option<TraceParent> {
    let mut lines = headers.get_all(&TRACEPARENT);
    // §3.2: of several none is valid.
    let (Some(line), None) = (lines.next(), lines.next()) else {
        return None;
    };
    parse(line.as_bytes())
}

/// Parses `00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01`, §3.2.2; later versions may continue behind a dash.
fn parse(text: &[u8]) -> Option<TraceParent> {
    const LENGTH: usize = 55;
    let known = text.get(..LENGTH)?;
    let (version, rest) = known.split_at_checked(2)?;
    let [b'-', id @ .., b'-', f1, f2] = rest else {
        return None;
    };
    let (id, span) = id.split_at_checked(32)?;
    let span = span.strip_prefix(b"-")?;
    let version = hex(version)?;
    let goes_on = text.len() > LENGTH;
    let is_right = match version {
        0 => !goes_on,
        0xff => false,
        _ => !goes_on || text[LENGTH] == b'-',
    };
    let id = hex(id)?;
    let flags = hex(&[*f1, *f2])?;
    let span = u64::try_from(hex(span)?).ok()?;
    if !is_right || id == 0 || span == 0 {
        return None;
    }
    let sampled = if flags & 1 == 1 {
        SamplingDecision::Yes
    } else {
        SamplingDecision::No
    };
    Some(TraceParent { id, span, sampled })
}

/// Reads hexadecimal digits in lower case only, §3.2.2.
fn hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |number, digit| {
        let digit = match digit {
            b'0'..=b'9' => digit - b'0',
            b'a'..=b'f' => digit - b'a' + 10,
            _ => return None,
        };
        Some(number << 4 | u128::from(digit))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
    const SPAN: &str = "00f067aa0ba902b7";

    fn sent(parents: &[&str], states: &[&str]) -> ReceivedFields {
        let mut headers = ReceivedFields::new();
        for (name, values) in [(&TRACEPARENT, parents), (&TRACESTATE, states)] {
            for value in values {
                headers.append(name, HeaderValue::from_str(value).expect("a value"));
            }
        }
        headers
    }

    fn of(headers: &ReceivedFields, flag_of: FlagAuthority, share: Share) -> TraceContext {
        TraceContext::from_headers(headers, RequestId::from_bits(7), flag_of, share)
    }

    /// Goal: a valid trace continues under a span of the gateway, and a malformed one does not. Method: the standard's example and each
    /// way to break it.
    #[test]
    fn a_valid_trace_continues_and_a_malformed_one_begins_anew() {
        let right = format!("00-{ID}-{SPAN}-01");
        let trace = of(
            &sent(&[&right], &["a=1", "b=2"]),
            FlagAuthority::Sender,
            Share::ALL,
        );
        assert_eq!(trace.id().to_string(), ID);
        let field = trace.parent_field();
        let field = field.to_str().expect("text");
        assert!(
            field.starts_with(&format!("00-{ID}-")) && field.ends_with("-01"),
            "{field}"
        );
        assert!(!field.contains(SPAN));
        let state = trace.state_fields(&sent(&[&right], &["a=1", "b=2"]));
        assert_eq!(state.expect("a state"), "a=1,b=2");
        let later = format!("cc-{ID}-{SPAN}-00-more");
        assert_eq!(
            of(&sent(&[&later], &[]), FlagAuthority::Sender, Share::ALL)
                .id()
                .to_string(),
            ID
        );
        let zero = "0".repeat(32);
        for wrong in [
            format!("00-{}-{SPAN}-01", ID.to_uppercase()),
            format!("ff-{ID}-{SPAN}-01"),
            format!("00-{ID}-{SPAN}-01-more"),
            format!("cc-{ID}-{SPAN}-01more"),
            format!("00-{zero}-{SPAN}-01"),
            format!("00-{ID}-{}-01", &zero[..16]),
            format!("00-{ID}-{SPAN}-0"),
            format!("00-{ID}-{SPAN}"),
            String::new(),
        ] {
            let headers = sent(&[&wrong], &["a=1"]);
            let trace = of(&headers, FlagAuthority::Sender, Share::ALL);
            assert_eq!(trace.id(), RequestId::from_bits(7), "{wrong}");
            assert_eq!(trace.state_fields(&headers), None, "{wrong}");
        }
        let twice = sent(&[&right, &right], &[]);
        assert_eq!(
            of(&twice, FlagAuthority::Sender, Share::ALL).id(),
            RequestId::from_bits(7)
        );
        let long = sent(&[&right], &[&"a".repeat(513)]);
        assert_eq!(
            of(&long, FlagAuthority::Sender, Share::ALL).state_fields(&long),
            None
        );
    }

    /// Goal: untrusted senders do not decide what is recorded. Method: both flags, from a trusted sender and from another, with all and
    /// none.
    #[test]
    fn only_a_trusted_sender_decides_what_is_recorded() {
        for (flag, sampled) in [
            ("00", SamplingDecision::No),
            ("01", SamplingDecision::Yes),
            ("03", SamplingDecision::Yes),
        ] {
            let headers = sent(&[&format!("00-{ID}-{SPAN}-{flag}")], &[]);
            assert_eq!(
                of(&headers, FlagAuthority::Sender, Share::ALL).sampled,
                sampled
            );
            assert_eq!(
                of(&headers, FlagAuthority::Gateway, Share::NONE).sampled,
                SamplingDecision::No
            );
            assert_eq!(
                of(&headers, FlagAuthority::Gateway, Share::ALL).sampled,
                SamplingDecision::Yes
            );
        }
    }

    /// Goal: the parent of an origin's span is a span that the collector gets. Method: a recorded and another trace, with and without a
    /// collector.
    #[test]
    fn the_parent_of_the_origin_is_a_span_that_is_exported() {
        let field = |trace: TraceContext| trace.parent_field().to_str().expect("text").to_owned();
        let right = format!("00-{ID}-{SPAN}-01");
        let headers = sent(&[&right], &[]);
        for (share, told, own) in [
            (Share::ALL, SpanExport::Spans, true),
            (Share::ALL, SpanExport::Nothing, false),
            (Share::NONE, SpanExport::Spans, false),
        ] {
            let trace = of(&headers, FlagAuthority::Gateway, share).exported_as(told);
            assert_eq!(trace.exit() != trace.span(), own);
            assert!(field(trace).contains(&format!("{:016x}", trace.exit())));
            assert_eq!(trace.parent(), Some(0x00f0_67aa_0ba9_02b7));
        }
        assert_eq!(
            of(&ReceivedFields::new(), FlagAuthority::Sender, Share::ALL).parent(),
            None
        );
    }

    /// Goal: a share is a share. Method: 20,000 new traces with a quarter.
    #[test]
    fn a_share_of_the_traces_is_recorded() {
        let share = Share::percent(25);
        let recorded = (0..20_000)
            .filter(|_| sampled(draw(), share) == SamplingDecision::Yes)
            .count();
        assert!((4_500..5_500).contains(&recorded), "{recorded}");
    }

    proptest! {
        /// Goal: no field of a client causes a panic or a malformed field to the origin. Method: any text, also near the right one.
        #[test]
        fn any_parent_makes_a_valid_one(text in "([ -~]{0,70}|[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}(-.?)?)") {
            let Ok(value) = HeaderValue::from_str(&text) else { return Ok(()); };
            let headers = ReceivedFields::from_iter([(TRACEPARENT.clone(), value)]);
            let made = of(&headers, FlagAuthority::Gateway, Share::ALL).parent_field();
            prop_assert!(parse(made.as_bytes()).is_some());
        }
    }
}
