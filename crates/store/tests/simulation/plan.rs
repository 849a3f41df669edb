//! Derives from a seed what happens in a run: the fleet, its limits, the requests, the faults.

use std::fmt;
use std::time::Duration;

use super::gateway::{GatewayClock, Routes};
use super::random::Random;
use super::redis::ServerCondition;

/// Faults begin after this time, and all have ended at `HEALED`.
pub(crate) const FAULTS_FROM: u64 = 5_000;
pub(crate) const HEALED: u64 = 38_000;
/// Clients send between these times.
pub(crate) const CLIENTS_FROM: u64 = 3_000;
pub(crate) const CLIENTS_UNTIL: u64 = 40_000;

/// The limits of each route.
pub(crate) const ROUTES: Routes = &[
    &["strict_w", "ledger_strict"],
    &["strict_x", "strict_g", "ledger_strict"],
    &["shared_w", "ledger_shared"],
    &["shared_g", "ledger_shared"],
    &["refunded", "ledger_strict"],
    &["strict_s", "shared_w", "ledger_strict", "ledger_shared"],
];

/// The period of the limits with windows, in seconds.
pub(crate) const WINDOW: u64 = 20;

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// No bytes pass between a gateway and the store, in these directions.
    Partition {
        gateway: u32,
        to_store: bool,
        from_store: bool,
    },
    /// Answers of the store reach a gateway late.
    Slow { gateway: u32 },
    /// The store executes a command, and its answer is lost with the connection.
    LostAnswer { gateway: u32, only_pushes: bool },
    /// The connections of a gateway are reset.
    Reset { gateway: u32 },
    /// The store is gone, and comes back with all keys.
    Restart,
    /// The store is gone, and comes back empty.
    RestartEmpty,
    /// All keys are deleted.
    Flush,
    /// A replica takes over, without the writes of this time.
    Failover,
    /// The store refuses.
    Refusing(ServerCondition),
    /// A gateway is killed; another one starts in its place at the end.
    Kill { gateway: u32 },
    /// A gateway drains and ends.
    Drain { gateway: u32 },
    /// Another gateway starts.
    Join,
    /// A gateway gets another configuration, and another link with it.
    Reload { gateway: u32 },
    /// The wall clock of a gateway steps.
    WallStep { gateway: u32, millis: i64 },
    /// The clock of the store steps.
    StoreStep { millis: i64 },
}

/// A fault with its time, in milliseconds since the beginning of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PlannedFault {
    pub(crate) fault: Fault,
    pub(crate) begins: u64,
    pub(crate) ends: u64,
}

/// The rule of strict limits while the store is unavailable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum OnFailure {
    Local,
    Open,
    Closed,
}

/// Everything that a seed decides.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) gateways: u32,
    pub(crate) clients: u8,
    /// The count of the limits with windows.
    pub(crate) count: u32,
    pub(crate) on_failure: OnFailure,
    pub(crate) sync_interval: u64,
    pub(crate) latency: [u64; 2],
    pub(crate) clocks_differ: bool,
    /// Mean pause between two requests, in milliseconds.
    pub(crate) pause: u64,
    pub(crate) faults: Vec<PlannedFault>,
}

impl fmt::Display for PlannedFault {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |millis: u64| millis as f64 / 1_000.0;
        let Self {
            fault,
            begins,
            ends,
        } = *self;
        write!(
            into,
            "{:.3}–{:.3} s {fault:?}",
            seconds(begins),
            seconds(ends)
        )
    }
}

impl Plan {
    /// Returns the plan of a seed.
    pub(crate) fn new(seed: u64) -> Self {
        let mut random = Random::new(seed, 1);
        let gateways = match random.between(0, 2_999) {
            0 => random.between(100, 300),
            1..20 => random.between(7, 30),
            _ => random.between(2, 6),
        };
        let gateways = gateways as u32;
        let mut plan = Self {
            seed,
            gateways,
            clients: random.between(1, 3) as u8,
            count: random.between(3, 24) as u32,
            on_failure: random.pick(&[
                OnFailure::Local,
                OnFailure::Local,
                OnFailure::Local,
                OnFailure::Closed,
                OnFailure::Open,
            ]),
            sync_interval: random.pick(&[50, 100, 250, 250, 500]),
            latency: random.pick(&[[100, 500], [200, 1_500], [500, 4_000]]),
            clocks_differ: random.one_in(3),
            pause: random.pick(&[15, 30, 60, 120]),
            faults: Vec::new(),
        };
        let number = random.pick(&[0, 1, 1, 2, 2, 3, 4, 5]);
        plan.faults = (0..number).map(|_| plan.fault(&mut random)).collect();
        plan.faults.sort_by_key(|fault| fault.begins);
        plan
    }

