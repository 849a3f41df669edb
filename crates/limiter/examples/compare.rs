//! Shows what each algorithm admits over time: the same four traffics for all of them, at one rate.
//!
//! Run with `cargo run --release -p sluicegate-limiter --example compare [--write]`. `--write` also puts the table and the
//! pictures into `study/`. Everything is the same on every run.

mod study;

use std::error::Error;
use std::time::Duration;

use plotters::prelude::*;
use sluicegate_limiter::{Period, Rate, Timestamp};

use study::contender::{Contender, Fate};
use study::document::{Picture, Table, Target, publish};
use study::picture::{Area, FONT, GREY, Look, PALE, RED, picture};
use study::random::Random;
use study::traffic::{Request, START, Traffic, Trail, moment};

/// Seconds that a picture shows, six windows.
const SHOWN: f64 = 60.0;
/// The highest number of requests in a period that a picture shows.
const HIGHEST: f64 = 36.0;

const CONTENDERS: [Contender; 7] = [
    Contender::ExactLog,
    Contender::SlidingWindow,
    Contender::FixedWindow,
    Contender::FromFirstRequest,
    Contender::Gcra,
    Contender::SmallBurst,
    Contender::LeakyBucket,
];

/// The name of the cell that shows the traffic itself.
const ASKED: &str = "asked for";

/// The one client of most scenes, and the patient one where there are two.
const PATIENT: u32 = 0;
const GREEDY: u32 = 1;

/// A traffic under one key, whoever asks.
struct Scene {
    file: &'static str,
    /// Head of its column.
    column: &'static str,
    title: &'static str,
    traffic: Traffic,
}

/// What left, in order of leaving.
struct Admitted(Vec<Request>);

fn main() -> Result<(), Box<dyn Error>> {
    let target = match std::env::args().nth(1).as_deref() {
        Some("--write") => Target::Write,
        _ => Target::Print,
    };
    let rate = Rate::new(10, Period::from_secs(10)?)?;
    let scenes = scenes();
    let columns = scenes.iter().map(|scene| scene.column);
    let columns: Vec<&str> = std::iter::once("algorithm").chain(columns).collect();
    let mut table = Table::with_columns(&columns);
    let mut text = String::new();
    for contender in CONTENDERS {
        let mut row = vec![contender.name().to_owned()];
        for scene in &scenes {
            row.push(cell(scene, rate, contender)?);
        }
        table.row(&row);
    }
    text += "`10 per 10s` with a burst or queue of 10; a cell says how many requests pass, and the most in any 10 s.\n\n";
    text += table.text();
    let mut pictures = Vec::new();
    for scene in &scenes {
        let svg = draw(scene, rate)?;
        text += &format!(
            "\n![{}]({})\n",
            scene.title,
            ["limiter/", scene.file].concat()
        );
        pictures.push(Picture {
            name: scene.file,
            svg,
        });
    }
    text += "\n";
    publish(target, "compare", &text, &pictures)
}

