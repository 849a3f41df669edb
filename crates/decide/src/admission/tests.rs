//! Charges are settled however a request ends, and each limit takes its part.

use std::sync::Arc;

use crate::client::PeerTrust;
use crate::state::{CounterStorage, PersistenceMode};
use http::{HeaderMap, Method, StatusCode};
use sluicegate_base::clock;
use sluicegate_base::crawler::{ClientCrawler, CrawlerRegistry, CrawlerRequest};
use sluicegate_base::geo::{ClientPlace, GeoDatabases};
use sluicegate_base::jwt::PresentedToken;
use sluicegate_base::received::ReceivedFields;
use sluicegate_limiter::{Cost, KeyHash, Seed, Timestamp};

use super::*;
use crate::store::{CountingStore, UnreachableStore};
use limit_check::{LimitCheck, LimitChecks};
use sluicegate_config::rules::StoreSeed;
use sluicegate_config::{no_review, parse};
use transaction::{JointProgress, Transaction};

mod store_questions;

/// The limits of a file, and the route of those that are named.
struct Bench {
    limits: Vec<Arc<ActiveLimit>>,
    route: RouteLimits,
    seed: KeySeed,
    headers: ReceivedFields,
    hop: PeerTrust,
    now: Timestamp,
}

impl Bench {
    /// Limits by client with these lines each, of which `written` stand on the route.
    fn new(limits: &[(&str, &str)], written: &[&str]) -> Self {
        Self::with_store_seed(limits, written, None)
    }

    /// The same with this seed of the store: without one, keys have no names there before it was reached.
    fn with_store_seed(
        limits: &[(&str, &str)],
        written: &[&str],
        store_seed: Option<StoreSeed>,
    ) -> Self {
        let tables = limits.iter().map(|(name, lines)| {
            let key = match lines.contains("key =") {
                true => "",
                false => "key = \"client.ip\"\n",
            };
            format!("[limit.{name}]\n{key}{lines}\n")
        });
        let is_shared = limits.iter().any(|(_, lines)| lines.contains("store ="));
        let store = match is_shared {
            true => "[store]\nurl = \"redis://127.0.0.1:1\"\n",
            false => "",
        };
        let text = format!(
            "[[listener]]\naddress = \"127.0.0.1:80\"\n{store}[client]\ntrusted_proxies = [\"10.0.0.0/8\"]\n\
             [[route]]\npath = \"/\"\nrespond = {{ status = 200 }}\n{}",
            tables.collect::<String>()
        );
        let rules = parse("gateway.toml", &text, no_review)
            .expect("a configuration")
            .rules;
        // Charges that are dropped are settled by the clock.
        let now = clock::now();
        let (storage, seed) =
            CounterStorage::open(PersistenceMode::Process).expect("a random source");
        let seed = KeySeed::from_seed(seed);
        let store = rules.store.map(|_| {
            let seed = store_seed.map(|seed| Seed::from_bytes(seed.0));
            Arc::new(UnreachableStore::new(seed)) as Arc<dyn CountingStore>
        });
        let environment = LimitEnvironment {
            storage: &storage,
            store: store.as_ref(),
            seed: &seed,
            key_texts: None,
            now,
        };
        let limits: Vec<_> = rules
            .limits
            .iter()
            .map(|(name, rules)| Arc::new(ActiveLimit::new(name, rules, None, environment)))
            .collect();
        let named = |name: &str| limits.iter().find(|limit| &*limit.name == name).cloned();
        let route = written.iter().filter_map(|name| named(name)).collect();
        let route = RouteLimits::new(route, named);
        Self {
            limits,
            route,
            seed,
            headers: ReceivedFields::new(),
            hop: PeerTrust::Stranger,
            now,
        }
    }

