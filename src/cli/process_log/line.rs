//! Writes one event as one line of the process log.
//!
//! ```text
//! [2026-11-23T12:00:00.042Z WARN  sluicegate::origin::pool] origin app: …
//! {"time":"2026-11-23T12:00:00.042Z","level":"WARN","target":"sluicegate::origin::pool","message":"origin app: …"}
//! ```
//!
//! As text an event keeps the line feeds of its message, such as those of a report about the configuration; other control
//! characters are escaped, so that bytes from clients cannot control a terminal. There are no colors. As JSON it is always one
//! line. Fields that a library adds follow the message, or are members of the object beside it.

use std::borrow::Cow;
use std::fmt::{self, Debug};

use serde_json::{Map, Value};
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::{FmtContext, FormatEvent, FormatFields};
use tracing_subscriber::registry::LookupSpan;

use sluicegate_telemetry::terminal_text::printable_lines;

/// The format of lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProcessLogFormat {
    Text,
    Json,
}

/// Formats events.
pub(super) struct ProcessLogLine(pub(super) ProcessLogFormat);

impl<S, N> FormatEvent<S, N> for ProcessLogLine
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        _: &FmtContext<'_, S, N>,
        mut into: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let mut parts = EventFields::default();
        event.record(&mut parts);
        let level = *event.metadata().level();
        let target = parts.target.as_deref();
        let target = shown_target(target.unwrap_or_else(|| event.metadata().target()));
        match self.0 {
            ProcessLogFormat::Text => {
                write!(into, "[{} {level:<5} {target}] ", now())?;
                into.write_str(&printable_lines(&parts.message))?;
                for (name, value) in &parts.fields {
                    write!(into, " {name}={}", printable_lines(value))?;
                }
                writeln!(into)
            }
            ProcessLogFormat::Json => {
                let fields = parts.fields.into_iter();
                let fields = fields.map(|(name, value)| (name.to_owned(), Value::from(value)));
                writeln!(into, "{}", object(level, &target, &parts.message, fields))
            }
        }
    }
}

/// Returns the name of a module, `sluicegate::origin::pool`, where the part of the gateway is a crate, `sluicegate_origin`.
fn shown_target(target: &str) -> Cow<'_, str> {
    match target.strip_prefix("sluicegate_") {
        Some(part) => format!("sluicegate::{part}").into(),
        None => target.into(),
    }
}

/// Returns a line of JSON, without its line feed.
pub(super) fn json(level: Level, target: &str, message: &str) -> Value {
    object(level, target, message, [])
}

fn object(
    level: Level,
    target: &str,
    message: &str,
    fields: impl IntoIterator<Item = (String, Value)>,
) -> Value {
    let mut object: Map<String, Value> = fields.into_iter().collect();
    for (at, (name, value)) in [
        ("time", now()),
        ("level", level.to_string()),
        ("target", target.to_owned()),
        ("message", message.to_owned()),
    ]
    .into_iter()
    .enumerate()
    {
        object.shift_insert(at, name.to_owned(), Value::from(value));
    }
    Value::Object(object)
}

fn now() -> String {
    rfc3339::format(clock::wall())
}

/// The message and the fields of an event.
#[derive(Default)]
struct EventFields {
    message: String,
    /// The module of a line that came through `log`: the event itself is the bridge's.
    target: Option<String>,
    fields: Vec<(&'static str, String)>,
}

impl EventFields {
    fn put(&mut self, field: &Field, value: String) {
        match field.name() {
            "message" => self.message = value,
            "log.target" => self.target = Some(value),
            "log.module_path" | "log.file" | "log.line" => {}
            name => self.fields.push((name, value)),
        }
    }
}

impl Visit for EventFields {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, value.to_owned());
    }

    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.put(field, format!("{value:?}"));
    }
}
