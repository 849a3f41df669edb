//! Runs one plan from its first gateway to the last check.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::runtime::Builder;
use tokio::time::{Instant, sleep, sleep_until};

use super::checks::{self, Evidence, FinalBurst};
use super::gateway::{Gateway, Served};
use super::network::{LostAnswers, Network};
use super::plan::{
    CLIENTS_FROM, CLIENTS_UNTIL, Fault, HEALED, Plan, PlannedFault, ROUTES, WINDOW, millis,
};
use super::random::Random;
use super::redis::{RedisModel, ServerCondition, TextEdit};
use super::world::{Recording, World, lock};

/// The result of a run.
#[derive(Debug)]
pub(crate) struct RunResult {
    /// The violated checks, each with what was found.
    pub(crate) violations: Vec<String>,
    /// The hash of all events.
    pub(crate) hash: u64,
    pub(crate) lines: Vec<String>,
    /// Units that were admitted, and that the store should have had back whatever the plan was.
    pub(crate) unrestored: u64,
    /// The texts that were replaced in scripts.
    pub(crate) replaced: usize,
    pub(crate) requests: usize,
}

/// A fleet that runs.
pub(crate) struct Fleet {
    pub(crate) plan: Plan,
    pub(crate) world: Arc<World>,
    network: Arc<Network>,
    /// All gateways, those that ended included.
    gateways: Mutex<BTreeMap<u32, Arc<Gateway>>>,
    served: Mutex<Vec<Served>>,
    /// Requests that a gateway had not answered when it ended.
    unanswered: Mutex<u64>,
    random: Mutex<Random>,
    start: Instant,
}

/// Runs a plan, with these texts replaced in scripts.
pub(crate) fn run(plan: &Plan, edits: &[TextEdit], recording: Recording) -> RunResult {
    let runtime = Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let redis = RedisModel {
            edits: edits.to_vec(),
            ..RedisModel::default()
        };
        let world = Arc::new(World::new(redis, recording));
        let network = Network::new(Arc::clone(&world), Random::new(plan.seed, 2));
        let fleet = Arc::new(Fleet {
            plan: plan.clone(),
            world,
            network: Arc::new(network),
            gateways: Mutex::default(),
            served: Mutex::default(),
            unanswered: Mutex::default(),
            random: Mutex::new(Random::new(plan.seed, 3)),
            start: Instant::now(),
        });
        fleet.run().await
    })
}

impl Fleet {
    async fn run(self: Arc<Self>) -> RunResult {
        for id in 0..self.plan.gateways {
            self.start_gateway(id);
            let pause = lock(&self.random).between(0, 2_000 / u64::from(self.plan.gateways));
            sleep(millis(pause)).await;
        }
        for planned in self.plan.faults.clone() {
            let fleet = Arc::clone(&self);
            tokio::spawn(async move { fleet.apply(planned).await });
        }
        let clients = tokio::spawn(Arc::clone(&self).send_requests());
        self.until(HEALED).await;
        self.heal();
        let late = self.recover().await;
        let _ = clients.await;
        let evidence = self.evidence(late).await;
        let mut violations = checks::check(&self.plan, &evidence);
        let burst = self.final_bursts().await;
        violations.extend(checks::check_final(&self.plan, &burst));
        self.world.note(format_args!("violations: {violations:?}"));
        RunResult {
            violations,
            unrestored: checks::unrestored(&evidence),
            hash: self.world.hash(),
            lines: self.world.take_lines(),
            replaced: self.world.redis().replaced,
            requests: lock(&self.served).len(),
        }
    }

    async fn until(&self, at: u64) {
        sleep_until(self.start + millis(at)).await;
    }

    fn start_gateway(&self, id: u32) {
        let (clock, random) = {
            let mut random = lock(&self.random);
            (self.plan.clock(&mut random), Random::new(random.next(), 4))
        };
        self.network.add(id, self.plan.latency);
        let text = self.plan.configuration(20);
        let gateway = Gateway::start(
            id,
            &self.network,
            &self.world,
            clock,
            random,
            (&text, ROUTES),
        );
        self.world
            .note(format_args!("gateway {id} starts, {clock:?}"));
        lock(&self.gateways).insert(id, gateway);
    }

    /// Returns the gateways that run.
    fn running(&self) -> Vec<Arc<Gateway>> {
        let gateways = lock(&self.gateways);
        let running = gateways.values().filter(|gateway| gateway.is_running());
        running.cloned().collect()
    }

    fn gateway(&self, id: u32) -> Option<Arc<Gateway>> {
        let gateway = lock(&self.gateways).get(&id).cloned();
        gateway.filter(|gateway| gateway.is_running())
    }

    fn kill(&self, id: u32) {
        if let Some(gateway) = self.gateway(id)
            && self.running().len() > 1
        {
            gateway.kill();
            self.network.change(id, |path| {
                path.resets += 1;
                path.refuses = true;
            });
        }
    }