    /// The same request each time.
    fn asked<T>(&self, ask: impl FnOnce(&RequestFacts<'_>) -> T) -> T {
        ask(&RequestFacts {
            client: std::net::Ipv4Addr::LOCALHOST.into(),
            place: &ClientPlace::new(
                &GeoDatabases::default(),
                std::net::Ipv4Addr::LOCALHOST.into(),
            ),
            crawler: &ClientCrawler::new(
                &CrawlerRegistry::default(),
                CrawlerRequest::without_target(std::net::Ipv4Addr::LOCALHOST.into(), &self.headers),
            ),
            hop: self.hop,
            host: "",
            path: "/",
            segments: "/",
            method: &Method::GET,
            headers: &self.headers,
            query: "",
            pattern: None,
            token: &PresentedToken::new(None, &self.headers),
            secured: None,
            body: KnownBody::Unread,
            hits: std::num::NonZeroU32::MIN,
            now: self.now,
            recorded: &[],
            reserves: &[],
        })
    }

    fn key(&self, limit: &ActiveLimit) -> KeyHash {
        let key = self.asked(|facts| self.seed.hash(&limit.key, facts).ok());
        key.expect("every request has an address")
    }

    /// The check against the limit at `index` of the route.
    fn check(&self, index: u8) -> LimitCheck<'_> {
        let active = &self.route[usize::from(index)];
        LimitCheck {
            limit: index,
            active,
            ask: Ask {
                limit: &active.limit,
                key: self.key(active),
                cost: active.cost,
                payer: None,
            },
            tier: None,
            is_active: active.is_active(),
            remote_key: self.asked(|facts| active.remote_key(facts, None)),
        }
    }

    fn decide(&self) -> Admission {
        let mut missing_keys = MissingKeys::default();
        let charging = ChargeTiming::AtOnce;
        self.asked(|facts| {
            let missing = &mut missing_keys;
            let progress = evaluate(&self.route, facts, &self.seed, charging, missing);
            progress.without_store(self.now)
        })
    }

    fn admit(&self) -> (Admitted, AdmissionReport) {
        match self.decide() {
            Admission::Admitted(admitted, Some(judged)) => (admitted, judged),
            other => unreachable!("{other:?}"),
        }
    }

    fn is_refused(&self) -> bool {
        matches!(self.decide(), Admission::Rejected(..))
    }

    /// Returns what is left of each limit's first rate, by name.
    fn left(&self) -> Vec<u32> {
        let left = |limit: &Arc<ActiveLimit>| {
            let decision = limit.limit.peek(self.key(limit), Cost::ONE, self.now);
            decision.statuses()[0].remaining
        };
        self.limits.iter().map(left).collect()
    }
}

const FIVE: &str = "rates = [\"5 per 30d\"]";

fn failures() -> String {
    format!("{FIVE}\ncount_if = \"response.status == 401\"")
}

fn answer(status: StatusCode, fields: &HeaderMap) -> Option<FinalResponse<'_>> {
    let by = ResponseSource::Origin;
    Some(FinalResponse { by, status, fields })
}

/// Goal: whatever drops a request settles it. Method: drop it, drop it while a panic unwinds, answer it in two ways; beside it a
/// limit that counts at once.
#[test]
fn what_is_owed_is_paid_by_being_dropped() {
    let bench = Bench::new(&[("a", FIVE), ("b", &failures())], &["a", "b"]);
    drop(bench.admit());
    assert_eq!(bench.left(), [4, 5]);
    let unwound = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let _admitted = bench.admit();
        std::panic::resume_unwind(Box::new("a bug elsewhere"));
    }));
    assert!(unwound.is_err());
    assert_eq!(bench.left(), [3, 5]);
    let none = HeaderMap::new();
    for (status, left) in [(StatusCode::OK, [2, 5]), (StatusCode::UNAUTHORIZED, [1, 4])] {
        let (mut admitted, _) = bench.admit();
        assert_eq!(bench.left()[1], 4, "it is reserved meanwhile");
        admitted.settle(answer(status, &none), bench.now);
        assert!(!admitted.is_pending() && admitted.settle(None, bench.now).is_empty());
        assert_eq!(bench.left(), left);
    }
}

/// Goal: rates in shadow count on this node, and are settled with the charges of a limit that counts elsewhere. Method: both kinds of
/// shared limits while their store is unavailable, a response that does not count, one that does, and none.
#[test]
fn shadow_rates_beside_a_shared_limit_are_settled() {
    for store in ["shared", "shared-strict"] {
        let lines = format!(
            "{}\nstore = \"{store}\"\nshadow_rates = [\"3 per 30d\"]",
            failures()
        );
        let bench = Bench::new(&[("a", &lines)], &["a"]);
        let limit = &bench.limits[0];
        let left = || {
            let shadow = limit.shadow_rates.as_ref().expect("rates in shadow");
            let decision = shadow.peek(bench.key(limit), Cost::ONE, bench.now);
            decision.statuses()[0].remaining
        };
        let none = HeaderMap::new();
        for (status, after) in [(StatusCode::OK, 3), (StatusCode::UNAUTHORIZED, 2)] {
            let (mut admitted, _) = bench.admit();
            assert_eq!(left(), 2, "{store}: it is reserved meanwhile");
            admitted.settle(answer(status, &none), bench.now);
            assert_eq!(left(), after, "{store}: {status}");
        }
        drop(bench.admit());
        assert_eq!(left(), 2, "{store}: without a response nothing counts");
    }
}

