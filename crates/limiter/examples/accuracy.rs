//! Measures how far the approximations are off: every decision beside that of an exact log, on traffic of many kinds.
//!
//! Run with `cargo run --release -p sluicegate-limiter --example accuracy [--write] [LOG]`. LOG is an access log in the
//! Apache combined format; without one, a public sample of 10,000 requests is used that lies beside the study. `--write`
//! also puts tables and pictures into `study/`. Everything is the same on every run.
//!
//! # What is measured
//! The exact log and the algorithm see the same requests, each with its own history. *Differ*: the share of requests of which
//! one is admitted and the other refused; where the algorithm refuses it is a false refusal, where it admits a false
//! admission. *Refused with room* and *admitted without room* judge by the algorithm's own history instead: whether it had
//! admitted less than the count in the period before. *Error of the rate*: nobody is refused, and after each request the
//! count that the algorithm believes is compared with the true one of the period that ends there; the mean of
//! |believed − true| / true. *Most in any period*: the most admissions in any span of one period that ends with an admission
//! and excludes its beginning.

mod study;

use std::collections::HashMap;
use std::error::Error;
use std::fmt::Write;
use std::fs;
use std::time::Duration;

use plotters::prelude::*;
use sluicegate_limiter::{Cost, MAX_COUNT, Period, Rate, decide};

use study::contender::{Contender, Fate, Judge, ask};
use study::document::{Picture, Table, Target, percent, publish};
use study::picture::{Area, Curve, FONT, GREY, Level, Look, Panel, RED, curves, picture};
use study::traffic::{Size, Traffic, Trail};

/// Requests of each generated traffic.
const SIZE: Size = Size(1_000_000);
/// What Cloudflare published in 2017 about the same approximation: shares of decisions and of the rate.
const CLOUDFLARE: [f64; 2] = [0.000_03, 0.06];

const APPROXIMATIONS: [Contender; 4] = [
    Contender::SlidingWindow,
    Contender::FixedWindow,
    Contender::FromFirstRequest,
    Contender::Gcra,
];
/// Pairs that decide alike, which the study makes sure of and the tables rely on.
const ALIKE: [[Contender; 2]; 2] = [
    [Contender::Gcra, Contender::TokenBucket],
    [Contender::FixedWindow, Contender::IntervalBucket],
];

/// Traffic and what the documents call it.
struct Situation {
    name: String,
    traffic: Traffic,
}

/// An algorithm beside the exact log.
#[derive(Clone, Copy, Debug)]
struct Measured {
    requests: usize,
    refused: usize,
    false_refusals: usize,
    false_admissions: usize,
    /// Refused with room in its own last period, and admitted without.
    harsh: usize,
    lenient: usize,
    /// Most admissions in any period.
    most: u32,
}

impl Measured {
    fn share(&self, count: usize) -> f64 {
        count as f64 / self.requests as f64
    }

    fn differ(&self) -> f64 {
        self.share(self.false_refusals + self.false_admissions)
    }
}

fn main() -> Result<(), Box<dyn Error>> {
    let (mut target, mut log) = (Target::Print, None);
    for argument in std::env::args().skip(1) {
        match argument.as_str() {
            "--write" => target = Target::Write,
            _ => log = Some(argument),
        }
    }
    let rate = per_10s(10)?;
    let situations = situations(rate, log.as_deref())?;
    let (tables, most) = tables(rate, &situations)?;
    let text = format!(
        "The rate is `10 per 10s` for each client; {} requests of each generated traffic.\n\n{tables}\n\
         ![Over the load: what each algorithm admits without room, and by count how many decisions of the sliding window differ \
         from an exact log's](limiter/accuracy-decisions.svg)\n\n\
         ![Error of the believed rate over the requests in a period, and the most that is admitted in any \
         period](limiter/accuracy-bounds.svg)\n\n",
        SIZE.0
    );
    let pictures = [
        Picture {
            name: "accuracy-decisions.svg",
            svg: decisions()?,
        },
        Picture {
            name: "accuracy-bounds.svg",
            svg: bounds(rate, &most)?,
        },
    ];
    publish(target, "accuracy", &text, &pictures)
}

fn per_10s(count: u32) -> Result<Rate, Box<dyn Error>> {
    Ok(Rate::new(count, Period::from_secs(10)?)?)
}

