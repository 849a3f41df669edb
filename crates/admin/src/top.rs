//! Parses queries about the keys of a limit, and serves `/limits/NAME/top`: the keys that are nearest to the limit, over it, or banned, as
//! hashes.
//!
//! A key is shown as the limiter stores it, by its keyed hash: an address cannot be read out of it, and it is the same for as long as the
//! seed of the state directory exists, or without one the process. Its values stand beside it where they are known and may be shown. The
//! whole table is read to find the keys, some 100 ns for each active key, so this is not done where other responses wait.

use http::StatusCode;
use http::request::Parts;
use serde::Serialize;
use sluicegate_base::bounds;
use sluicegate_base::clock;
use sluicegate_decide::rfc3339;
use sluicegate_limiter::{KeyHash, RateStatus, Timestamp};

use super::bans;
use super::client_rules::{ClientRules, KeyNetworks};
use super::duration::seconds;
use super::key_texts::KeyValuesForm;
use super::keys::KeyBan;
use super::limit::limit_named;
use super::limit_view::LimitView;
use super::operator::Operator;
use super::page::{AdminPage, JSON, is_reading, only_reading};
use super::status::OverflowSection;
use super::task::{AdminAction, AdminTask};
use sluicegate_decide::admission::{ActiveLimit, KeyNamer, NextRequest, RankedKey, ScaledRates};
use sluicegate_process::GatewayProcess;

/// The number of keys that are shown by default.
const USUAL: usize = 20;

/// A parsed query: the limit's name, the keys and their number.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TopQuery {
    limit: String,
    about: TopSubject,
    most: usize,
}

/// The keys that are shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TopSubject {
    /// The keys that have used most.
    Fullest,
    /// The banned keys.
    Banned,
}

/// The reason why there is no page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BadQuery;

/// Returns the task of a query; `None` where the path is another one.
pub(super) fn task(request: &Parts) -> Option<AdminTask> {
    Some(
        match TopQuery::parse(request.uri.path(), request.uri.query())? {
            _ if !is_reading(&request.method) => AdminTask::Show(only_reading()),
            Ok(question) => AdminTask::Walk(Box::new(question)),
            Err(misasked) => AdminTask::Show(misasked.page()),
        },
    )
}

impl TopQuery {
    /// Parses the query of a path; `None` when it is another path.
    fn parse(path: &str, query: Option<&str>) -> Option<Result<Self, BadQuery>> {
        let (limit, about) = match path.strip_prefix("/limits/")?.split_once('/')? {
            (limit, "top") => (limit, TopSubject::Fullest),
            (limit, "bans") => (limit, TopSubject::Banned),
            _ => return None,
        };
        if limit.is_empty() {
            return None;
        }
        let most = match query {
            None | Some("") => Some(USUAL),
            Some(query) => query
                .strip_prefix("n=")
                .and_then(|number| number.parse().ok())
                .filter(|most| (1..=bounds::TOP_KEYS).contains(most)),
        };
        let question = most.map(|most| Self {
            limit: limit.to_owned(),
            about,
            most,
        });
        Some(question.ok_or(BadQuery))
    }
}

impl AdminAction for TopQuery {
    /// Walks the table and returns the page.
    fn page(&self, _: &Operator, process: &GatewayProcess) -> AdminPage {
        let active = limit_named(process, &self.limit);
        match self.about {
            TopSubject::Fullest => match active {
                Some(active) => {
                    let form = KeyValuesForm::new(process);
                    let page = TopPage::sample(&active, self.most, form, clock::now());
                    AdminPage::json(&page.with_clients(&active, process))
                }
                None => no_limit(),
            },
            TopSubject::Banned => match active {
                Some(active) => bans::page(&active, self.most, KeyValuesForm::new(process)),
                None => no_limit(),
            },
        }
    }
}

fn no_limit() -> AdminPage {
    AdminPage::error(StatusCode::NOT_FOUND, "no such limit; /status names them")
}

