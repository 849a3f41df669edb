//! Says who asks when: generated traffic, the same on every run, and traffic read from access logs.

use std::collections::HashMap;
use std::error::Error;
use std::time::Duration;

use sluicegate_limiter::{Period, Rate, Timestamp};

use super::random::Random;

/// A moment at which windows of every period begin that divides 10 hours.
pub(crate) const START: Timestamp = Timestamp::from_secs(1_800_000_000);

/// A request for one unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    pub(crate) client: u32,
    pub(crate) at: Timestamp,
}

/// Requests in the order in which they arrive.
#[derive(Clone, Debug)]
pub(crate) struct Traffic(Vec<Request>);

/// How many requests a generated traffic has, about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size(pub(crate) usize);

impl Traffic {
    /// Those of one moment stay in the order in which they are given.
    pub(crate) fn new(mut requests: Vec<Request>) -> Self {
        requests.sort_by_key(|request| request.at);
        Self(requests)
    }

    pub(crate) fn requests(&self) -> &[Request] {
        &self.0
    }

    pub(crate) fn clients(&self) -> u32 {
        self.0
            .iter()
            .map(|request| request.client + 1)
            .max()
            .unwrap_or(0)
    }

    /// Poisson traffic: independent clients, each asking `load` times what `rate` allows on average.
    pub(crate) fn poisson(rate: Rate, load: f64, size: Size) -> Self {
        // Long enough that the first windows of a client, which have nothing before them, weigh little.
        let each = (50 * rate.count() as usize).max(1_000);
        let mean = f64::from(rate.period().as_secs()) / (load * f64::from(rate.count()));
        let mut random = Random::seeded(1);
        let mut requests = Vec::with_capacity(size.0);
        for client in 0..size.0.div_ceil(each) as u32 {
            let mut at = random.unit() * f64::from(rate.period().as_secs());
            for _ in 0..each {
                at += random.exponential(mean);
                requests.push(Request {
                    client,
                    at: moment(at),
                });
            }
        }
        Self::new(requests)
    }

    /// On and off: half a period at four times the rate, two periods of silence, both exponential: four fifths of what
    /// `rate` allows on average.
    pub(crate) fn bursty(rate: Rate, size: Size) -> Self {
        let period = f64::from(rate.period().as_secs());
        let gap = period / (4.0 * f64::from(rate.count()));
        let mut random = Random::seeded(2);
        let mut requests = Vec::with_capacity(size.0);
        for client in 0..size.0.div_ceil(1_000) as u32 {
            let mut at = random.unit() * period;
            let mut left = 1_000;
            while left > 0 {
                at += random.exponential(2.0 * period);
                let mut next = at + random.exponential(gap);
                at += random.exponential(period / 2.0);
                while next < at && left > 0 {
                    requests.push(Request {
                        client,
                        at: moment(next),
                    });
                    left -= 1;
                    next += random.exponential(gap);
                }
            }
        }
        Self::new(requests)
    }

    /// Timed at the edges of windows: all of the count in the last millisecond of a window, then whatever fits all through
    /// the next, then silence, so that it can be done again.
    pub(crate) fn edges(rate: Rate, size: Size) -> Self {
        let period = f64::from(rate.period().as_secs());
        let (burst, tries) = (rate.count(), 10 * rate.count());
        let mut requests = Vec::with_capacity(size.0);
        for round in 0..size.0.div_ceil((burst + tries) as usize) {
            let edge = (3 * round + 1) as f64 * period;
            requests.extend((0..burst).map(|_| Request {
                client: 0,
                at: moment(edge - 0.001),
            }));
            requests.extend((0..tries).map(|step| Request {
                client: 0,
                at: moment(edge + period * f64::from(step) / f64::from(tries)),
            }));
        }
        Self::new(requests)
    }