fn situations(rate: Rate, log: Option<&str>) -> Result<Vec<Situation>, Box<dyn Error>> {
    let mut situations = Vec::new();
    for load in [0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 3.0] {
        situations.push(Situation {
            name: format!("Poisson, {load} × the rate"),
            traffic: Traffic::poisson(rate, load, SIZE),
        });
    }
    situations.push(Situation {
        name: "on and off, 0.8 × the rate".to_owned(),
        traffic: Traffic::bursty(rate, SIZE),
    });
    situations.push(Situation {
        name: "timed at edges".to_owned(),
        traffic: Traffic::edges(rate, SIZE),
    });
    let traffic = match log {
        Some(path) => Traffic::from_access_log(&fs::read_to_string(path)?)?,
        None => Traffic::from_short_log(include_str!("study/access-log.txt"))?,
    };
    let (requests, clients) = (traffic.requests().len(), traffic.clients());
    let name = format!("access log, {requests} requests of {clients} clients");
    situations.push(Situation { name, traffic });
    Ok(situations)
}

/// What each algorithm admits at most in any period, by situation.
type Most<'a> = Vec<(&'a str, Vec<u32>)>;

fn tables(rate: Rate, situations: &[Situation]) -> Result<(String, Most<'_>), Box<dyn Error>> {
    let mut sliding = Table::with_columns(&[
        "traffic",
        "the log refuses",
        "`sliding-window` refuses",
        "decisions that differ",
        "false refusals",
        "false admissions",
        "refused with room",
        "admitted without room",
        "error of the rate",
    ]);
    let columns = |first: &str| -> Vec<String> {
        let names = APPROXIMATIONS
            .iter()
            .map(|contender| contender.name().to_owned());
        std::iter::once(first.to_owned()).chain(names).collect()
    };
    let mut others = Table::with_columns(&columns("false refusals + false admissions"));
    let mut lenient = Table::with_columns(&columns("admitted without room"));
    let mut spans = Table::with_columns(&columns("most in any 10 s"));
    let mut most = Most::new();
    for Situation { name, traffic } in situations {
        let (log, truth) = judge(traffic, rate, Contender::ExactLog, &[])?;
        assert!(log.most <= rate.count(), "the truth is true");
        let mut measured = Vec::new();
        for contender in APPROXIMATIONS {
            measured.push(judge(traffic, rate, contender, &truth)?.0);
        }
        for [one, other] in ALIKE {
            let (_, fates) = judge(traffic, rate, one, &[])?;
            let (_, others) = judge(traffic, rate, other, &[])?;
            assert_eq!(fates, others, "{one:?} decides as {other:?}");
        }
        let window = &measured[0];
        sliding.row(&[
            name.clone(),
            percent(log.share(log.refused)),
            percent(window.share(window.refused)),
            percent(window.differ()),
            percent(window.share(window.false_refusals)),
            percent(window.share(window.false_admissions)),
            percent(window.share(window.harsh)),
            percent(window.share(window.lenient)),
            percent(rate_error(
                traffic,
                rate.period(),
                Contender::SlidingWindow,
            )?),
        ]);
        let row = |cell: fn(&Measured) -> String| -> Vec<String> {
            let cells = measured.iter().map(cell);
            std::iter::once(name.clone()).chain(cells).collect()
        };
        others.row(&row(|one| {
            let [refusals, admissions] =
                [one.false_refusals, one.false_admissions].map(|count| percent(one.share(count)));
            format!("{refusals} + {admissions}")
        }));
        lenient.row(&row(|one| percent(one.share(one.lenient))));
        spans.row(&row(|one| one.most.to_string()));
        most.push((name.as_str(), measured.iter().map(|one| one.most).collect()));
    }
    let mut text = String::new();
    for table in [sliding, others, lenient, spans] {
        writeln!(text, "{}", table.text())?;
    }
    text.pop();
    Ok((text, most))
}

/// What a contender decides, beside the decisions of the exact log where there are any.
fn judge(
    traffic: &Traffic,
    rate: Rate,
    contender: Contender,
    truth: &[Fate],
) -> Result<(Measured, Vec<Fate>), Box<dyn Error>> {
    let span = Duration::from_secs(u64::from(rate.period().as_secs()));
    let mut judge = contender.ready(rate, traffic.clients())?;
    let mut admitted: HashMap<u32, Trail> = HashMap::new();
    let mut measured = Measured {
        requests: traffic.requests().len(),
        refused: 0,
        false_refusals: 0,
        false_admissions: 0,
        harsh: 0,
        lenient: 0,
        most: 0,
    };
    let mut fates = Vec::with_capacity(measured.requests);
    for (index, request) in traffic.requests().iter().enumerate() {
        let fate = judge.decide(request);
        let true_fate = truth.get(index).copied().unwrap_or(fate);
        let trail = admitted.entry(request.client).or_default();
        let has_room = trail.within(span, request.at) < rate.count();
        match fate {
            Fate::Admitted(_) => {
                measured.lenient += usize::from(!has_room);
                trail.push(request.at);
                measured.most = measured.most.max(trail.within(span, request.at));
                measured.false_admissions += usize::from(true_fate == Fate::Refused);
            }
            Fate::Refused => {
                measured.refused += 1;
                measured.harsh += usize::from(has_room);
                measured.false_refusals += usize::from(true_fate != Fate::Refused);
            }
        }
        fates.push(fate);
    }
    Ok((measured, fates))
}