/// Goal: a request that is held back and leaves was never there; one that goes on stays charged. Method: a second request of a leaky
/// bucket, beside a limit that counts at once and one in shadow.
#[test]
fn a_place_is_given_back_until_the_request_goes_on() {
    let queue = "rates = [\"60 per 1h\"]\naction = \"delay\"\nqueue = 2\nmax_wait = \"10m\"";
    let shadow = format!("{FIVE}\naction = \"shadow\"");
    let bench = Bench::new(
        &[("a", FIVE), ("b", queue), ("c", &shadow)],
        &["a", "b", "c"],
    );
    let (first, judged) = bench.admit();
    assert!(judged.verdict.delay().is_zero() && !first.is_pending());
    let before = bench.left();
    let (second, judged) = bench.admit();
    assert!(!judged.verdict.delay().is_zero());
    drop(second);
    assert_eq!(bench.left(), before);
    let (mut third, _) = bench.admit();
    third.start();
    drop(third);
    let taken: Vec<u32> = (before.iter().zip(bench.left()))
        .map(|(before, now)| before - now)
        .collect();
    assert_eq!(taken, [1, 1, 1], "{before:?}");
}

/// Goal: two limits that name the same second one ask it once. Method: both exceeded; the second has one unit a request.
#[test]
fn a_second_limit_of_two_is_asked_once() {
    let mark = "rates = [\"1 per 30d\"]\naction = \"mark\"\nfallback_limit = \"slow\"";
    let bench = Bench::new(&[("a", mark), ("b", mark), ("slow", FIVE)], &["a", "b"]);
    assert!(
        bench
            .admit()
            .1
            .details
            .is_some_and(|details| details.marks.is_empty())
    );
    for left in (0..5).rev() {
        let details = bench.admit().1.details.expect("it is not plain");
        let marks: Vec<_> = details.marks.iter().map(|mark| mark.limit).collect();
        assert_eq!((marks, &details.asked[..]), (vec![0, 1], &[2][..]));
        assert_eq!(bench.left(), [0, 0, left]);
    }
    assert!(bench.is_refused());
    assert_eq!(bench.left(), [0, 0, 0]);
}

/// Goal: a second limit may be in shadow for a key, and then lets it pass. Method: one that is enforced for hardly anybody.
#[test]
fn a_second_limit_in_shadow_refuses_nobody() {
    let mark = "rates = [\"1 per 30d\"]\naction = \"mark\"\nfallback_limit = \"slow\"";
    let slow = "rates = [\"1 per 30d\"]\nenforce = \"0.01%\"";
    let left_out = |bench: &Bench| {
        let slow = &bench.limits[1];
        !slow.enforce.takes(bench.key(slow))
    };
    let benches = || Bench::new(&[("a", mark), ("slow", slow)], &["a"]);
    let bench = std::iter::repeat_with(benches).find(left_out);
    let bench = bench.expect("seeds without end");
    let _ = bench.admit();
    let refused: Vec<bool> = (0..3)
        .map(|_| {
            let details = bench.admit().1.details.expect("it is not plain");
            let refused = LimitNote {
                limit: 1,
                event: LimitEvent::ShadowRefused,
            };
            details.notes.contains(&refused)
        })
        .collect();
    assert_eq!(refused, [false, true, true]);
}

/// Goal: routes whose limits are plain are decided by one call, and leave nothing to settle. Method: a constant cost is plain, the rest is
/// not.
#[test]
fn only_limits_that_need_it_are_weighed() {
    let cost = format!("{FIVE}\ncost = 3");
    let bench = Bench::new(&[("a", FIVE), ("b", &cost)], &["a", "b"]);
    let (admitted, judged) = bench.admit();
    assert!(!admitted.is_pending() && judged.details.is_none());
    assert_eq!(bench.left(), [4, 2]);
    for lines in [
        "action = \"shadow\"",
        "enforce = \"1%\"",
        "shadow_rates = [\"1 per 1d\"]",
        "action = \"mark\"",
    ] {
        let bench = Bench::new(&[("a", &format!("{FIVE}\n{lines}"))], &["a"]);
        assert!(
            !bench.route.are_plain() && !bench.route.are_together(),
            "{lines}"
        );
    }
}

