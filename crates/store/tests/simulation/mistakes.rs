//! Lists known mistakes, each of which the simulation must find: texts of the scripts that are replaced before the store loads them.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plan::Plan;
use super::redis::TextEdit;
use super::run::run;
use super::world::Recording;

/// A mistake.
struct KnownMistake {
    name: &'static str,
    edit: TextEdit,
}

const fn mistake(name: &'static str, from: &'static str, to: &'static str) -> KnownMistake {
    KnownMistake {
        name,
        edit: TextEdit { from, to },
    }
}

/// The seeds within which each is found.
const PATIENCE: u64 = 1_000;

const MISTAKES: &[KnownMistake] = &[
    mistake(
        "a refund is lost",
        "if raw[1] == left[1] and raw[2] > 0 then r.raw = { raw[1], max(raw[2] - cost, 0), 0 } end",
        "",
    ),
    mistake(
        "a refund gives back more than was charged",
        "r.raw = { raw[1], max(raw[2] - cost, 0), 0 }",
        "r.raw = { raw[1], max(raw[2] - 2 * cost, 0), 0 }",
    ),
    mistake(
        "the number of a push is not kept",
        "redis.call('HSET', ask.beside, ask.node, decimal(ask.push) .. ' ' .. decimal(second))",
        "",
    ),
    mistake(
        "a push that was charged is charged again",
        "if ask.push > seen then",
        "if ask.push >= seen then",
    ),
    mistake(
        "a push is not charged",
        "if ask.push > seen then\n        charge(ask, true)\n",
        "if ask.push > seen then\n",
    ),
    mistake(
        "a store that lost its data decides at once",
        "if there ~= epoch then return head(EMPTIED) end",
        "",
    ),
    mistake(
        "nothing is restored",
        "    r.raw = merged(r, r.raw, r.left)\n",
        "",
    ),
    mistake(
        "what is restored is added to what is there",
        "local most = max(one[2], other[2])",
        "local most = one[2] + other[2]",
    ),
    mistake(
        "keys expire too early",
        "local left = moment - now + SLACK",
        "local left = 400",
    ),
    mistake(
        "one limit of several is charged alone",
        "and fits then\n        code = CHARGED\n        for _, ask in ipairs(asks) do charge(ask, false) end",
        "then\n        for _, ask in ipairs(asks) do if judge(ask) then code = CHARGED charge(ask, false) end end",
    ),
    mistake(
        "the last limit decides for all",
        "do fits = judge(ask) and fits end",
        "do fits = judge(ask) end",
    ),
    mistake(
        "one too many fits into a window",
        "fits = function(r, cost) return r.count_used + cost <= r.count end",
        "fits = function(r, cost) return r.count_used + cost <= r.count + 1 end",
    ),
    mistake(
        "one too few fits into a window",
        "fits = function(r, cost) return r.count_used + cost <= r.count end",
        "fits = function(r, cost) return r.count_used + cost < r.count end",
    ),
    mistake(
        "a log forgets its oldest units too early",
        "entry(ask, room) <= now - r.millis)",
        "entry(ask, room) <= now - r.millis / 4)",
    ),
    mistake(
        "a debt is never paid off",
        "local ahead = raw[1] - now\n    if ahead < 0",
        "local ahead = raw[1] - now + 5000\n    if ahead < 0",
    ),
    mistake(
        "an answer of a batch goes to another call",
        "replies[place] = reply",
        "table.insert(replies, 1, reply)",
    ),
    mistake(
        "only the first call of a batch is written",
        "for _, ask in ipairs(asks) do write(ask) end",
        "if not epochs.written then for _, ask in ipairs(asks) do write(ask) end end epochs.written = true",
    ),
    mistake(
        "the epoch is compared by the first call of a batch alone",
        "if there ~= epoch then return head(EMPTIED) end",
        "if there ~= epoch and argument < 7 then return head(EMPTIED) end",
    ),
    mistake(
        "the number of gateways is forgotten",
        "redis.call('ZCARD', KEYS[1])",
        "1",
    ),
    mistake(
        "each heartbeat begins an epoch",
        "local epoch = redis.call('GET', KEYS[2])",
        "local epoch = nil",
    ),
    mistake(
        "a recovery never ends",
        "then there = there + 1 end",
        "then there = there + 0 end",
    ),
];

/// Returns the number of seeds after which a mistake is found, and the text of the check that found it.
fn seeds_until_found(mistake: &KnownMistake) -> Result<(u64, String), String> {
    let next = AtomicU64::new(0);
    let found = Mutex::new(None::<(u64, String)>);
    let missing = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= PATIENCE || found.lock().unwrap().is_some() {
                        return;
                    }
                    let result = run(&Plan::new(seed), &[mistake.edit], Recording::Hash);
                    if seed == 0 && result.replaced == 0 {
                        missing.store(1, Ordering::Relaxed);
                        next.store(PATIENCE, Ordering::Relaxed);
                    }
                    if let Some(violation) = result.violations.into_iter().next()
                        && run(&Plan::new(seed), &[], Recording::Hash)
                            .violations
                            .is_empty()
                    {
                        let mut found = found.lock().unwrap();
                        let is_first = found.as_ref().is_none_or(|(other, _)| seed < *other);
                        if is_first {
                            *found = Some((seed, violation));
                        }
                    }
                }
            });
        }
    });
    let name = mistake.name;
    if missing.into_inner() > 0 {
        return Err(format!("{name}: no script has {:?}", mistake.edit.from));
    }
    let found = found.into_inner().unwrap();
    found.ok_or_else(|| format!("{name}: not found within {PATIENCE} seeds"))
}

/// Goal: a simulation that finds nothing is not a blind one. Method: each known mistake, until a check fails.
#[test]
fn known_mistakes_are_found() {
    let only = std::env::var("SLUICEGATE_SIMULATION_MISTAKE").ok();
    let named = |mistake: &&KnownMistake| {
        only.as_ref()
            .is_none_or(|only| mistake.name.contains(only.as_str()))
    };
    let mut unfound = Vec::new();
    for mistake in MISTAKES.iter().filter(named) {
        match seeds_until_found(mistake) {
            Ok((seed, violation)) => eprintln!("{}: seed {seed}, {violation}", mistake.name),
            Err(failure) => {
                eprintln!("{failure}");
                unfound.push(failure);
            }
        }
    }
    assert!(unfound.is_empty(), "{}", unfound.join("\n"));
}