fn scenes() -> [Scene; 4] {
    let at = |client, seconds| Request {
        client,
        at: moment(seconds),
    };
    let every = |gap: f64, from: f64, to: f64| {
        let count = ((to - from) / gap).round() as u32;
        (0..count).map(move |step| at(PATIENT, from + gap * f64::from(step)))
    };
    let poisson = |client, seed, gap: f64, from: f64, to: f64| {
        let mut random = Random::seeded(seed);
        let moments =
            std::iter::successors(Some(from), move |at| Some(at + random.exponential(gap)));
        moments
            .take_while(move |seconds| *seconds < to)
            .map(move |seconds| at(client, seconds))
    };
    let steady = every(0.5, 0.25, SHOWN).collect();
    let burst = every(2.0, 1.0, 19.0)
        .chain(every(0.02, 36.0, 36.5))
        .chain(every(1.0, 38.0, SHOWN));
    let edge = every(0.03, 19.55, 20.0)
        .chain(every(0.03, 20.0, 20.45))
        .chain(every(2.0, 31.0, SHOWN));
    let shared = poisson(PATIENT, 3, 2.0, 0.5, SHOWN).chain(poisson(GREEDY, 4, 0.45, 12.0, 42.0));
    [
        Scene {
            file: "compare-steady.svg",
            column: "steady",
            title: "steady: 2 a second, twice the rate",
            traffic: Traffic::new(steady),
        },
        Scene {
            file: "compare-burst.svg",
            column: "silence, then a burst",
            title: "silence, then a burst: 25 at once at 36 s, 1 a second after",
            traffic: Traffic::new(burst.collect()),
        },
        Scene {
            file: "compare-edge.svg",
            column: "burst at a window's edge",
            title: "burst at a window's edge: 15 just before 20 s, 15 just after",
            traffic: Traffic::new(edge.collect()),
        },
        Scene {
            file: "compare-shared.svg",
            column: "two clients, one key",
            title: "two clients under one key: a patient one all the time, a greedy one from 12 s to 42 s",
            traffic: Traffic::new(shared.collect()),
        },
    ]
}

impl Scene {
    fn is_shared(&self) -> bool {
        self.traffic.clients() > 1
    }

    fn asked_by(&self, client: u32) -> usize {
        let requests = self.traffic.requests().iter();
        requests.filter(|request| request.client == client).count()
    }

    fn admitted(&self, rate: Rate, contender: Contender) -> Result<Admitted, Box<dyn Error>> {
        let mut judge = contender.ready(rate, 1)?;
        let mut left = Vec::new();
        for request in self.traffic.requests() {
            let counted = Request {
                client: PATIENT,
                ..*request
            };
            if let Fate::Admitted(delay) = judge.decide(&counted) {
                left.push(Request {
                    at: request.at.saturating_add(delay),
                    ..*request
                });
            }
        }
        Ok(Admitted(left))
    }
}

impl Admitted {
    fn of(&self, client: u32) -> Vec<Timestamp> {
        let mine = self.0.iter().filter(|request| request.client == client);
        mine.map(|request| request.at).collect()
    }

    fn moments(&self) -> Vec<Timestamp> {
        self.0.iter().map(|request| request.at).collect()
    }
}

fn span(rate: Rate) -> Duration {
    Duration::from_secs(u64::from(rate.period().as_secs()))
}

/// How many pass, and the most in any period.
fn cell(scene: &Scene, rate: Rate, contender: Contender) -> Result<String, Box<dyn Error>> {
    let admitted = scene.admitted(rate, contender)?;
    let mut trail = Trail::default();
    let mut most = 0;
    for at in admitted.moments() {
        trail.push(at);
        most = most.max(trail.within(span(rate), at));
    }
    let of = |client| {
        format!(
            "{} of {}",
            admitted.of(client).len(),
            scene.asked_by(client)
        )
    };
    Ok(if scene.is_shared() {
        format!("patient {}, greedy {}; {most}", of(PATIENT), of(GREEDY))
    } else {
        format!("{}; {most}", of(PATIENT))
    })
}

/// A cell an algorithm, and one for what is asked.
fn draw(scene: &Scene, rate: Rate) -> Result<String, Box<dyn Error>> {
    let asked = Admitted(scene.traffic.requests().to_vec());
    let mut cells = vec![(ASKED, asked)];
    for contender in CONTENDERS {
        cells.push((contender.name(), scene.admitted(rate, contender)?));
    }
    picture((1040, 470), |root| {
        let title = format!("10 per 10s · {}", scene.title);
        let root = root.titled(&title, (FONT, 16))?;
        let (key, below) = root.split_vertically(26);
        legend(&key, scene)?;
        for (area, (name, admitted)) in below.split_evenly((2, 4)).iter().zip(&cells) {
            draw_cell(area, name, scene, admitted, rate)?;
        }
        Ok(())
    })
}

