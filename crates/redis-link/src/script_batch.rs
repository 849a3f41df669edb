//! Makes one run of a script of several calls, and takes its answer apart.
//!
//! The script gets the word `batch`, the number of calls, and before the arguments of each call the number of its keys and that of its
//! arguments; the keys of all calls lie in their order. It returns a list with the answer of each call, which may be an error.

use std::sync::Arc;

use redis::aio::MultiplexedConnection;
use redis::{Cmd, RedisError, Value};

use crate::call::{Call, Reply, command};
use crate::error::{ErrorReply, StoreError, read};
use crate::link_state::LinkState;
use crate::observer::LinkEvent;

/// The answer of each call.
pub(crate) type CallAnswers = Vec<Result<Reply, ErrorReply>>;

/// The script that a server has loaded, and the connection to it.
#[derive(Clone)]
pub(crate) struct LoadedScript {
    pub(crate) multiplexed: MultiplexedConnection,
    pub(crate) hash: String,
    pub(crate) shared: Arc<LinkState>,
}

impl LoadedScript {
    /// Runs one call as it is, or several in one run of the script, and returns as many answers in their order. A server that has lost
    /// the script gets its text.
    pub(crate) async fn run(&self, calls: &[&Call]) -> CallAnswers {
        let mut multiplexed = self.multiplexed.clone();
        let by_hash = encode(calls, "EVALSHA", &self.hash);
        let mut answer = multiplexed.send_packed_command(&by_hash).await;
        if matches!(&answer, Ok(Value::ServerError(error)) if error.code() == "NOSCRIPT") {
            self.shared.observer.count_event(LinkEvent::ScriptLoaded);
            let by_text = encode(calls, "EVAL", self.shared.script.text);
            answer = multiplexed.send_packed_command(&by_text).await;
        }
        split(answer, calls.len())
    }

    /// Runs calls in one write, `at_once` of them in each run of the script. Returns as many answers in their order, or the error of all
    /// of them.
    pub(crate) async fn run_all(
        &self,
        calls: &[&Call],
        at_once: usize,
    ) -> Result<CallAnswers, StoreError> {
        let runs = calls.chunks(at_once);
        let mut all = redis::Pipeline::with_capacity(runs.len());
        for calls in runs.clone() {
            all.add_command(encode(calls, "EVALSHA", &self.hash));
        }
        let mut multiplexed = self.multiplexed.clone();
        let answers = multiplexed.send_packed_commands(&all, 0, runs.len()).await;
        match answers {
            Ok(answers) if answers.len() == runs.len() => {
                let answers = runs.zip(answers);
                let split = answers.map(|(calls, answer)| split(Ok(answer), calls.len()));
                Ok(split.flatten().collect())
            }
            _ => Err(StoreError::ConnectionLost),
        }
    }
}

fn encode(calls: &[&Call], word: &str, script: &str) -> Cmd {
    match calls {
        [call] => command(call, word, script),
        _ => command(&merged(calls), word, script),
    }
}

/// Returns the call that runs all of `calls`.
fn merged(calls: &[&Call]) -> Call {
    let number = |number: usize| number.to_string().into_bytes();
    let mut merged = Call {
        keys: Vec::new(),
        args: vec![b"batch".to_vec(), number(calls.len())],
    };
    for call in calls {
        merged.keys.extend_from_slice(&call.keys);
        let counts = [number(call.keys.len()), number(call.args.len())];
        merged.args.extend(counts);
        merged.args.extend_from_slice(&call.args);
    }
    merged
}

/// Takes the answer of so many calls apart. An error of the whole run is that of each call.
fn split(answer: Result<Value, RedisError>, calls: usize) -> CallAnswers {
    let error = match answer {
        answer if calls == 1 => return vec![read(answer)],
        Ok(Value::Array(answers)) if answers.len() == calls => {
            return answers.into_iter().map(|answer| read(Ok(answer))).collect();
        }
        Ok(answer) => match read(Ok(answer)) {
            Err(error) => error,
            Ok(_) => ErrorReply::Failed(StoreError::Unreadable),
        },
        Err(_) => ErrorReply::Failed(StoreError::ConnectionLost),
    };
    vec![Err(error); calls]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::RefusalReason;

    fn call(keys: &[&str], args: &[&str]) -> Call {
        let bytes = |words: &[&str]| words.iter().map(|word| word.as_bytes().to_vec()).collect();
        Call {
            keys: bytes(keys),
            args: bytes(args),
        }
    }

    /// Goal: the script can tell the calls apart. Method: calls of different lengths.
    #[test]
    fn a_batch_says_how_long_each_call_is() {
        let first = call(&["a", "b"], &["x"]);
        let second = call(&["c"], &["y", "z"]);
        let words = ["batch", "2", "2", "1", "x", "1", "2", "y", "z"];
        assert_eq!(merged(&[&first, &second]), call(&["a", "b", "c"], &words));
    }

    /// Goal: each call gets the answer that it would get alone. Method: answers, an error among them, an error of all, and an answer of
    /// another length.
    #[test]
    fn each_call_gets_its_own_answer() {
        let error = |text: &str| {
            let text = format!("-{text}\r\n");
            redis::parse_redis_value(text.as_bytes()).expect("an error")
        };
        let full = || ErrorReply::Failed(StoreError::Refused(RefusalReason::Full));
        let answers = Value::Array(vec![Value::Int(1), error("OOM no memory"), Value::Int(3)]);
        assert_eq!(
            split(Ok(answers.clone()), 3),
            [Ok(Reply::Integer(1)), Err(full()), Ok(Reply::Integer(3))]
        );
        assert_eq!(
            split(Ok(error("OOM no memory")), 2),
            [Err(full()), Err(full())]
        );
        let unreadable = ErrorReply::Failed(StoreError::Unreadable);
        assert_eq!(
            split(Ok(answers), 2),
            [Err(unreadable.clone()), Err(unreadable)]
        );
        assert_eq!(split(Ok(Value::Int(7)), 1), [Ok(Reply::Integer(7))]);
    }
}
