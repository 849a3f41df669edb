//! Runs scripts in Lua 5.1, as Redis does: `redis.call` and `redis.pcall` reach the keyspace of the call.

use std::cell::RefCell;
use std::collections::HashMap;

use mlua::{Function, Lua, MultiValue, Value, Variadic};

use super::Reply;

/// The end of the commands of a script.
pub(crate) trait Commands {
    fn command(&mut self, words: &[Vec<u8>]) -> Reply;
}

thread_local! {
    static MACHINE: Machine = Machine::new();
    static CURRENT: RefCell<Option<Box<dyn Commands>>> = const { RefCell::new(None) };
}

/// The interpreter of a thread, with the scripts that it has compiled.
struct Machine {
    lua: Lua,
    run: Function,
    compiled: RefCell<HashMap<String, Function>>,
}

const PRELUDE: &str = r"
redis = { pcall = command, sha1hex = sha1hex }
local pcall_of_lua = pcall
-- As Redis 7 does, hands over the text of an error of a command.
pcall = function(...)
  local done, reply = pcall_of_lua(...)
  if not done and type(reply) == 'table' then return false, reply.err end
  return done, reply
end
redis.call = function(...)
  local reply = command(...)
  if type(reply) == 'table' and reply.err then error(reply) end
  return reply
end
return function(script)
  local done, reply = pcall_of_lua(script)
  if done then return reply end
  if type(reply) == 'table' then return { err = reply.err } end
  return { err = 'ERR ' .. tostring(reply) }
end
";

impl Machine {
    fn new() -> Self {
        let lua = Lua::new();
        let command = lua
            .create_function(|lua, words: Variadic<Value>| {
                let words: Vec<Vec<u8>> = words.iter().map(bytes_of).collect();
                let reply = CURRENT.with_borrow_mut(|current| {
                    let commands = current.as_mut().expect("a script runs");
                    commands.command(&words)
                });
                to_lua(lua, &reply)
            })
            .expect("a function");
        let sha1hex = lua
            .create_function(|_, text: mlua::String| Ok(sha1(&text.as_bytes())))
            .expect("a function");
        let globals = lua.globals();
        globals.set("command", command).expect("a global");
        globals.set("sha1hex", sha1hex).expect("a global");
        let run = lua.load(PRELUDE).eval().expect("the prelude");
        Self {
            lua,
            run,
            compiled: RefCell::default(),
        }
    }

    fn call(&self, text: &str, keys: &[Vec<u8>], args: &[Vec<u8>]) -> mlua::Result<Reply> {
        let known = self.compiled.borrow().get(text).cloned();
        let script = match known {
            Some(script) => script,
            None => {
                let script = self.lua.load(text).into_function()?;
                let mut compiled = self.compiled.borrow_mut();
                compiled.insert(text.to_owned(), script.clone());
                script
            }
        };
        let list = |words: &[Vec<u8>]| {
            let words = words.iter().map(|word| self.lua.create_string(word));
            self.lua
                .create_sequence_from(words.collect::<mlua::Result<Vec<_>>>()?)
        };
        self.lua.globals().set("KEYS", list(keys)?)?;
        self.lua.globals().set("ARGV", list(args)?)?;
        let mut values: MultiValue = self.run.call(script)?;
        Ok(from_lua(&values.pop_front().unwrap_or(Value::Nil)))
    }
}

/// Runs a script whose commands `commands` executes, and returns both.
pub(crate) fn run<C: Commands + 'static>(
    text: &str,
    keys: &[Vec<u8>],
    args: &[Vec<u8>],
    commands: C,
) -> Reply {
    CURRENT.set(Some(Box::new(commands)));
    let reply = MACHINE.with(|machine| machine.call(text, keys, args));
    CURRENT.set(None);
    reply.unwrap_or_else(|error| Reply::Error(format!("ERR {error}").replace('\n', " ")))
}

/// Returns the name of a script.
pub(crate) fn sha1(text: &[u8]) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}

fn bytes_of(value: &Value) -> Vec<u8> {
    match value {
        Value::String(text) => text.as_bytes().to_vec(),
        Value::Integer(number) => number.to_string().into_bytes(),
        // Redis writes numbers of scripts with 17 digits.
        Value::Number(number) if number.fract() == 0.0 => format!("{number:.0}").into_bytes(),
        Value::Number(number) => number.to_string().into_bytes(),
        _ => Vec::new(),
    }
}

fn to_lua(lua: &Lua, reply: &Reply) -> mlua::Result<Value> {
    Ok(match reply {
        Reply::Nil => Value::Boolean(false),
        Reply::Integer(number) => Value::Number(*number as f64),
        Reply::Bulk(bytes) => Value::String(lua.create_string(bytes)?),
        Reply::Status(text) => Value::Table(lua.create_table_from([("ok", text.as_str())])?),
        Reply::Error(text) => Value::Table(lua.create_table_from([("err", text.as_str())])?),
        Reply::Array(items) => {
            let items = items.iter().map(|item| to_lua(lua, item));
            let items = items.collect::<mlua::Result<Vec<_>>>()?;
            Value::Table(lua.create_sequence_from(items)?)
        }
    })
}

fn from_lua(value: &Value) -> Reply {
    match value {
        Value::Boolean(true) => Reply::Integer(1),
        Value::Integer(number) => Reply::Integer(*number),
        Value::Number(number) => Reply::Integer(*number as i64),
        Value::String(text) => Reply::text(text.as_bytes().to_vec()),
        Value::Table(table) => {
            if let Ok(error) = table.raw_get::<mlua::String>("err") {
                return Reply::Error(error.to_string_lossy().replace(['\r', '\n'], " "));
            }
            if let Ok(status) = table.raw_get::<mlua::String>("ok") {
                return Reply::Status(status.to_string_lossy());
            }
            let items = table.sequence_values::<Value>();
            Reply::Array(items.flatten().map(|item| from_lua(&item)).collect())
        }
        _ => Reply::Nil,
    }
}
