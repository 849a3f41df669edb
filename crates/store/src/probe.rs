//! Tries a store out for `sluicegate store check`: the link's own steps, and one call of the script that writes nothing.

use std::sync::Arc;

use sluicegate_base::clock;
use sluicegate_limiter::{Cost, KeyHash, Period, Policy, Rate, Rates};
use sluicegate_redis_link::check::{self, CheckResult, ProbeResult, ScriptProbe};

use super::link_settings::{SystemEnvironment, link_settings};
use super::script::{self, Call, Reply, ScriptAnswer};
use sluicegate_config::rules::StoreRules;
use sluicegate_decide::store::{KeyName, StoreAsk};

/// A request to a limit of one an hour, under a key that no client has.
struct PeekProbe(Policy);

/// Returns the results of all checks of the store, server by server.
pub async fn check(rules: &StoreRules) -> Vec<CheckResult> {
    let settings = link_settings(rules, Arc::new(SystemEnvironment));
    check::check(&settings, &PeekProbe(one_an_hour())).await
}

impl ScriptProbe for PeekProbe {
    fn script(&self) -> &str {
        script::TEXT
    }

    fn call(&self, prefix: &str) -> Call {
        script::peek(&[self.ask(&name(prefix))], clock::wall())
    }

    fn read(&self, prefix: &str, reply: Reply) -> ProbeResult {
        match script::read(&[self.ask(&name(prefix))], reply) {
            Ok(ScriptAnswer::Decided(_) | ScriptAnswer::Elsewhen(_) | ScriptAnswer::Emptied) => {
                ProbeResult::Understood
            }
            Ok(ScriptAnswer::Foreign(name)) => ProbeResult::ForeignKey(name.as_str().to_owned()),
            Err(_) => ProbeResult::Unreadable,
        }
    }
}

impl PeekProbe {
    fn ask<'a>(&'a self, name: &'a KeyName) -> StoreAsk<'a> {
        StoreAsk {
            policy: &self.0,
            name,
            cost: Cost::ONE,
        }
    }
}

/// The first braces of a key name its slot: those of `prefix`, in a Cluster.
fn name(prefix: &str) -> KeyName {
    KeyName::new(prefix, KeyHash::from_bits(0), "check")
}

fn one_an_hour() -> Policy {
    let hour = Period::from_secs(3_600).expect("an hour is shorter than 31 days");
    let rate = Rate::new(1, hour).expect("1 is a count");
    Policy::from(Rates::new([rate]).expect("one rate is neither none nor too many"))
}
