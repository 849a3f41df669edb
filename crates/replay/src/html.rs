//! Writes the report of a replay as one page of HTML, which needs no other file, no host and no script.
//!
//! Texts of the log are escaped, and the page forbids itself whatever it does not have: a log may hold what a stranger wrote.

use std::fmt::{self, Display, Formatter};

use sluicegate_decide::rfc3339;
use sluicegate_limiter::Timestamp;

use super::compare::ConfigComparison;
use super::report::{KeyReport, LimitReport, ReplayReport};
use super::text::{WAS, share};
use super::timeline::EventTimeline;
use sluicegate_explain::{count, counted, counted_with, span};

const STYLE: &str = include_str!("report.css");

/// Width and height of the area of a chart.
const CHART: (f64, f64) = (960.0, 160.0);

/// The page of a report.
pub struct HtmlReport<'a>(pub &'a ReplayReport);

impl Display for HtmlReport<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let report = self.0;
        write!(
            f,
            "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
             <title>sluicegate replay</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n<h1>Replay</h1>\n"
        )?;
        write_summary(f, report)?;
        let mut limits: Vec<_> = report
            .limits
            .iter()
            .filter(|(_, limit)| limit.requests > 0)
            .collect();
        limits.sort_by_key(|(_, limit)| u64::MAX - limit.rejected);
        for (name, limit) in limits {
            write_limit(f, name, limit)?;
        }
        if let Some(against) = &report.against {
            write_comparison(f, against)?;
        }
        if !report.not_judged.is_empty() {
            f.write_str("<section>\n<h2>Not judged</h2>\n<dl>\n")?;
            for limit in &report.not_judged {
                writeln!(
                    f,
                    "<dt>{}</dt><dd>{}</dd>",
                    Escaped(&limit.limit),
                    Escaped(&limit.reason)
                )?;
            }
            f.write_str("</dl>\n</section>\n")?;
        }
        write_list(f, "Notes", &report.notes)?;
        write_list(f, "Misread logs", &report.log.misread)?;
        write_list(f, "Broken lines", &report.log.broken_lines)?;
        write_list(f, "Misdated lines", &report.log.misdated_lines)?;
        f.write_str("</main>\n</body>\n</html>\n")
    }
}

fn write_summary(f: &mut Formatter<'_>, report: &ReplayReport) -> fmt::Result {
    let log = &report.log;
    let outcomes = &report.outcomes;
    f.write_str("<section>\n")?;
    if let (Some(first), Some(last)) = (&log.first, &log.last) {
        writeln!(
            f,
            "<p>{}, {}, {} to {}. Times count {}.</p>",
            counted(log.lines, "line"),
            Escaped(&log.formats.join(", ")),
            first,
            last,
            match log.times {
                "over-second" => "spread over each second",
                _ => "as logged",
            }
        )?;
    }
    f.write_str("<div class=\"tiles\">\n")?;
    let tiles = [
        (outcomes.requests, "requests", ""),
        (outcomes.admitted, "admitted", ""),
        (outcomes.rejected, "rejected", "rejected"),
        (outcomes.blocked, "blocked", ""),
        (outcomes.no_route, "without a route", ""),
        (outcomes.malformed, "malformed", ""),
        (outcomes.not_replayed, "not replayed", ""),
        (log.broken, "broken lines", ""),
        (log.skipped.total(), "lines without a request", ""),
        (log.misdated, "misdated lines", ""),
        (log.late, "too late", ""),
    ];
    for (index, (number, text, class)) in tiles.into_iter().enumerate() {
        // The first three are shown always.
        if number > 0 || index < 3 {
            writeln!(
                f,
                "<div class=\"tile {class}\"><b>{}</b> {text}<small>{}</small></div>",
                count(number),
                if index > 0 && index < 7 {
                    share(number, outcomes.requests)
                } else {
                    String::new()
                }
            )?;
        }
    }
    f.write_str("</div>\n</section>\n")
}

