//! A model of Redis in memory: the commands that the link and the scripts use, scripts in a real Lua 5.1, and the states of a server that
//! refuses.

mod keyspace;
mod lua;
mod resp;
mod server;

pub(crate) use keyspace::Keyspace;
pub(crate) use resp::{Reply, encode, take_command};
pub(crate) use server::{RedisModel, ServerCondition, TextEdit};