    fn fault(&self, random: &mut Random) -> PlannedFault {
        let gateway = random.between(0, u64::from(self.gateways) - 1) as u32;
        let begins = random.between(FAULTS_FROM, HEALED - 5_000);
        let long = random.between(begins + 50, (begins + 14_000).min(HEALED));
        let short = begins + random.between(20, 400);
        let (fault, ends) = match random.between(0, 17) {
            0..4 => {
                let to_store = !random.one_in(3);
                let from_store = !to_store || random.one_in(2);
                let fault = Fault::Partition {
                    gateway,
                    to_store,
                    from_store,
                };
                (fault, long)
            }
            4 => (Fault::Slow { gateway }, long),
            5 | 6 => {
                let only_pushes = random.one_in(2);
                let fault = Fault::LostAnswer {
                    gateway,
                    only_pushes,
                };
                (fault, begins + 2_000)
            }
            7 => (Fault::Reset { gateway }, begins),
            8 => (Fault::Restart, long),
            9 => (Fault::RestartEmpty, long),
            10 => (Fault::Flush, begins),
            11 => (Fault::Failover, short),
            12 => {
                let condition = random.pick(&[
                    ServerCondition::OutOfMemory,
                    ServerCondition::ReadOnly,
                    ServerCondition::Busy,
                    ServerCondition::Loading,
                ]);
                (Fault::Refusing(condition), long)
            }
            13 => (Fault::Kill { gateway }, long),
            14 => match random.one_in(2) {
                true => (Fault::Drain { gateway }, begins + 2_000),
                false => (Fault::Join, begins),
            },
            15 => (Fault::Reload { gateway }, begins),
            16 => {
                let millis = random.between(0, 7_200_000) as i64 - 3_600_000;
                (Fault::WallStep { gateway, millis }, begins)
            }
            _ => {
                let millis = random.between(0, 4_000) as i64 - 2_000;
                (Fault::StoreStep { millis }, begins)
            }
        };
        PlannedFault {
            fault,
            begins,
            ends,
        }
    }

    /// Returns the clock of a gateway that starts.
    pub(crate) fn clock(&self, random: &mut Random) -> GatewayClock {
        if !self.clocks_differ {
            return GatewayClock::default();
        }
        let signed =
            |random: &mut Random, most: u64| random.between(0, 2 * most) as i64 - most as i64;
        GatewayClock {
            ahead: signed(random, 1_500) * 1_000_000,
            drift: signed(random, 200) * 1_000,
            wall_ahead: 0,
        }
    }

    /// Returns the configuration; another one differs in the timeout alone.
    pub(crate) fn configuration(&self, timeout: u64) -> String {
        let Self {
            gateways,
            count,
            sync_interval,
            ..
        } = self;
        let on_failure = match self.on_failure {
            OnFailure::Local => "local",
            OnFailure::Open => "open",
            OnFailure::Closed => "closed",
        };
        let mut text = format!(
            "[[listener]]\naddress = \"127.0.0.1:80\"\n[store]\nurl = \"redis://10.0.0.1\"\ngateways = {gateways}\n\
             sync_interval = \"{sync_interval}ms\"\ntimeout = \"{timeout}ms\"\nsync_timeout = \"2s\"\n\
             [[route]]\npath = \"/\"\nrespond = {{ status = 200 }}\n"
        );
        let mut limit = |name: &str, rate: String, algorithm: &str, store: &str, more: &str| {
            text.push_str(&format!(
                "[limit.{name}]\nkey = \"client.ip\"\nrates = [\"{rate}\"]\nalgorithm = \"{algorithm}\"\n\
                 store = \"{store}\"\ncapacity = 64\n{more}\n"
            ));
        };
        let on_failure = format!("on_store_failure = \"{on_failure}\"");
        let window = format!("{count} per {WINDOW}s");
        let strict = "shared-strict";
        limit(
            "strict_w",
            window.clone(),
            "fixed-window",
            strict,
            &on_failure,
        );
        limit(
            "strict_x",
            "5 per 10s".to_owned(),
            "exact",
            strict,
            &on_failure,
        );
        limit("strict_g", window.clone(), "gcra", strict, &on_failure);
        limit(
            "strict_s",
            window.clone(),
            "sliding-window",
            strict,
            &on_failure,
        );
        limit("shared_w", window.clone(), "fixed-window", "shared", "");
        limit("shared_g", window, "gcra", "shared", "");
        let hour = || "100000 per 1h".to_owned();
        limit("ledger_strict", hour(), "fixed-window", strict, "");
        limit("ledger_shared", hour(), "fixed-window", "shared", "");
        let count_if = "count_if = \"response.status in [200]\"";
        limit("refunded", hour(), "fixed-window", strict, count_if);
        text
    }

    /// Returns whether a fault of this kind is planned.
    pub(crate) fn has(&self, kind: impl Fn(&Fault) -> bool) -> bool {
        self.faults.iter().any(|planned| kind(&planned.fault))
    }

    /// Returns whether the store loses keys.
    pub(crate) fn loses_keys(&self) -> bool {
        self.has(Fault::loses_keys)
    }

    /// Returns whether a gateway ends without sending all that it has.
    pub(crate) fn loses_gateways(&self) -> bool {
        self.has(|fault| matches!(fault, Fault::Kill { .. } | Fault::Drain { .. }))
    }
}

impl Fault {
    pub(crate) fn loses_keys(&self) -> bool {
        matches!(self, Self::RestartEmpty | Self::Flush | Self::Failover)
    }
}

/// Returns so many milliseconds.
pub(crate) fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
