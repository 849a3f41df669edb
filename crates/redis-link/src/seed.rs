//! Agrees with the fleet on the seed under which keys are hashed, as long as the link lives.
//!
//! The seed lies in the store, and each process that holds one confirms it beside the seed every second (`seed.lua`). The holders write
//! back a seed that is deleted; a seed that another process or a third party has put in its place loses to the one that more processes
//! hold. A process that starts brings a seed only where no process holds one.
//!
//! A process whose seed is in the minority does not change it at once: after a loss the others may not have been heard yet. It changes
//! after [`MINORITY_PATIENCE`] in the minority; one that has held its seed for less than that has nothing to lose, and changes at once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use tracing::{info, warn};

use crate::LOG_TARGET;
use crate::breaker::jittered;
use crate::call::{Call, CallUrgency, Reply};
use crate::environment::LinkEnvironment;
use crate::link_state::LinkState;
use crate::membership::HEARTBEAT_INTERVAL;
use crate::redirection::follow;
use crate::settings::LinkSettings;
use crate::time::Moment;
use crate::topology::ServerMap;

/// The pause before the next query where there is no seed yet.
const SOON: Duration = Duration::from_millis(100);
/// The time for which a process keeps a seed that is in the minority: until all others must have been heard.
const MINORITY_PATIENCE: Duration = Duration::from_secs(10);

/// The silence after which a process has no voice about the seed. A slow exchange and the pause before it are shorter.
const VOICE_TIMEOUT: Duration = Duration::from_secs(5);

const SCRIPT: &str = include_str!("seed.lua");

type SeedBytes = [u8; 16];

/// The answer of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeedAnswer {
    /// This seed is in force.
    Agreed(SeedBytes),
    /// The seed that this process holds was written back.
    Restored,
    /// Other processes hold a seed that is not in the store.
    Undecided,
}

/// The seed that this process holds or offers.
struct SeedProposal {
    /// The seed that is offered where no process holds one.
    fresh: SeedBytes,
    held: Option<(SeedBytes, Moment)>,
    /// The time since which more processes hold another seed.
    in_minority_since: Option<Moment>,
}

/// Fetches or offers the seed, and confirms it until the link is dropped.
pub(crate) async fn agree(
    map: Weak<ArcSwap<ServerMap>>,
    settings: Arc<LinkSettings>,
    shared: Arc<LinkState>,
) {
    if settings.seed.is_some() {
        return;
    }
    let Some(mut proposal) = SeedProposal::new(&shared, &*settings.environment) else {
        // Without one there is nothing to bring, and strict limits find no keys: the same as a store that is away.
        warn!(target: LOG_TARGET, "store: no seed, since the system has no random numbers");
        return;
    };
    loop {
        let Some(map) = map.upgrade() else { return };
        let call = Arc::new(proposal.call(
            &settings.prefix,
            shared.nodes.name(),
            settings.environment.now(),
        ));
        let urgency = CallUrgency::Exchange;
        let reply = follow(&map, &settings, &shared, &call, Some(SCRIPT), urgency).await;
        drop(map);
        if let Some(answer) = reply.ok().as_ref().and_then(SeedAnswer::read) {
            proposal.apply(answer, &shared, settings.environment.now());
        }
        let pause = if proposal.held.is_some() {
            HEARTBEAT_INTERVAL
        } else {
            SOON
        };
        let pause = jittered(pause, settings.environment.jitter());
        tokio::select! {
            biased;
            () = tokio::time::sleep(pause) => {}
            () = shared.reached.notified() => {}
        }
    }
}

impl SeedProposal {
    fn new(shared: &LinkState, environment: &dyn LinkEnvironment) -> Option<Self> {
        let fresh = match shared.inherited_seed {
            Some(inherited_seed) => inherited_seed.0,
            None => {
                let high = u128::from(environment.random()?) << 64;
                (high | u128::from(environment.random()?)).to_be_bytes()
            }
        };
        Some(Self {
            fresh,
            held: None,
            in_minority_since: None,
        })
    }

    /// Returns the call; its two keys lie in one slot.
    fn call(&self, prefix: &str, name: String, now: Moment) -> Call {
        let (seed, held) = match self.held {
            None => (self.fresh, "-1".to_owned()),
            Some((seed, since)) => (seed, now.saturating_since(since).as_millis().to_string()),
        };
        let silence = VOICE_TIMEOUT.as_millis().to_string();
        let keys = [
            format!("{prefix}:seed"),
            format!("{prefix}:{{{prefix}:seed}}:held"),
        ];
        Call {
            keys: keys.map(String::into_bytes).to_vec(),
            args: vec![name.into(), seed.to_vec(), held.into(), silence.into()],
        }
    }

    fn apply(&mut self, answer: SeedAnswer, shared: &LinkState, now: Moment) {
        let seed = match answer {
            SeedAnswer::Agreed(seed) => seed,
            SeedAnswer::Undecided => return,
            SeedAnswer::Restored => {
                self.in_minority_since = None;
                info!(target: LOG_TARGET, "store: seed restored, it was missing or different");
                return;
            }
        };
        if let Some((held, since)) = self.held
            && held != seed
        {
            if !self.follows(since, now) {
                return;
            }
            warn!(target: LOG_TARGET, "store: seed changed to that of more gateways, so counters begin anew here");
        }
        self.in_minority_since = None;
        if self.held.is_none_or(|(held, _)| held != seed) {
            self.held = Some((seed, now));
            shared.seed.store(Some(Arc::new(seed)));
        }
    }

    /// Returns whether this process, which has held its seed since `since`, gives in to the majority.
    fn follows(&mut self, since: Moment, now: Moment) -> bool {
        let in_minority_since = *self.in_minority_since.get_or_insert(now);
        now.saturating_since(since) < MINORITY_PATIENCE
            || now.saturating_since(in_minority_since) >= MINORITY_PATIENCE
    }
}

impl SeedAnswer {
    fn read(reply: &Reply) -> Option<Self> {
        let Reply::Rows(fields) = reply else {
            return None;
        };
        match &fields[..] {
            [Reply::Integer(0), Reply::Bytes(seed)] => {
                Some(Self::Agreed(<SeedBytes>::try_from(&seed[..]).ok()?))
            }
            [Reply::Integer(1), _] => Some(Self::Restored),
            [Reply::Integer(2), _] => Some(Self::Undecided),
            _ => None,
        }
    }
}