impl BadQuery {
    fn page(self) -> AdminPage {
        let error = format!(
            r#"{{"error":"what may follow the question mark is n= and a number from 1 to {}"}}"#,
            bounds::TOP_KEYS
        );
        AdminPage::new(StatusCode::BAD_REQUEST, JSON, error.into_bytes())
    }
}

#[derive(Serialize)]
struct TopPage {
    limit: String,
    at: String,
    scaled: Option<ScaledRates>,
    capacity: u64,
    keys: u64,
    overflow: OverflowSection,
    ages: Option<KeyAges>,
    #[serde(flatten)]
    key_values: KeyValuesForm,
    top: Vec<TopKey>,
}

/// Ages of the latest charge of keys: `keys[0]` less than a second ago, `keys[n]` less than 2^n seconds and not less than half of that.
#[derive(Serialize)]
struct KeyAges {
    oldest: f64,
    keys: Vec<u64>,
}

#[derive(Serialize)]
struct TopKey {
    #[serde(skip)]
    hash: KeyHash,
    key: String,
    key_values: Option<Vec<String>>,
    charged: Option<String>,
    used: f64,
    shared: bool,
    next: &'static str,
    refused: bool,
    ban: Option<KeyBan>,
    rates: Vec<TopRate>,
}

#[derive(Serialize)]
struct TopRate {
    rate: String,
    remaining: u32,
    next: f64,
    reset: f64,
}

impl TopPage {
    /// Samples the limit at `now`, with up to `most` of its keys, the banned and the fullest first, and their values in this form.
    fn sample(
        active: &ActiveLimit,
        most: usize,
        key_values: KeyValuesForm,
        now: Timestamp,
    ) -> Self {
        let view = LimitView::new(active, now);
        let moment = active.moment(now);
        let ranked = active.rank_keys(most, now);
        active.name_keys(KeyNamer::Nearest, ranked.iter().map(|ranked| ranked.key));
        Self {
            limit: view.name.to_string(),
            at: rfc3339::format(now),
            overflow: OverflowSection::new(&view),
            scaled: view.facts.scaled,
            capacity: view.capacity.keys(),
            keys: view.keys,
            ages: active.limit.ages(moment).map(KeyAges::new),
            key_values,
            top: ranked
                .iter()
                .map(|ranked| {
                    let charged = ranked.charged.unwrap_or(moment);
                    TopKey {
                        shared: active.limit.may_count_others(ranked.key, charged),
                        ..TopKey::new(ranked, active.known_values(ranked.key), now)
                    }
                })
                .collect(),
        }
    }

    /// Returns the page with what lists and temporary rules make of the clients of its keys.
    fn with_clients(mut self, active: &ActiveLimit, process: &GatewayProcess) -> Self {
        let snapshot = process.shared.snapshot();
        let networks = KeyNetworks::new(active, &snapshot, &process.shared.seed);
        let rules = ClientRules::new(&snapshot, Some(active));
        for key in &mut self.top {
            let network = networks.find(key.hash);
            let effect = network.and_then(|network| rules.judge(network).effect);
            if let Some(effect) = effect {
                key.treat(NextRequest::by_list(effect));
            }
        }
        self
    }
}

impl KeyAges {
    fn new(ages: sluicegate_limiter::KeyAges) -> Self {
        let filled = ages.keys.iter().rposition(|keys| *keys > 0);
        Self {
            oldest: seconds(ages.oldest),
            keys: ages.keys[..filled.map_or(0, |last| last + 1)].to_vec(),
        }
    }
}

impl TopKey {
    fn new(ranked: &RankedKey, key_values: Option<Vec<String>>, now: Timestamp) -> Self {
        let statuses = ranked.decision.statuses();
        Self {
            hash: ranked.key,
            key: format!("{:016x}", ranked.key.bits()),
            key_values,
            charged: ranked.charged.map(rfc3339::format),
            used: ranked.used as f64 / 1000.0,
            shared: false,
            next: ranked.next.name(),
            refused: ranked.next.is_rejection(),
            ban: (ranked.banned).map(|banned| KeyBan::new(banned, ranked.ban_rule, now)),
            rates: statuses.iter().map(TopRate::new).collect(),
        }
    }

