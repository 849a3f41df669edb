//! Reads the samples of `/metrics`: name, labels, value.

/// A sample of a scrape.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct MetricSample<'a> {
    pub(super) name: &'a str,
    labels: &'a str,
    pub(super) value: f64,
}

impl MetricSample<'_> {
    /// Returns the value of a label; empty without it.
    pub(super) fn label(&self, name: &str) -> String {
        let mut rest = self.labels;
        while let Some((label, after)) = rest.split_once("=\"") {
            let end = closing_quote(after);
            let (value, next) = after.split_at(end);
            if label.trim_start_matches([',', ' ']) == name {
                return unescaped(value);
            }
            rest = next.get(1..).unwrap_or_default();
        }
        String::new()
    }
}

/// Returns the samples of a scrape, in its order. Lines that are none are passed over.
pub(super) fn samples(text: &str) -> impl Iterator<Item = MetricSample<'_>> {
    text.lines().filter_map(|line| {
        if line.starts_with('#') {
            return None;
        }
        let (series, value) = line.rsplit_once(' ')?;
        let value = value.parse().ok()?;
        let (name, labels) = match series.split_once('{') {
            Some((name, labels)) => (name, labels.strip_suffix('}')?),
            None => (series, ""),
        };
        Some(MetricSample {
            name,
            labels,
            value,
        })
    })
}

/// Returns the index of the quote that ends a value, or the length of the text.
fn closing_quote(text: &str) -> usize {
    let mut is_escaped = false;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !is_escaped;
        is_escaped = byte == b'\\' && !is_escaped;
        ends
    });
    end.unwrap_or(text.len())
}

fn unescaped(value: &str) -> String {
    let mut plain = String::with_capacity(value.len());
    let mut characters = value.chars();
    while let Some(character) = characters.next() {
        plain.push(match character {
            '\\' => match characters.next() {
                Some('n') => '\n',
                Some(other) => other,
                None => '\\',
            },
            other => other,
        });
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Goal: names and values are read as they were written. Method: lines with and without labels, escapes, and what is no sample.
    #[test]
    fn samples_are_read_with_their_labels() {
        let text = "# HELP a b\n# TYPE a counter\na 7\nb{limit=\"otp\",route=\"/a,b=\\\"c\\\"\\\\\"} 1.5\nbroken\nc{x=\"y\" 3\n";
        let found: Vec<_> = samples(text).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].name, found[0].value), ("a", 7.0));
        assert_eq!(found[0].label("limit"), "");
        assert_eq!((found[1].name, found[1].value), ("b", 1.5));
        assert_eq!(found[1].label("limit"), "otp");
        assert_eq!(found[1].label("route"), "/a,b=\"c\"\\");
    }
}