    fn start_another(&self) {
        let id = lock(&self.gateways).len() as u32;
        self.start_gateway(id);
    }

    async fn apply(self: Arc<Self>, planned: PlannedFault) {
        self.until(planned.begins).await;
        self.world.note(format_args!("begins: {planned}"));
        self.begin(planned.fault);
        if planned.ends > planned.begins {
            self.until(planned.ends).await;
            self.world.note(format_args!("ends: {planned}"));
            self.end(planned.fault);
        }
    }

    fn begin(&self, fault: Fault) {
        let network = &self.network;
        match fault {
            Fault::Partition {
                gateway,
                to_store,
                from_store,
            } => network.change(gateway, |path| {
                path.to_store_blocked |= to_store;
                path.from_store_blocked |= from_store;
            }),
            Fault::Slow { gateway } => {
                network.change(gateway, |path| path.latency = [8_000, 60_000]);
            }
            Fault::LostAnswer {
                gateway,
                only_pushes,
            } => network.change(gateway, |path| {
                path.lost = match only_pushes {
                    true => LostAnswers::NextPush,
                    false => LostAnswers::Next,
                }
            }),
            Fault::Reset { gateway } => network.change(gateway, |path| path.resets += 1),
            Fault::Restart | Fault::RestartEmpty => network.change_all(|path| {
                path.refuses = true;
                path.resets += 1;
            }),
            Fault::Flush => lock(&self.world.redis().keys).clear(),
            Fault::Failover => {
                let mut redis = self.world.redis();
                let keys = lock(&redis.keys).clone();
                redis.replica = Some(keys);
            }
            Fault::Refusing(condition) => self.world.redis().condition = condition,
            Fault::Kill { gateway } => self.kill(gateway),
            Fault::Drain { gateway } => {
                if let Some(gateway) = self.gateway(gateway) {
                    gateway.drain();
                }
            }
            Fault::Join => self.start_another(),
            Fault::Reload { gateway } => {
                if let Some(gateway) = self.gateway(gateway) {
                    gateway.load((&self.plan.configuration(21), ROUTES));
                }
            }
            Fault::WallStep { gateway, millis } => {
                if let Some(gateway) = self.gateway(gateway) {
                    gateway.step_wall(millis * 1_000_000);
                }
            }
            Fault::StoreStep { millis } => self.world.step_store(millis * 1_000_000),
        }
    }

    fn end(&self, fault: Fault) {
        let network = &self.network;
        let latency = self.plan.latency;
        match fault {
            Fault::Partition { gateway, .. } => network.change(gateway, |path| {
                path.to_store_blocked = false;
                path.from_store_blocked = false;
            }),
            Fault::Slow { gateway } => network.change(gateway, |path| path.latency = latency),
            Fault::LostAnswer { gateway, .. } => {
                network.change(gateway, |path| path.lost = LostAnswers::None);
            }
            Fault::Restart | Fault::RestartEmpty => {
                self.world.redis().forget_scripts();
                if fault == Fault::RestartEmpty {
                    lock(&self.world.redis().keys).clear();
                }
                self.accept();
            }
            Fault::Failover => {
                let mut redis = self.world.redis();
                redis.forget_scripts();
                if let Some(replica) = redis.replica.take() {
                    *lock(&redis.keys) = replica;
                }
                drop(redis);
                network.change_all(|path| path.resets += 1);
            }
            Fault::Refusing(_) => self.world.redis().condition = ServerCondition::Serving,
            Fault::Kill { .. } => self.start_another(),
            Fault::Drain { gateway } => self.kill(gateway),
            _ => {}
        }
    }

    /// Lets gateways that run connect.
    fn accept(&self) {
        for gateway in self.running() {
            self.network.change(gateway.id, |path| path.refuses = false);
        }
    }

    fn heal(&self) {
        self.world.note(format_args!("all is healed"));
        let latency = self.plan.latency;
        self.network.change_all(|path| {
            path.to_store_blocked = false;
            path.from_store_blocked = false;
            path.lost = LostAnswers::None;
            path.latency = latency;
        });
        self.world.redis().condition = ServerCondition::Serving;
        self.accept();
    }

    /// Waits until every gateway decides by the store, and returns the gateways for which that took too long.
    async fn recover(&self) -> Vec<u32> {
        let patience = match self.plan.loses_keys() || self.plan.loses_gateways() {
            true => 20_000,
            false => 9_000,
        };
        self.until(HEALED + patience).await;
        let late = self.running().into_iter();
        let late = late.filter(|gateway| !gateway.decides_by_store());
        late.map(|gateway| gateway.id).collect()
    }