    /// Sets the answer to the next request.
    fn treat(&mut self, next: NextRequest) {
        self.next = next.name();
        self.refused = next.is_rejection();
    }
}

impl TopRate {
    fn new(status: &RateStatus) -> Self {
        Self {
            rate: status.rate.to_string(),
            remaining: status.remaining,
            next: seconds(status.next_free),
            reset: seconds(status.reset),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::tests::{gateway, used_limit};
    use super::*;

    /// Goal: an operator sees who is nearest to a limit, and nobody's address. Method: two clients; the whole of the object, then one
    /// key.
    #[test]
    fn the_top_of_a_limit_shows_its_fullest_keys_as_hashes() {
        let process = gateway(None);
        let now = Timestamp::from_secs(1_795_245_038);
        let active = used_limit(&process, now);
        let mut object =
            serde_json::to_value(TopPage::sample(&active, 20, KeyValuesForm::default(), now))
                .expect("JSON");
        let keys = object["top"].take();
        assert_eq!(
            object,
            json!({
                "limit": "otp", "at": "2026-11-21T07:10:38.000Z", "capacity": 1024, "keys": 2,
                "overflow": {
                    "active": false, "since": null, "until": null, "affected": 0.0, "decisions": 0, "refused": 0, "advice": null
                },
                "ages": { "oldest": 0.0, "keys": [2] }, "key_values_hidden": null, "key_values_masked": false,
                "top": null, "scaled": null,
            })
        );
        let used: Vec<_> = keys
            .as_array()
            .into_iter()
            .flatten()
            .map(|key| &key["used"])
            .collect();
        assert_eq!(used, [&json!(0.4), &json!(0.2)], "{keys}");
        assert_eq!(keys[0]["key"].as_str().map(str::len), Some(16));
        assert_eq!(keys[0]["refused"], json!(false));
        assert_eq!(keys[0]["next"], json!("admitted"));
        assert_eq!(keys[0]["ban"], json!(null));
        assert_eq!(keys[0]["key_values"], json!(null));
        assert_eq!(keys[0]["rates"][0]["rate"], json!("5 per 3s"));
        assert_eq!(keys[0]["rates"][0]["remaining"], json!(3));
        assert_eq!(
            TopPage::sample(&active, 1, KeyValuesForm::default(), now)
                .top
                .len(),
            1
        );
    }

    /// Goal: what is asked is bounded, and a slip is told rather than guessed at. Method: paths and queries around the right ones.
    #[test]
    fn a_question_names_a_limit_and_at_most_so_many_keys() {
        let asked = |path, query| TopQuery::parse(path, query);
        let right = |most| {
            let limit = "otp".to_owned();
            let about = TopSubject::Fullest;
            Some(Ok(TopQuery { limit, about, most }))
        };
        for (query, most) in [
            (None, 20),
            (Some(""), 20),
            (Some("n=1"), 1),
            (Some("n=1000"), 1000),
        ] {
            assert_eq!(asked("/limits/otp/top", query), right(most), "{query:?}");
        }
        for query in [
            "n=0",
            "n=1001",
            "n=-1",
            "n=",
            "n",
            "m=5",
            "n=5&n=6",
            "n=99999999999999999999",
        ] {
            assert_eq!(
                asked("/limits/otp/top", Some(query)),
                Some(Err(BadQuery)),
                "{query}"
            );
        }
        for path in [
            "/limits",
            "/limits/otp",
            "/limits//top",
            "/limits/top",
            "/limits/a/b/top",
            "/limit/otp/top",
            "/limits//bans",
            "/limits/otp/bans/0",
        ] {
            assert_eq!(asked(path, None), None, "{path}");
        }
        let banned = asked("/limits/otp/bans", Some("n=7"))
            .expect("a path")
            .expect("a question");
        assert_eq!((banned.about, banned.most), (TopSubject::Banned, 7));
    }
}