fn write_limit(f: &mut Formatter<'_>, name: &str, limit: &LimitReport) -> fmt::Result {
    writeln!(
        f,
        "<section>\n<h2>{}</h2>\n<p>{} by <code>{}</code>, {}, {}.</p>",
        Escaped(name),
        Escaped(&limit.rates.join(" and ")),
        Escaped(&limit.key),
        limit.algorithm,
        limit.action
    )?;
    writeln!(
        f,
        "<p>{}: {} admitted, <b class=\"rejected\">{} rejected</b>{}. {}: <b class=\"rejected\">{} rejected at least \
         once</b>{}.</p>",
        counted(limit.requests, "request"),
        count(limit.admitted),
        count(limit.rejected),
        share(limit.rejected, limit.requests),
        counted(limit.keys, "key"),
        count(limit.keys_rejected),
        share(limit.keys_rejected, limit.keys)
    )?;
    write_chart(f, &limit.timeline)?;
    if limit.rejected > 0 {
        if let Some(first) = &limit.first_rejection {
            writeln!(f, "<p>First rejection: {first}.</p>")?;
        }
        f.write_str("<h3>Worst keys</h3>\n")?;
        write_keys(f, &limit.worst_keys)?;
        let suspects = &limit.suspects;
        writeln!(
            f,
            "<h3>Possible false positives</h3>\n<p>{} rejected once or twice; {} rejected although the request had \
             been answered with 2xx.</p>",
            counted_with(suspects.rejected_rarely, "key", WAS),
            counted_with(suspects.rejected_answered, "key", WAS)
        )?;
        write_keys(f, &suspects.keys)?;
    }
    f.write_str("</section>\n")
}

fn write_keys(f: &mut Formatter<'_>, keys: &[KeyReport]) -> fmt::Result {
    if keys.is_empty() {
        return Ok(());
    }
    f.write_str(
        "<table>\n<thead><tr><th scope=\"col\">key</th><th scope=\"col\">requests</th><th scope=\"col\">rejected</th>\
         <th scope=\"col\">of those 2xx</th></tr></thead>\n<tbody>\n",
    )?;
    for key in keys {
        writeln!(
            f,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
            Escaped(&key.key),
            count(key.requests.into()),
            count(key.rejected.into()),
            count(key.rejected_answered.into())
        )?;
    }
    f.write_str("</tbody>\n</table>\n")
}

/// Writes requests and rejections over time as bars.
fn write_chart(f: &mut Formatter<'_>, timeline: &EventTimeline) -> fmt::Result {
    let (width, height) = CHART;
    let highest = timeline.requests.iter().copied().max().unwrap_or(0).max(1);
    let bar = width / timeline.requests.len().max(1) as f64;
    let at = |interval: usize| {
        let second = timeline.start + timeline.interval * interval as u64;
        rfc3339::format(Timestamp::from_secs(second))
    };
    let end = at(timeline.requests.len());
    writeln!(
        f,
        "<figure>\n<svg viewBox=\"0 0 {width} {height}\" role=\"img\" aria-label=\"Requests and rejections over time; the highest bar has \
         {highest} requests\">"
    )?;
    let bars = timeline.requests.iter().zip(&timeline.rejected).enumerate();
    for (interval, (requests, rejected)) in bars.filter(|(_, (requests, _))| **requests > 0) {
        let left = bar * interval as f64;
        let scaled = |count: u32| f64::from(count) * (height - 4.0) / f64::from(highest);
        write!(
            f,
            "<g><title>{}: {requests} requests, {rejected} rejected</title>",
            at(interval)
        )?;
        for (class, count) in [("all", *requests), ("bad", *rejected)] {
            if count > 0 {
                // A single rejection among thousands must be seen.
                let tall = scaled(count).max(2.0);
                let wide = (bar - 0.5).max(1.0);
                let top = height - tall;
                write!(
                    f,
                    "<rect class=\"{class}\" x=\"{left:.1}\" y=\"{top:.1}\" width=\"{wide:.1}\" height=\"{tall:.1}\"/>"
                )?;
            }
        }
        f.write_str("</g>\n")?;
    }
    writeln!(
        f,
        "</svg>\n<figcaption><span>{}</span><span>a bar is {}, the highest has {} requests; <b class=\"rejected\">rejected</b></span>\
         <span>{end}</span></figcaption>\n</figure>",
        at(0),
        span(timeline.interval),
        count(highest.into())
    )
}