/// The mean error of the rate that a window algorithm believes in when it refuses nobody.
fn rate_error(
    traffic: &Traffic,
    period: Period,
    contender: Contender,
) -> Result<f64, Box<dyn Error>> {
    let counts = traffic.true_counts(period);
    let busiest = counts.iter().copied().max().unwrap_or(1);
    // Parts of a request, so that rounding to whole units does not matter, and no two windows refuse.
    let part = (MAX_COUNT / (2 * busiest + 2)).min(10_000);
    let cost = Cost::new(part).ok_or("more requests in a period than a count can hold")?;
    let Judge::Limit(limit) = contender.ready(Rate::new(MAX_COUNT, period)?, traffic.clients())?
    else {
        return Ok(0.0);
    };
    let mut sum = 0.0;
    for (request, count) in traffic.requests().iter().zip(&counts) {
        let verdict = decide(&[ask(&limit, request.client, cost)], request.at);
        let left = verdict.decisions()[0].statuses()[0].remaining;
        let believed = f64::from(MAX_COUNT - left) / f64::from(part);
        sum += (believed - f64::from(*count)).abs() / f64::from(*count);
    }
    Ok(sum / counts.len() as f64)
}

/// Over the load: what is admitted without room, and decisions that differ.
fn decisions() -> Result<String, Box<dyn Error>> {
    let loads = [
        0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.5, 2.0, 3.0, 5.0, 10.0,
    ];
    let contenders = [
        Contender::SlidingWindow,
        Contender::FixedWindow,
        Contender::Gcra,
    ];
    let counts = [5, 20, 100, 500];
    let mut by_algorithm = contenders.map(|_| Vec::new());
    let mut by_count = counts.map(|_| Vec::new());
    for load in loads {
        let rate = per_10s(10)?;
        let traffic = Traffic::poisson(rate, load, SIZE);
        let (_, truth) = judge(&traffic, rate, Contender::ExactLog, &[])?;
        for (contender, points) in contenders.into_iter().zip(&mut by_algorithm) {
            let (measured, _) = judge(&traffic, rate, contender, &truth)?;
            points.push((load, 100.0 * measured.share(measured.lenient)));
        }
        for (count, points) in counts.into_iter().zip(&mut by_count) {
            let rate = per_10s(count)?;
            let traffic = Traffic::poisson(rate, load, SIZE);
            let (_, truth) = judge(&traffic, rate, Contender::ExactLog, &[])?;
            let (measured, _) = judge(&traffic, rate, Contender::SlidingWindow, &truth)?;
            points.push((load, 100.0 * measured.differ()));
        }
    }
    let panel = |title, up, curves| Panel {
        title,
        across: "requests asked for, as a multiple of the rate",
        up,
        range: [0.09..11.0, 0.0003..100.0],
        level: Level {
            label: "Cloudflare: 0.003 %",
            at: 100.0 * CLOUDFLARE[0],
        },
        curves,
        legend: SeriesLabelPosition::LowerRight,
    };
    let names = contenders.map(|contender| contender.name().to_owned());
    let left = panel(
        "Poisson traffic, 10 per 10s, by algorithm",
        "admitted without room, %",
        looking(names, by_algorithm),
    );
    let names = counts.map(|count| format!("{count} per 10s"));
    let right = panel(
        "sliding-window, by count",
        "decisions that differ, %",
        looking(names, by_count),
    );
    picture((1040, 420), |root| {
        let areas = root.split_evenly((1, 2));
        curves(&areas[0], &left)?;
        curves(&areas[1], &right)
    })
}

fn looking<const N: usize>(labels: [String; N], points: [Vec<(f64, f64)>; N]) -> Vec<Curve> {
    let curves = labels.into_iter().zip(points).zip(Look::ALL);
    curves
        .map(|((label, points), look)| Curve {
            label,
            look,
            points,
        })
        .collect()
}

