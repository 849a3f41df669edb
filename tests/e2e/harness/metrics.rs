//! The Prometheus text format, read back.

use std::collections::BTreeMap;

/// Values by the name and the labels of their series.
pub type SeriesValues = BTreeMap<(String, BTreeMap<String, String>), f64>;

/// One scrape.
#[derive(Debug)]
pub struct Metrics {
    samples: Vec<Sample>,
}

#[derive(Debug)]
struct Sample {
    name: String,
    labels: BTreeMap<String, String>,
    value: f64,
}

impl Metrics {
    /// Parses a scrape; panics on a line that Prometheus would not take either.
    pub fn parse(text: &str) -> Self {
        let lines = text
            .lines()
            .filter(|line| !line.is_empty() && !line.starts_with('#'));
        Self {
            samples: lines.map(Sample::parse).collect(),
        }
    }

    /// The sum of the samples of this name that carry these labels (and maybe others); 0 when there is none.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.matching(name, labels).map(|sample| sample.value).sum()
    }

    /// Whether any sample carries this label value, whatever its name.
    pub fn mentions(&self, value: &str) -> bool {
        self.samples
            .iter()
            .any(|sample| sample.labels.values().any(|label| label == value))
    }

    /// Every series.
    pub fn values(&self) -> SeriesValues {
        let samples = self.samples.iter();
        samples
            .map(|sample| ((sample.name.clone(), sample.labels.clone()), sample.value))
            .collect()
    }

    /// How many series a scrape has.
    pub fn series(&self) -> usize {
        self.samples.len()
    }

    fn matching<'a>(
        &'a self,
        name: &'a str,
        labels: &'a [(&'a str, &'a str)],
    ) -> impl Iterator<Item = &'a Sample> {
        self.samples.iter().filter(move |sample| {
            sample.name == name
                && labels.iter().all(|(label, value)| {
                    sample
                        .labels
                        .get(*label)
                        .is_some_and(|found| found == value)
                })
        })
    }
}

impl Sample {
    fn parse(line: &str) -> Self {
        let (series, value) = line
            .rsplit_once(' ')
            .unwrap_or_else(|| panic!("no sample: {line}"));
        let (name, labels) = match series.split_once('{') {
            None => (series, BTreeMap::new()),
            Some((name, rest)) => {
                let inside = rest
                    .strip_suffix('}')
                    .unwrap_or_else(|| panic!("no closing brace: {line}"));
                (name, Self::labels(inside, line))
            }
        };
        let value = value
            .parse()
            .unwrap_or_else(|_| panic!("no number: {line}"));
        Self {
            name: name.to_owned(),
            labels,
            value,
        }
    }

    /// Label values may hold anything between quotes, commas and braces of a path pattern included.
    fn labels(mut rest: &str, line: &str) -> BTreeMap<String, String> {
        let mut labels = BTreeMap::new();
        while !rest.is_empty() {
            let (name, after) = rest
                .split_once("=\"")
                .unwrap_or_else(|| panic!("no label: {line}"));
            let mut value = String::new();
            let mut chars = after.char_indices();
            let end = loop {
                match chars
                    .next()
                    .unwrap_or_else(|| panic!("no closing quote: {line}"))
                {
                    (at, '"') => break at,
                    (_, '\\') => match chars.next().unwrap().1 {
                        'n' => value.push('\n'),
                        other => value.push(other),
                    },
                    (_, other) => value.push(other),
                }
            };
            labels.insert(name.to_owned(), value);
            rest = after[end + 1..].trim_start_matches(',');
        }
        labels
    }
}