fn write_comparison(f: &mut Formatter<'_>, against: &ConfigComparison) -> fmt::Result {
    let changes = &against.changes;
    writeln!(
        f,
        "<section>\n<h2>Compared with {}</h2>\n<div class=\"tiles\">",
        Escaped(&against.config)
    )?;
    for (number, text) in [
        (changes.newly_rejected, "newly rejected"),
        (changes.newly_admitted, "newly admitted"),
        (changes.rejected_by_both, "rejected by both"),
        (changes.admitted_by_both, "admitted by both"),
    ] {
        let part = share(number, against.outcomes.requests);
        writeln!(
            f,
            "<div class=\"tile\"><b>{}</b> {text}<small>{part}</small></div>",
            count(number)
        )?;
    }
    f.write_str("</div>\n")?;
    for (name, difference) in &against.differences {
        writeln!(
            f,
            "<h3>{}</h3>\n<p>{} newly rejected, {} no longer, {} by both.</p>",
            Escaped(name),
            counted_with(difference.keys_newly_rejected, "key", ["is", "are"]),
            count(difference.keys_no_longer_rejected),
            count(difference.keys_rejected_by_both)
        )?;
        if difference.keys.is_empty() {
            continue;
        }
        f.write_str(
            "<table>\n<thead><tr><th scope=\"col\">key</th><th scope=\"col\">requests</th><th scope=\"col\">rejected before</th>\
             <th scope=\"col\">rejected now</th></tr></thead>\n<tbody>\n",
        )?;
        for key in &difference.keys {
            writeln!(
                f,
                "<tr><th scope=\"row\">{}</th><td>{}</td><td>{}</td><td>{}</td></tr>",
                Escaped(&key.key),
                count(key.requests.into()),
                count(key.rejected_before.into()),
                count(key.rejected_now.into())
            )?;
        }
        f.write_str("</tbody>\n</table>\n")?;
    }
    for (names, text) in [
        (&against.added, "New, or with another key"),
        (&against.removed, "Removed, or with another key"),
    ] {
        if !names.is_empty() {
            writeln!(f, "<p>{text}: {}</p>", Escaped(&names.join(", ")))?;
        }
    }
    f.write_str("</section>\n")
}

fn write_list(f: &mut Formatter<'_>, heading: &str, items: &[String]) -> fmt::Result {
    if items.is_empty() {
        return Ok(());
    }
    writeln!(f, "<section>\n<h2>{heading}</h2>\n<ul>")?;
    for item in items {
        writeln!(f, "<li>{}</li>", Escaped(item))?;
    }
    f.write_str("</ul>\n</section>\n")
}

/// A text in HTML.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        for c in self.0.chars() {
            match c {
                '&' => f.write_str("&amp;")?,
                '<' => f.write_str("&lt;")?,
                '>' => f.write_str("&gt;")?,
                '"' => f.write_str("&quot;")?,
                '\'' => f.write_str("&#39;")?,
                c if c.is_control() => f.write_str("\u{fffd}")?,
                c => write!(f, "{c}")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: a key that a client chose runs nothing in the reader's browser. Method: the characters of HTML and a control character.
    #[test]
    fn texts_of_the_log_are_escaped() {
        let escaped = Escaped("<script>\"a\" & 'b'\u{1b}</script>").to_string();
        assert_eq!(
            escaped,
            "&lt;script&gt;&quot;a&quot; &amp; &#39;b&#39;\u{fffd}&lt;/script&gt;"
        );
    }
}
