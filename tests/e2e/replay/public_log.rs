//! The public sample log, read without the code of `replay`, and judged by the definition of each algorithm.

use std::io::Read;

use flate2::read::GzDecoder;

use super::*;

/// A request of the log.
pub struct Recorded {
    pub line: String,
    pub client: String,
    pub time: jiff::Timestamp,
    pub target: String,
}

/// Returns its requests in the order of time; the log has none within its minutes.
pub fn recorded() -> Vec<Recorded> {
    let mut log = String::new();
    let sample = fs::File::open(SAMPLE).unwrap();
    GzDecoder::new(sample).read_to_string(&mut log).unwrap();
    let mut requests: Vec<Recorded> = log.lines().map(Recorded::of).collect();
    requests.sort_by_key(|request| request.time);
    requests
}

impl Recorded {
    /// Reads a line of the common format.
    fn of(line: &str) -> Self {
        let (client, rest) = line.split_once(" - - [").unwrap();
        let (time, rest) = rest.split_once("] \"").unwrap();
        let time = jiff::fmt::strtime::parse("%d/%b/%Y:%H:%M:%S %z", time).unwrap();
        Self {
            line: format!("{line}\n"),
            client: client.to_owned(),
            time: time.to_timestamp().unwrap(),
            target: rest.split(' ').nth(1).unwrap().to_owned(),
        }
    }

    pub fn nanos(&self) -> u64 {
        self.time.as_nanosecond().try_into().unwrap()
    }
}

#[tokio::test]
async fn every_algorithm_decides_the_public_log_as_its_definition_does() {
    // Goal: no algorithm differs in one of ten thousand real requests. Method: the compressed log as it is, and a reference without the
    // limiter's code. The request with a malformed target is no request of a limit.
    let recorded = recorded();
    let files = Files::new();
    for (algorithm, lines) in ALGORITHMS {
        let rules = limited(&format!(
            "rates = [\"4 per 8s\"]\nalgorithm = \"{algorithm}\"\n{lines}"
        ));
        let config = files.config("new.toml", &rules);
        let out = files.path("decisions.json");
        report(&[SAMPLE, "--config", &config, "--decisions", &out]).await;
        let decided = decisions(&out);
        assert_eq!(decided.len(), recorded.len());
        let judged = recorded.iter().zip(&decided).filter(|(_, decision)| {
            let outcome = decision["outcome"].as_str().unwrap();
            ["admitted", "rate-limited"].contains(&outcome)
        });
        let (requests, decided): (Vec<_>, Vec<_>) = judged.unzip();
        assert_eq!(requests.len(), recorded.len() - 1);
        let arrivals: Vec<reference::Arrival> = requests
            .iter()
            .map(|request| (request.nanos() / 1_000_000, request.client.clone()))
            .collect();
        let expected = reference::admitted(algorithm, 4, 8_000, &arrivals);
        for ((request, decision), admitted) in requests.iter().zip(decided).zip(&expected) {
            assert_eq!(
                (&decision["time_ns"], &decision["client"]),
                (&request.nanos().into(), &request.client.as_str().into())
            );
            assert_eq!(
                decision["outcome"] == "admitted",
                *admitted,
                "{algorithm}: {}",
                request.line
            );
        }
        let rejected = expected.iter().filter(|admitted| !**admitted).count();
        assert!(rejected > 50, "{algorithm}: {rejected}");
    }
}