/// How far the believed rate is off, and what is admitted at most.
fn bounds(rate: Rate, most: &Most<'_>) -> Result<String, Box<dyn Error>> {
    let contenders = [Contender::SlidingWindow, Contender::FixedWindow];
    let mut errors = contenders.map(|_| Vec::new());
    for requests in [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000] {
        let rate = per_10s(requests)?;
        let traffic = Traffic::poisson(rate, 1.0, SIZE);
        for (contender, points) in contenders.into_iter().zip(&mut errors) {
            let error = rate_error(&traffic, rate.period(), contender)?;
            points.push((f64::from(requests), 100.0 * error));
        }
    }
    let panel = Panel {
        title: "Poisson traffic, nobody refused",
        across: "mean requests of a client in a period",
        up: "mean error of the believed rate, %",
        range: [1.0..1000.0, 0.5..100.0],
        level: Level {
            label: "Cloudflare: 6 %",
            at: 100.0 * CLOUDFLARE[1],
        },
        curves: looking(
            contenders.map(|contender| contender.name().to_owned()),
            errors,
        ),
        legend: SeriesLabelPosition::LowerLeft,
    };
    picture((1040, 420), |root| {
        let areas = root.split_evenly((1, 2));
        curves(&areas[0], &panel)?;
        bars(&areas[1], rate, most)
    })
}

/// The most in any period: the situations of the table in which it can be much, a bar an algorithm.
fn bars(area: &Area<'_>, rate: Rate, most: &Most<'_>) -> Result<(), Box<dyn Error>> {
    const SHOWN: [(&str, &str); 4] = [
        ("Poisson, 1 ", "Poisson"),
        ("on and off", "on and off"),
        ("timed", "timed at edges"),
        ("access log", "access log"),
    ];
    let fills = [
        RGBColor(0, 0, 0),
        RGBColor(213, 94, 0),
        RGBColor(130, 190, 230),
        RGBColor(225, 225, 225),
    ];
    let count = f64::from(rate.count());
    let wide = SHOWN.len() as f64;
    let mut chart = ChartBuilder::on(area)
        .caption("most admitted in any 10 s at 10 per 10s", (FONT, 15))
        .margin(10)
        .x_label_area_size(42)
        .y_label_area_size(50)
        .build_cartesian_2d(0.0..wide, 0.0..2.9 * count)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_labels(0)
        .y_labels(7)
        .y_desc("requests in 10 s")
        .y_label_formatter(&|y| format!("{y:.0}"))
        .label_style((FONT, 12))
        .axis_desc_style((FONT, 13))
        .draw()?;
    for (place, contender) in APPROXIMATIONS.iter().enumerate() {
        let fill = fills[place];
        let mut tops = Vec::new();
        for (group, (start, _)) in SHOWN.iter().enumerate() {
            let found = most.iter().find(|(name, _)| name.starts_with(start));
            let Some((_, all)) = found else { continue };
            let left = group as f64 + 0.12 + 0.19 * place as f64;
            tops.push((left, f64::from(all[place])));
        }
        chart
            .draw_series(tops.iter().map(|(left, top)| {
                Rectangle::new([(*left, 0.0), (left + 0.17, *top)], fill.filled())
            }))?
            .label(contender.name())
            .legend(move |(x, y)| Rectangle::new([(x + 6, y - 5), (x + 18, y + 5)], fill.filled()));
        chart.draw_series(tops.iter().map(|(left, top)| {
            Rectangle::new([(*left, 0.0), (left + 0.17, *top)], GREY.stroke_width(1))
        }))?;
        let above = count * 0.1;
        chart.draw_series(tops.iter().map(|(left, top)| {
            Text::new(format!("{top}"), (left + 0.02, top + above), (FONT, 12))
        }))?;
    }
    chart
        .draw_series(std::iter::once(PathElement::new(
            [(0.0, count), (wide, count)],
            RED.stroke_width(2),
        )))?
        .label("the count")
        .legend(|(x, y)| PathElement::new([(x, y), (x + 22, y)], RED.stroke_width(2)));
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperLeft)
        .margin(8)
        .legend_area_size(26)
        .background_style(WHITE.filled())
        .border_style(GREY)
        .label_font((FONT, 12))
        .draw()?;
    for (group, (_, label)) in SHOWN.iter().enumerate() {
        let (x, y) = chart.backend_coord(&(group as f64 + 0.5, 0.0));
        let style =
            (FONT, 12)
                .into_font()
                .color(&BLACK)
                .pos(plotters::style::text_anchor::Pos::new(
                    plotters::style::text_anchor::HPos::Center,
                    plotters::style::text_anchor::VPos::Top,
                ));
        let (left, top) = area.get_pixel_range();
        area.draw(&Text::new(
            (*label).to_owned(),
            (x - left.start, y + 8 - top.start),
            style,
        ))?;
    }
    Ok(())
}
