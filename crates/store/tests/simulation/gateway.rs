//! Runs one gateway: the real store, link, sync and admission, with a clock, random numbers and sockets of the simulation.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http::{HeaderMap, Method, StatusCode};
use sluicegate_base::crawler::{ClientCrawler, CrawlerRegistry, CrawlerRequest};
use sluicegate_base::geo::{ClientPlace, GeoDatabases};
use sluicegate_base::jwt::PresentedToken;
use sluicegate_base::received::ReceivedFields;
use sluicegate_config::{no_review, parse};
use sluicegate_decide::admission::{
    ActiveLimit, Admission, ChargeTiming, FinalResponse, KeySeed, KnownBody, LimitEnvironment,
    LimitProgress, RequestEnd, RequestFacts, ResponseSource, RouteLimits, evaluate,
};
use sluicegate_decide::client::PeerTrust;
use sluicegate_decide::in_force::InForce;
use sluicegate_decide::rejection::{MissingKeys, Rejection};
use sluicegate_decide::state::{CounterStorage, PersistenceMode};
use sluicegate_decide::store::{ChargeResult, CountingStore, StoreFailure};
use sluicegate_limiter::{Seed, Timestamp};
use sluicegate_redis_link::{
    CallResult, LinkEnvironment, LinkEvent, LinkObserver, Moment, OpeningStream, ServerAddress,
};
use sluicegate_store::{Store, SyncTask};
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::network::Network;
use super::random::Random;
use super::world::{BASE, World, lock};

/// The clock, the random numbers and the network of one gateway.
pub(crate) struct SimulatedEnvironment {
    gateway: u32,
    world: Arc<World>,
    network: Arc<Network>,
    clock: Mutex<GatewayClock>,
    random: Mutex<Random>,
}

/// A clock that differs from true time.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct GatewayClock {
    /// Nanoseconds ahead.
    pub(crate) ahead: i64,
    /// Nanoseconds gained in each second.
    pub(crate) drift: i64,
    /// Nanoseconds by which the wall clock is ahead of that.
    pub(crate) wall_ahead: i64,
}

impl SimulatedEnvironment {
    fn nanos(&self) -> u64 {
        let clock = *lock(&self.clock);
        let elapsed = self.world.elapsed();
        let gained = clock.drift * elapsed.as_millis() as i64 / 1_000;
        (BASE + elapsed.as_nanos() as u64).saturating_add_signed(clock.ahead + gained)
    }
}

impl fmt::Debug for SimulatedEnvironment {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        into.debug_tuple("SimulatedEnvironment")
            .field(&self.gateway)
            .finish()
    }
}

impl LinkEnvironment for SimulatedEnvironment {
    fn now(&self) -> Moment {
        Moment::from_nanos(self.nanos())
    }

    fn wall(&self) -> Moment {
        let ahead = lock(&self.clock).wall_ahead;
        Moment::from_nanos(self.nanos().saturating_add_signed(ahead))
    }

    fn random(&self) -> Option<u64> {
        Some(lock(&self.random).next())
    }

    fn open<'a>(&'a self, _: &'a ServerAddress) -> OpeningStream<'a> {
        Box::pin(self.network.open(self.gateway))
    }
}

/// Counts nothing.
#[derive(Debug)]
struct NoCounts;

impl LinkObserver for NoCounts {
    fn count_call(&self, _: CallResult, _: Duration) {}

    fn count_event(&self, _: LinkEvent) {}
}

/// What a gateway made of one request.
#[derive(Clone, Debug)]
pub(crate) struct Served {
    pub(crate) gateway: u32,
    pub(crate) route: usize,
    pub(crate) client: u8,
    /// True time of the answer.
    pub(crate) at: Duration,
    /// The time of the request by the gateway's clock.
    pub(crate) gateway_time: Timestamp,
    /// False before the gateway knew the seed of the fleet: its keys have no names in the store.
    pub(crate) has_seed: bool,
    pub(crate) is_admitted: bool,
    /// Units that the response gave back.
    pub(crate) is_refunded: bool,
    /// The time of the latest answer of the store, by its clock.
    pub(crate) store_time: Option<Timestamp>,
    /// True if the store charged it.
    pub(crate) is_charged_in_store: bool,
    pub(crate) failure: Option<StoreFailure>,
    /// The index on the route of the limit that rejects, and the wait.
    pub(crate) rejected_by: Option<u8>,
    pub(crate) wait: Duration,
    /// What remains of the first limit.
    pub(crate) remaining: Option<u32>,
}