/// Goal: a ban and a permit belong to whichever limit is asked, also to one that stands in for another, and a rejection before the limits
/// takes nothing. Method: a limit that marks, and behind it one that bans; at the ban neither is charged any more.
#[test]
fn a_second_limit_bans_when_it_is_asked() {
    let mark = "rates = [\"1 per 30d\"]\naction = \"mark\"\nfallback_limit = \"slow\"";
    let slow = "rates = [\"1 per 30d\"]\nban = { for = \"70d\" }";
    let bench = Bench::new(
        &[("a", mark), ("each", FIVE), ("slow", slow)],
        &["each", "a"],
    );
    let bars = || match bench.decide() {
        Admission::Rejected(Rejection::ByLimit(rejection), _) => Some(rejection),
        Admission::Rejected(..) | Admission::Admitted(..) => None,
    };
    assert_eq!((bars(), bars()), (None, None));
    assert_eq!(bench.left(), [0, 3, 0]);
    let strike = bars().expect("a ban begins");
    assert!(matches!(strike.reason, RejectionReason::BanStarted(banned) if banned.level == 1));
    let ban = bars().expect("a ban is in force");
    assert!(matches!(ban.reason, RejectionReason::Banned(_)));
    let days = ban.wait.as_secs_f64() / 86_400.0;
    assert!(ban.limit == 2 && (69.9..=70.0).contains(&days), "{ban:?}");
    assert_eq!(bench.left(), [0, 3, 0]);
}

/// Goal: permits are all or none, and come back with what refuses. Method: two limits in flight, of which the second has no room; then a
/// rate that has none; a limit in shadow reports and refuses no request.
#[test]
fn permits_are_taken_together_and_given_back() {
    let wide = format!("{FIVE}\nconcurrency = 5");
    let narrow = "rates = [\"3 per 30d\"]\nconcurrency = 1";
    let shadow = format!("{FIVE}\nconcurrency = 1\naction = \"shadow\"");
    let bench = Bench::new(
        &[("a", wide.as_str()), ("b", narrow), ("c", &shadow)],
        &["a", "b", "c"],
    );
    let held = |bench: &Bench| -> Vec<u32> {
        let permits = bench
            .limits
            .iter()
            .filter_map(|limit| Some(limit.permits.as_ref()?.in_flight(bench.key(limit)).permits));
        permits.collect()
    };
    let (mut first, _) = bench.admit();
    assert_eq!(held(&bench), [1, 1, 1]);
    assert!(bench.is_refused());
    assert_eq!((held(&bench), bench.left()), (vec![1, 1, 1], vec![4, 2, 4]));
    first.finish_response();
    assert_eq!(held(&bench), [0, 0, 0]);
    for _ in 0..2 {
        drop(bench.admit());
    }
    assert!(bench.is_refused(), "by the rate");
    assert_eq!((held(&bench), bench.left()), (vec![0, 0, 0], vec![2, 0, 2]));
}

/// Goal: a transaction that is dropped before the commit gives its permits back with its charges. Method: a limit with one permit, and a
/// second transaction while the first one is open and after it was dropped.
#[test]
fn a_dropped_transaction_gives_its_permits_back() {
    let bench = Bench::new(&[("a", &format!("{FIVE}\nconcurrency = 1"))], &["a"]);
    let checks = LimitChecks::from_iter([bench.check(0)]);
    let run = || Transaction::run(&checks, bench.now);
    let in_flight = || {
        let permits = bench.limits[0].permits.as_ref().expect("permits");
        permits.in_flight(checks[0].ask.key).permits
    };
    let Ok(JointProgress::Decided(open)) = run() else {
        unreachable!("no store is asked")
    };
    assert!(open.charged.is_some());
    assert_eq!((in_flight(), bench.left()), (1, vec![4]));
    let full = run().err().expect("no permit");
    assert!(matches!(full.reason, RejectionReason::Concurrency(_)));
    drop(open);
    assert_eq!((in_flight(), bench.left()), (0, vec![5]));
}

