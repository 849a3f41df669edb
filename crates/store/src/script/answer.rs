//! Reads what the script answers: whatever else comes is refused by name, never taken for an answer.

use std::fmt;

use sluicegate_limiter::{Cost, Decision, RateState, RemoteOutcome, RemoteState, Timestamp};

use super::call::{distinct, joint_ask, state_of};
use super::{Reply, terms};
use sluicegate_decide::store::{
    ChargeResult, KeyName, StoreAnswer, StoreAsk, StoreAskResult, StoreCharge,
};

/// The answer of the script.
#[derive(Clone, Debug)]
pub enum ScriptAnswer {
    /// The script evaluated the asks.
    Decided(StoreAnswer),
    /// The store's time, which this is, lies in none of the calendar windows that were sent. Nothing was written: call again near that
    /// moment.
    Elsewhen(Timestamp),
    /// This key holds a value that the script never writes: another program uses it. Nothing was written.
    Foreign(KeyName),
    /// The store was emptied or replaced since the epoch that the call names. Nothing was written.
    Emptied,
}

/// A reply that is no answer of the script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableAnswer(Reply);

impl fmt::Display for UnreadableAnswer {
    fn fmt(&self, into: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match &self.0 {
            Reply::Nil => "nothing",
            Reply::Integer(_) => "a number",
            Reply::Bytes(_) => "a string",
            Reply::Rows(_) => "a list of another kind",
        };
        write!(into, "the store answered the script with {what}")
    }
}

impl std::error::Error for UnreadableAnswer {}

const NOT_CHARGED: u64 = 0;
const CHARGED: u64 = 1;
const DONE: u64 = 2;
const ELSEWHEN: u64 = 3;
const FOREIGN: u64 = 4;
const EMPTIED: u64 = 5;

/// Reads the answer to a call about these asks; to a push or a settlement it is one ask, that of the push or of
/// [`StoreCharge::ask`].
///
/// # Errors
/// When it is no answer of the script's to these asks.
pub fn read(asks: &[StoreAsk<'_>], reply: Reply) -> Result<ScriptAnswer, UnreadableAnswer> {
    parse(asks, &reply).ok_or(UnreadableAnswer(reply))
}

fn parse(asks: &[StoreAsk<'_>], reply: &Reply) -> Option<ScriptAnswer> {
    let numbers = numbers(reply)?;
    let (head, rows) = numbers.split_first_chunk()?;
    let [code, seconds, micros, unreadable] = *head;
    let nanos = seconds
        .checked_mul(1_000_000)?
        .checked_add(micros)?
        .checked_mul(1_000)?;
    let now = Timestamp::from_nanos(nanos);
    let charge_result = match code {
        NOT_CHARGED => ChargeResult::NotCharged,
        CHARGED => ChargeResult::Charged,
        DONE => ChargeResult::Done,
        EMPTIED => return Some(ScriptAnswer::Emptied),
        ELSEWHEN => return Some(ScriptAnswer::Elsewhen(now)),
        FOREIGN => {
            let foreign = usize::try_from(*rows.first()?).ok()?;
            let ask = asks.iter().find(|ask| joint_ask(asks, ask).0 == foreign)?;
            return Some(ScriptAnswer::Foreign(ask.name.clone()));
        }
        _ => return None,
    };
    let rows = key_rows(asks, rows, now)?;
    let results = asks.iter().map(|ask| {
        let (row, joint_cost) = joint_ask(asks, ask);
        Some(ask_result(
            ask,
            joint_cost,
            charge_result,
            rows.get(row)?,
            now,
        ))
    });
    Some(ScriptAnswer::Decided(StoreAnswer {
        now,
        charge_result,
        results: results.collect::<Option<_>>()?,
        unreadable: u32::try_from(unreadable).unwrap_or(u32::MAX),
    }))
}

/// The part of an answer that is about one key.
struct KeyRow {
    /// The rates that refuse, as bits.
    refusing: u8,
    state: RemoteState,
}

/// Splits the numbers behind the head by the keys of the asks: of each key which rates refuse, then the numbers of each rate.
fn key_rows(asks: &[StoreAsk<'_>], mut numbers: &[u64], now: Timestamp) -> Option<Vec<KeyRow>> {
    let mut rows = Vec::with_capacity(asks.len());
    for ask in distinct(asks) {
        let (refusing, mut fields) = numbers.split_first()?;
        let mut states = Vec::with_capacity(ask.policy.rates().len());
        for terms in terms(&ask, now).iter() {
            let (state, read): (RateState, usize) = state_of(terms, fields)?;
            states.push(state);
            fields = &fields[read..];
        }
        rows.push(KeyRow {
            refusing: u8::try_from(*refusing).ok()?,
            state: RemoteState::new(states),
        });
        numbers = fields;
    }
    Some(rows)
}

/// Returns the result of one ask; `joint_cost` is that of all asks of the key.
fn ask_result(
    ask: &StoreAsk<'_>,
    joint_cost: Cost,
    charge_result: ChargeResult,
    row: &KeyRow,
    now: Timestamp,
) -> StoreAskResult {
    let state = row.state.clone();
    let outcome = match charge_result {
        ChargeResult::Charged => RemoteOutcome::Charged(ask.cost),
        ChargeResult::NotCharged => RemoteOutcome::NotCharged {
            cost: joint_cost,
            refusing: row.refusing,
        },
        ChargeResult::Done => RemoteOutcome::Peeked,
    };
    let charge =
        (charge_result == ChargeResult::Charged).then(|| StoreCharge::new(ask, state.clone(), now));
    StoreAskResult {
        decision: Decision::remote(ask.policy, &state, outcome, now),
        state,
        charge,
    }
}

/// Returns a list of numbers, none of them negative.
fn numbers(reply: &Reply) -> Option<Vec<u64>> {
    let Reply::Rows(numbers) = reply else {
        return None;
    };
    numbers
        .iter()
        .map(|number| match number {
            Reply::Integer(number) => u64::try_from(*number).ok(),
            _ => None,
        })
        .collect()
}