/// The configuration in force at a gateway.
struct Loaded {
    store: Arc<Store>,
    limits: Vec<Arc<ActiveLimit>>,
    routes: Vec<RouteLimits>,
}

/// One gateway.
pub(crate) struct Gateway {
    pub(crate) id: u32,
    environment: Arc<SimulatedEnvironment>,
    storage: CounterStorage,
    seed: KeySeed,
    loaded: Mutex<Option<Arc<Loaded>>>,
    draining: watch::Sender<bool>,
    tasks: Mutex<Vec<AbortHandle>>,
}

/// The limits of each route, by name.
pub(crate) type Routes = &'static [&'static [&'static str]];

impl Gateway {
    /// Starts a gateway with this configuration.
    pub(crate) fn start(
        id: u32,
        network: &Arc<Network>,
        world: &Arc<World>,
        clock: GatewayClock,
        mut random: Random,
        configured: (&str, Routes),
    ) -> Arc<Self> {
        let (storage, _) = CounterStorage::open(PersistenceMode::Process).expect("a storage");
        let seed = [random.next().to_be_bytes(), random.next().to_be_bytes()].concat();
        let seed: [u8; 16] = seed.try_into().expect("16 bytes");
        let gateway = Arc::new(Self {
            id,
            environment: Arc::new(SimulatedEnvironment {
                gateway: id,
                world: Arc::clone(world),
                network: Arc::clone(network),
                clock: Mutex::new(clock),
                random: Mutex::new(random),
            }),
            storage,
            seed: KeySeed::from_seed(Seed::from_bytes(seed)),
            loaded: Mutex::default(),
            draining: watch::Sender::new(false),
            tasks: Mutex::default(),
        });
        gateway.load(configured);
        let in_force = Arc::downgrade(&gateway);
        let store = InForce::new(move || {
            let gateway = in_force.upgrade()?;
            let loaded = lock(&gateway.loaded);
            loaded.as_ref().map(|loaded| Arc::clone(&loaded.store))
        });
        let task = SyncTask { store };
        let draining = gateway.draining.subscribe();
        gateway.spawn(async move { task.run(draining).await });
        gateway
    }

    /// Puts a configuration in force, the first or another.
    pub(crate) fn load(&self, configured: (&str, Routes)) {
        let (text, routes) = configured;
        let rules = parse("gateway.toml", text, no_review)
            .expect("a configuration")
            .rules;
        let previous = lock(&self.loaded).clone();
        let store = rules.store.clone().expect("a store");
        let kept = previous.as_ref().map(|loaded| &loaded.store);
        let store = match kept {
            Some(kept) if *kept.rules() == store => Arc::clone(kept),
            _ => {
                let environment = Arc::clone(&self.environment) as Arc<dyn LinkEnvironment>;
                let before = kept.map(|store| &**store);
                let store = Store::new(store, None, environment, Arc::new(NoCounts), before);
                store.start_on_current_runtime();
                Arc::new(store)
            }
        };
        let counting = Arc::clone(&store) as Arc<dyn CountingStore>;
        let environment = LimitEnvironment {
            storage: &self.storage,
            store: Some(&counting),
            seed: &self.seed,
            key_texts: None,
            now: self.now(),
        };
        let limits: Vec<_> = rules
            .limits
            .iter()
            .map(|(name, rules)| {
                let before = previous.as_ref().map_or(&[][..], |loaded| &loaded.limits);
                let before = before.iter().find(|limit| limit.name == *name);
                let before = before.map(|limit| &**limit);
                Arc::new(ActiveLimit::new(name, rules, before, environment))
            })
            .collect();
        let named = |name: &str| limits.iter().find(|limit| &*limit.name == name).cloned();
        let routes = routes.iter().map(|names| {
            let written = names.iter().filter_map(|name| named(name)).collect();
            RouteLimits::new(written, named)
        });
        let loaded = Loaded {
            store,
            routes: routes.collect(),
            limits: limits.clone(),
        };
        *lock(&self.loaded) = Some(Arc::new(loaded));
    }

    fn now(&self) -> Timestamp {
        Timestamp::from_nanos(self.environment.nanos())
    }

    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        lock(&self.tasks).push(tokio::spawn(task).abort_handle());
    }

    /// Steps the wall clock, which the time of limits does not follow.
    pub(crate) fn step_wall(&self, nanos: i64) {
        lock(&self.environment.clock).wall_ahead += nanos;
    }

    /// Ends the gateway at once.
    pub(crate) fn kill(&self) {
        lock(&self.tasks).drain(..).for_each(|task| task.abort());
        *lock(&self.loaded) = None;
    }

    /// Begins to drain.
    pub(crate) fn drain(&self) {
        self.draining.send_replace(true);
    }

    pub(crate) fn is_running(&self) -> bool {
        lock(&self.loaded).is_some()
    }

    /// Returns whether the store decides about every key.
    pub(crate) fn decides_by_store(&self) -> bool {
        let loaded = lock(&self.loaded);
        loaded
            .as_ref()
            .is_some_and(|it| it.store.decides_all_keys())
    }

    /// Returns the number of gateways that this one knows of.
    pub(crate) fn known_gateways(&self) -> Option<NonZeroU32> {
        let loaded = lock(&self.loaded);
        loaded.as_ref().map(|it| it.store.nodes())
    }

    /// Decides a request, and settles it by a response that counts or not; `None` if the gateway ended.
    pub(crate) async fn request(&self, route: usize, client: u8, counts: bool) -> Option<Served> {
        let loaded = lock(&self.loaded).clone()?;
        let now = self.now();
        let mut served = Served {
            gateway: self.id,
            route,
            client,
            at: Duration::ZERO,
            gateway_time: now,
            has_seed: CountingStore::seed(&*loaded.store).is_some(),
            is_admitted: false,
            is_refunded: false,
            store_time: None,
            is_charged_in_store: false,
            failure: None,
            rejected_by: None,
            wait: Duration::ZERO,
            remaining: None,
        };
        let mut progress = self.evaluate(loaded.routes.get(route)?, client, now);
        let admission = loop {
            progress = match progress {
                LimitProgress::Decided(admission) => break admission,
                LimitProgress::AskStore(question) => {
                    let answer = loaded.store.decide(question.call(), now).await;
                    match &answer {
                        Ok(answer) => {
                            served.store_time = Some(answer.now);
                            served.is_charged_in_store =
                                answer.charge_result == ChargeResult::Charged;
                        }
                        Err(failure) => served.failure = Some(*failure),
                    }
                    question.answer(answer, now)
                }
            };
        };
        served.at = self.environment.world.elapsed();
        match admission {
            Admission::Admitted(mut admitted, report) => {
                served.is_admitted = true;
                let verdict = report.as_ref().map(|report| &report.verdict);
                let first = verdict.and_then(|verdict| verdict.decisions().first());
                served.remaining = first.map(|decision| decision.remaining());
                served.is_refunded = !counts && admitted.is_pending();
                let status = match counts {
                    true => StatusCode::OK,
                    false => StatusCode::NOT_FOUND,
                };
                let response = FinalResponse {
                    by: ResponseSource::Origin,
                    status,
                    fields: &HeaderMap::new(),
                };
                let now = self.now();
                let _ = admitted.settle(Some(response), now);
                let _ = admitted.end(&RequestEnd::default(), now);
            }
            Admission::Rejected(rejection, _) => {
                if let Rejection::ByLimit(by) = rejection {
                    served.rejected_by = Some(by.limit);
                    served.wait = by.wait;
                }
            }
        }
        self.environment.world.note(format_args!("{served:?}"));
        Some(served)
    }

    fn evaluate<'l>(
        &self,
        limits: &'l RouteLimits,
        client: u8,
        now: Timestamp,
    ) -> LimitProgress<'l> {
        let client = IpAddr::from(Ipv4Addr::new(10, 0, 0, client));
        let headers = ReceivedFields::new();
        let databases = GeoDatabases::default();
        let crawlers = CrawlerRegistry::default();
        let facts = RequestFacts {
            client,
            place: &ClientPlace::new(&databases, client),
            crawler: &ClientCrawler::new(
                &crawlers,
                CrawlerRequest::without_target(client, &headers),
            ),
            hop: PeerTrust::Stranger,
            host: "",
            path: "/",
            segments: "/",
            method: &Method::GET,
            headers: &headers,
            query: "",
            pattern: None,
            token: &PresentedToken::new(None, &headers),
            secured: None,
            body: KnownBody::Unread,
            hits: NonZeroU32::MIN,
            now,
            recorded: &[],
            reserves: &[],
        };
        let mut missing = MissingKeys::default();
        evaluate(
            limits,
            &facts,
            &self.seed,
            ChargeTiming::AtOnce,
            &mut missing,
        )
    }
}