    /// An access log in the Apache combined format: clients by address, seconds as logged.
    ///
    /// # Errors
    /// The first line that is none.
    pub(crate) fn from_access_log(text: &str) -> Result<Self, Box<dyn Error>> {
        let mut numbers = HashMap::new();
        let mut requests = Vec::new();
        for (line, entry) in text.lines().enumerate() {
            let parsed = entry.split_once(' ').zip(logged_at(entry));
            let Some(((address, _), at)) = parsed else {
                return Err(
                    format!("line {}: not in the combined format: {entry}", line + 1).into(),
                );
            };
            let next = numbers.len() as u32;
            let client = *numbers.entry(address).or_insert(next);
            requests.push(Request { client, at });
        }
        Ok(Self::new(requests))
    }

    /// The form in which a log is kept beside the studies; its first lines say what it is.
    ///
    /// # Errors
    /// The first line that is not of this form.
    pub(crate) fn from_short_log(text: &str) -> Result<Self, Box<dyn Error>> {
        let (mut second, mut requests) = (0, Vec::new());
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let mut numbers = line.split(' ').map(str::parse::<u64>);
            second += numbers.next().ok_or("an empty line")??;
            for client in numbers {
                let (client, at) = (u32::try_from(client?)?, Timestamp::from_secs(second));
                requests.push(Request { client, at });
            }
        }
        Ok(Self::new(requests))
    }

    /// For each request, how many its client made in the period that ends with it, itself included.
    pub(crate) fn true_counts(&self, period: Period) -> Vec<u32> {
        let span = Duration::from_secs(u64::from(period.as_secs()));
        let mut trails: HashMap<u32, Trail> = HashMap::new();
        let count = |request: &Request| {
            let trail = trails.entry(request.client).or_default();
            trail.push(request.at);
            trail.within(span, request.at)
        };
        self.0.iter().map(count).collect()
    }
}

/// Moments of one client, of which the latest are counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Trail {
    moments: Vec<Timestamp>,
    /// How many of the first are past for good.
    past: usize,
}

impl Trail {
    pub(crate) fn push(&mut self, at: Timestamp) {
        self.moments.push(at);
    }

    /// How many lie in the span that ends with `now`, which never goes back: what is exactly a span ago is out.
    pub(crate) fn within(&mut self, span: Duration, now: Timestamp) -> u32 {
        let is_past = |at: &Timestamp| at.saturating_add(span) <= now;
        self.past += self.moments[self.past..]
            .iter()
            .take_while(|at| is_past(at))
            .count();
        (self.moments.len() - self.past) as u32
    }
}

/// So many seconds after [`START`], in whole nanoseconds.
pub(crate) fn moment(seconds: f64) -> Timestamp {
    START.saturating_add(Duration::from_nanos((seconds * 1e9).round() as u64))
}

/// The moment of a line such as `… [17/May/2015:10:05:03 +0000] …`.
fn logged_at(line: &str) -> Option<Timestamp> {
    const MONTHS: &str = "JanFebMarAprMayJunJulAugSepOctNovDec";
    let (_, rest) = line.split_once('[')?;
    let (stamp, _) = rest.split_once(']')?;
    let (clock, zone) = stamp.split_once(' ')?;
    let mut parts = clock.split(['/', ':']);
    let day: i64 = parts.next()?.parse().ok()?;
    let month = MONTHS.find(parts.next()?)? as i64 / 3 + 1;
    let mut number = || parts.next()?.parse::<i64>().ok();
    let (year, hour, minute, second) = (number()?, number()?, number()?, number()?);
    let offset: i64 = zone.parse().ok()?;
    let offset = (offset / 100 * 60 + offset % 100) * 60;
    // Days since the epoch, counted from a year that begins in March: Hinnant, chrono-compatible low-level date algorithms.
    let (year, month) = if month > 2 {
        (year, month - 3)
    } else {
        (year - 1, month + 9)
    };
    let days =
        365 * year + year / 4 - year / 100 + year / 400 + (153 * month + 2) / 5 + day - 719_469;
    let seconds = ((days * 24 + hour) * 60 + minute) * 60 + second - offset;
    u64::try_from(seconds).ok().map(Timestamp::from_secs)
}