fn legend(area: &Area<'_>, scene: &Scene) -> Result<(), Box<dyn Error>> {
    let mut entries = vec![
        ("asked for in the last 10 s", PALE.stroke_width(5)),
        ("admitted in the last 10 s", BLACK.stroke_width(2)),
    ];
    if scene.is_shared() {
        entries.push((
            "… the patient one's",
            Look::Triangle.colour().stroke_width(2),
        ));
    }
    entries.push(("the count, 10", RED.stroke_width(1)));
    entries.push(("below: each one that passes", GREY.stroke_width(1)));
    for (place, (text, style)) in entries.into_iter().enumerate() {
        let left = 20 + 205 * place as i32;
        area.draw(&PathElement::new([(left, 14), (left + 22, 14)], style))?;
        area.draw(&Text::new(text, (left + 28, 8), (FONT, 12)))?;
    }
    Ok(())
}

fn draw_cell(
    area: &Area<'_>,
    name: &str,
    scene: &Scene,
    admitted: &Admitted,
    rate: Rate,
) -> Result<(), Box<dyn Error>> {
    let mut chart = ChartBuilder::on(area)
        .caption(name, (FONT, 14))
        .margin(4)
        .margin_right(8)
        .x_label_area_size(36)
        .y_label_area_size(46)
        .build_cartesian_2d(0.0..SHOWN, -4.0..HIGHEST)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .x_labels(7)
        .y_labels(5)
        .x_desc("seconds")
        .y_desc("in 10 s")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{y:.0}"))
        .label_style((FONT, 11))
        .axis_desc_style((FONT, 11))
        .draw()?;
    let count = f64::from(rate.count());
    let asked: Vec<Timestamp> = scene
        .traffic
        .requests()
        .iter()
        .map(|request| request.at)
        .collect();
    let mut line = |points: Vec<(f64, f64)>, style: ShapeStyle| {
        chart
            .draw_series([PathElement::new(points, style)])
            .map(|_| ())
    };
    line(trailing(&asked, rate), PALE.stroke_width(4))?;
    line(vec![(0.0, count), (SHOWN, count)], RED.stroke_width(1))?;
    if scene.is_shared() {
        line(
            trailing(&admitted.of(PATIENT), rate),
            Look::Triangle.colour().stroke_width(2),
        )?;
    }
    if name != ASKED {
        line(trailing(&admitted.moments(), rate), BLACK.stroke_width(2))?;
    }
    // One path for all marks: it goes along the foot and up at each of them.
    let foot = -3.6;
    let comb = admitted
        .moments()
        .into_iter()
        .map(seconds)
        .filter(|at| *at < SHOWN);
    let comb = comb.flat_map(|at| [(at, foot), (at, -0.8), (at, foot)]);
    let ends = [(0.0, foot)].into_iter().chain(comb).chain([(SHOWN, foot)]);
    chart.draw_series([PathElement::new(
        ends.collect::<Vec<_>>(),
        GREY.stroke_width(1),
    )])?;
    Ok(())
}

fn seconds(at: Timestamp) -> f64 {
    at.saturating_since(START).as_secs_f64()
}

/// How many of these lie in the period that ends at a moment, as a stair over the moments.
fn trailing(moments: &[Timestamp], rate: Rate) -> Vec<(f64, f64)> {
    let ups = moments.iter().map(|at| (seconds(*at), 1.0));
    let downs = moments
        .iter()
        .map(|at| (seconds(at.saturating_add(span(rate))), -1.0));
    let mut steps: Vec<(f64, f64)> = ups.chain(downs).collect();
    steps.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut level, mut stair) = (0.0, vec![(0.0, 0.0)]);
    // What comes in just as another falls out is no step.
    for steps in steps.chunk_by(|a, b| a.0 == b.0) {
        let (at, height) = (steps[0].0, steps.iter().map(|step| step.1).sum::<f64>());
        if height != 0.0 && at < SHOWN {
            stair.push((at, level));
            level += height;
            stair.push((at, level));
        }
    }
    stair.push((SHOWN, level));
    stair
}