    /// Sends one request through a gateway.
    async fn request(&self, gateway: Arc<Gateway>, route: usize, client: u8, counts: bool) {
        let served = gateway.request(route, client, counts).await;
        match served {
            Some(served) if gateway.is_running() => lock(&self.served).push(served),
            _ => *lock(&self.unanswered) += 1,
        }
    }

    async fn send_requests(self: Arc<Self>) {
        self.until(CLIENTS_FROM).await;
        let mut random = Random::new(self.plan.seed, 5);
        let favourite = random.between(0, ROUTES.len() as u64 - 1) as usize;
        while self.start.elapsed() < millis(CLIENTS_UNTIL) {
            let gateways = self.running();
            let route = match random.one_in(3) {
                true => favourite,
                false => random.between(0, ROUTES.len() as u64 - 1) as usize,
            };
            let client = random.between(1, u64::from(self.plan.clients)) as u8;
            let number = match random.between(0, 59) {
                // All gateways at the same moment.
                0 => gateways.len() * random.between(1, 4) as usize,
                1 => random.between(2, 30) as usize,
                _ => 1,
            };
            let first = random.between(0, gateways.len() as u64 - 1) as usize;
            let spreads = random.one_in(2);
            for at in 0..number {
                let at = if spreads { first + at } else { first };
                let gateway = Arc::clone(&gateways[at % gateways.len()]);
                let counts = !random.one_in(4);
                let fleet = Arc::clone(&self);
                tokio::spawn(async move { fleet.request(gateway, route, client, counts).await });
            }
            let pause = self.plan.pause;
            sleep(millis(random.between(1, 2 * pause - 1))).await;
        }
        // The latest answers and settlements.
        sleep(millis(200)).await;
    }

    async fn evidence(&self, late: Vec<u32>) -> Evidence {
        // Syncs have sent everything.
        sleep(millis(3_000)).await;
        let running = self.running();
        let started = lock(&self.gateways).len();
        let served = lock(&self.served).clone();
        let unanswered = *lock(&self.unanswered);
        let known = running.iter().filter_map(|it| it.known_gateways());
        let redis = self.world.redis();
        let keys = lock(&redis.keys);
        Evidence {
            served,
            unanswered,
            running: running.iter().map(|gateway| gateway.id).collect(),
            started,
            late,
            known: known.map(u32::from).collect(),
            strict_ledger: keys.counted(":ledger_strict", "w3600"),
            shared_ledger: keys.counted(":ledger_shared", "w3600"),
            refunded: keys.counted(":refunded", "w3600"),
        }
    }

    /// Idles for the longest period, then fills each limit once more.
    async fn final_bursts(self: &Arc<Self>) -> Vec<FinalBurst> {
        let mut bursts = Vec::new();
        let drained = self.start.elapsed() + Duration::from_secs(2 * WINDOW + 5);
        sleep_until(self.start + drained).await;
        // Limits of different routes of a group do not share keys.
        for group in [&[0, 1, 2][..], &[5]] {
            // The beginning of a window, by the store's clock.
            let now = self.world.store_nanos();
            let window = WINDOW * 1_000_000_000;
            sleep(Duration::from_nanos(window - now % window + 1_000_000_000)).await;
            let gateways = self.running();
            let before = lock(&self.served).len();
            for route in group {
                // Of replicated limits several gateways admit an excess.
                let is_shared = matches!(route, 2 | 5);
                for at in 0..self.plan.count as usize + 4 {
                    let at = if is_shared { 0 } else { at % gateways.len() };
                    let gateway = Arc::clone(&gateways[at]);
                    let fleet = Arc::clone(self);
                    let route = *route;
                    tokio::spawn(async move { fleet.request(gateway, route, 1, true).await });
                }
            }
            sleep(millis(1_500)).await;
            let served = lock(&self.served)[before..].to_vec();
            for route in group {
                let of_route = served.iter().filter(|served| served.route == *route);
                let served: Vec<Served> = of_route.cloned().collect();
                let retry = match route {
                    0 => self.retry(&gateways[0], *route, &served).await,
                    _ => None,
                };
                bursts.push(FinalBurst {
                    route: *route,
                    served,
                    retry,
                });
            }
        }
        bursts
    }

    /// Sends a request just before and one just after the wait of a rejection is over, and returns both.
    async fn retry(
        self: &Arc<Self>,
        gateway: &Arc<Gateway>,
        route: usize,
        served: &[Served],
    ) -> Option<[Served; 2]> {
        let rejected = served.iter().rfind(|served| !served.is_admitted)?;
        let until = rejected.store_time?.saturating_add(rejected.wait);
        let left = until.as_nanos().checked_sub(self.world.store_nanos())?;
        let margin = millis(40);
        sleep(Duration::from_nanos(left).checked_sub(margin)?).await;
        let before = gateway.request(route, 1, true).await?;
        sleep(margin * 2).await;
        let after = gateway.request(route, 1, true).await?;
        Some([before, after])
    }
}