/// Goal: replicated limits are charged before the store is asked, are refunded when the request is rejected after that, and are not charged
/// where this node rejects. Method: beside them a remote limit that admits nothing while its store is unavailable, and a local one with and
/// without room; a charge that is refunded leaves its key queued for a read, and a key that was never charged is not in the queue.
#[test]
fn replicated_limits_are_charged_before_the_store_is_asked() {
    let replicated = format!("{FIVE}\nstore = \"shared\"");
    let remote = format!("{FIVE}\nstore = \"shared-strict\"\non_store_failure = \"closed\"");
    let limits = [("a", &*replicated), ("b", &remote), ("c", FIVE)];
    for (used, rejected_by, queued) in [(0, 1, 1), (5, 2, 0)] {
        let seed = Some(StoreSeed([7; 16]));
        let bench = Bench::with_store_seed(&limits, &["a", "b", "c"], seed);
        for _ in 0..used {
            _ = sluicegate_limiter::decide(&[bench.check(2).ask], bench.now);
        }
        let Admission::Rejected(Rejection::ByLimit(rejection), _) = bench.decide() else {
            unreachable!("the remote limit admits nothing")
        };
        assert_eq!(rejection.limit, rejected_by);
        let store = bench.limits[0].store().expect("a store");
        assert_eq!(store.pending_writes().backlog().keys, queued, "{used}");
        assert_eq!(bench.left(), [5, 5, 5 - used]);
    }
}

/// Goal: a limit whose condition does not hold counts and rejects nobody, one whose condition holds rejects from its first request on by
/// what was counted before, and a condition that changes between the checks of a request and its decision changes nothing for it: all is
/// charged, or nothing. Method: a limit of two beside one of five, and looks at figures on both sides, also in between.
#[test]
fn a_condition_that_changes_in_between_changes_no_request() {
    let strict = "rates = [\"2 per 30d\"]\nwhen = \"connections > 5\"\nkeep_active_for = \"1s\"";
    let bench = Bench::new(&[("a", FIVE), ("b", strict)], &["a", "b"]);
    let activation = bench.limits[1].activation.as_ref().expect("a condition");
    let look = |connections: u64, seconds: u64| {
        let now = bench
            .now
            .saturating_add(std::time::Duration::from_secs(seconds));
        _ = activation.look(|_| Some(connections), now);
    };
    for left in [[4, 1], [3, 0], [2, 0]] {
        let (_, report) = bench.admit();
        assert_eq!(bench.left(), left);
        assert_eq!(report.verdict.decisions().len(), 1, "clients see one limit");
    }
    let mut missing_keys = MissingKeys::default();
    let mut planned = || {
        let charging = ChargeTiming::AtOnce;
        let missing = &mut missing_keys;
        let plan = bench.asked(|facts| plan(&bench.route, facts, &bench.seed, charging, missing));
        plan.expect("no limit is blocked")
    };
    let before = planned();
    look(6, 0);
    assert!(bench.limits[1].is_active());
    let admission = before.decide(bench.now).without_store(bench.now);
    assert!(matches!(admission, Admission::Admitted(..)));
    assert_eq!(bench.left(), [1, 0], "it was decided as it was planned");
    assert!(bench.is_refused());
    assert_eq!(bench.left(), [1, 0], "and a rejection charges nothing");
    let before = planned();
    look(0, 1);
    look(0, 2);
    assert!(!bench.limits[1].is_active());
    let admission = before.decide(bench.now).without_store(bench.now);
    let Admission::Rejected(_, Some(report)) = admission else {
        unreachable!("{admission:?}");
    };
    let notes = report
        .details
        .map_or_else(Vec::new, |details| details.notes);
    let of_b = LimitNote {
        limit: 1,
        event: LimitEvent::Active,
    };
    assert_eq!(notes, [of_b]);
    assert_eq!(bench.left(), [1, 0]);
    bench.admit();
    assert_eq!(bench.left(), [0, 0]);
}

/// Goal: a limit in shadow rejects nobody, not even a request without its key, and reports what it would do. Method: one with the action,
/// one whose condition does not hold, and the same enforced.
#[test]
fn a_limit_in_shadow_admits_requests_without_a_key() {
    let keyed = "key = \"header.x-phone\"\non_missing = \"refuse\"\nrates = [\"2 per 30d\"]";
    for shadow in ["action = \"shadow\"", "when = \"connections > 5\""] {
        let lines = format!("{keyed}\n{shadow}");
        let bench = Bench::new(&[("a", FIVE), ("b", &lines)], &["a", "b"]);
        let (_, report) = bench.admit();
        let notes = report
            .details
            .map_or_else(Vec::new, |details| details.notes);
        let of_b = LimitNote {
            limit: 1,
            event: LimitEvent::ShadowRefused,
        };
        assert_eq!(notes, [of_b], "{shadow}");
    }
    let bench = Bench::new(&[("a", FIVE), ("b", keyed)], &["a", "b"]);
    let decided = bench.decide();
    assert!(matches!(
        decided,
        Admission::Rejected(Rejection::KeyMissing, _)
    ));
}
