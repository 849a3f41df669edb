//! Agrees with the fleet on the seed that keys are hashed under, for as long as the link lives.
//!
//! The seed lies in the store, and each gateway that holds one says so beside it every second (`seed.lua`). A seed that is deleted is
//! written back by those who hold it, and one that another gateway or a stranger has put in its place gives way to that which more
//! gateways hold. A gateway that starts brings a seed only where nobody holds one.
//!
//! A gateway that is outvoted does not follow at once: after a loss the others may not have spoken yet. It follows when it was outvoted
//! for [`PATIENCE`]; one that holds its seed for less than that has nothing to lose, and follows at once.

use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::LOG_TARGET;
use crate::time::Moment;
use arc_swap::ArcSwap;
use tracing::{info, warn};

use crate::breaker::jittered;
use crate::call::{Call, Reply};
use crate::connection::random;
use crate::link::{LinkState, follow};
use crate::membership::{BEAT, GONE};
use crate::settings::LinkSettings;
use crate::topology::ServerMap;

/// How soon it is asked again where there is no seed yet.
const SOON: Duration = Duration::from_millis(100);
/// How long a gateway keeps the seed that it holds though more gateways hold another: until everybody else must have spoken.
const PATIENCE: Duration = Duration::from_secs(10);

const SCRIPT: &str = include_str!("seed.lua");

type SeedBytes = [u8; 16];

/// What the store says of the seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SeedAnswer {
    /// This one is in force.
    Agreed(SeedBytes),
    /// The one that this gateway holds was written back.
    Restored,
    /// Others hold one that is not there.
    Undecided,
}

/// What this gateway holds or offers.
struct SeedProposal {
    /// Offered where nobody holds one.
    fresh: SeedBytes,
    held: Option<(SeedBytes, Moment)>,
    /// Since when more gateways hold another.
    outvoted: Option<Moment>,
}

/// Fetches the seed, or brings it, and looks after it.
pub(crate) async fn agree(
    map: Weak<ArcSwap<ServerMap>>,
    settings: Arc<LinkSettings>,
    shared: Arc<LinkState>,
) {
    if settings.seed.is_some() {
        return;
    }
    let Some(mut voice) = SeedProposal::new(&shared) else {
        // Without one there is nothing to bring, and strict limits find no keys: the same as a store that is away.
        warn!(target: LOG_TARGET, "store: the system has no random numbers to make a seed of");
        return;
    };
    loop {
        let Some(map) = map.upgrade() else { return };
        let call = voice.call(&settings.prefix, shared.nodes.name(), settings.clock.now());
        let reply = follow(&map, &settings, &shared, &call, Some(SCRIPT)).await;
        drop(map);
        if let Some(answer) = reply.ok().as_ref().and_then(SeedAnswer::read) {
            voice.hear(answer, &shared, settings.clock.now());
        }
        let pause = if voice.held.is_some() { BEAT } else { SOON };
        tokio::select! {
            () = tokio::time::sleep(jittered(pause, random())) => {}
            () = shared.reached.notified() => {}
        }
    }
}

impl SeedProposal {
    fn new(shared: &LinkState) -> Option<Self> {
        let mut fresh = [0; 16];
        match shared.brought {
            Some(brought) => fresh = brought.0,
            None => getrandom::fill(&mut fresh).ok()?,
        }
        Some(Self {
            fresh,
            held: None,
            outvoted: None,
        })
    }

    /// The hash of what others hold lies in the seed's slot.
    fn call(&self, prefix: &str, name: String, now: Moment) -> Call {
        let (seed, held) = match self.held {
            None => (self.fresh, "-1".to_owned()),
            Some((seed, since)) => (seed, now.saturating_since(since).as_millis().to_string()),
        };
        let silence = GONE.as_millis().to_string();
        let keys = [
            format!("{prefix}:seed"),
            format!("{prefix}:{{{prefix}:seed}}:held"),
        ];
        Call {
            keys: keys.map(String::into_bytes).to_vec(),
            args: vec![name.into(), seed.to_vec(), held.into(), silence.into()],
        }
    }

    fn hear(&mut self, answer: SeedAnswer, shared: &LinkState, now: Moment) {
        let seed = match answer {
            SeedAnswer::Agreed(seed) => seed,
            SeedAnswer::Undecided => return,
            SeedAnswer::Restored => {
                self.outvoted = None;
                info!(target: LOG_TARGET, "store: its seed was gone or another; it has the one of this fleet again");
                return;
            }
        };
        if let Some((held, since)) = self.held
            && held != seed
        {
            if !self.follows(since, now) {
                return;
            }
            warn!(target: LOG_TARGET, "store: more gateways hold another seed, so counters begin anew here");
        }
        self.outvoted = None;
        if self.held.is_none_or(|(held, _)| held != seed) {
            self.held = Some((seed, now));
            shared.seed.store(Some(Arc::new(seed)));
        }
    }

    /// Whether a gateway that is outvoted, and holds its seed since then, takes the other one.
    fn follows(&mut self, since: Moment, now: Moment) -> bool {
        let outvoted = *self.outvoted.get_or_insert(now);
        now.saturating_since(since) < PATIENCE || now.saturating_since(outvoted) >= PATIENCE
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
