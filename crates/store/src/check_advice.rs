//! Words the remedies of `sluicegate store check`, with the keys of `[store]` and the pages of the documentation.

use std::borrow::Cow;

use sluicegate_redis_link::check::CheckRemedy;

/// Returns the advice of a remedy, for an operator.
#[must_use]
pub fn advice(remedy: &CheckRemedy) -> Cow<'static, str> {
    let words = match remedy {
        CheckRemedy::Login => {
            "write user and password_file or password_env as the server's ACL has them; docs/operations/store.md, \
             \"The store\", names the rights that the user needs"
        }
        CheckRemedy::SentinelLogin => {
            "write user and password_file or password_env inside `sentinel`, as the Sentinels' requirepass or ACL has them"
        }
        CheckRemedy::SentinelNames { master } => {
            return format!("compare `nodes` with where Sentinels listen, and {master:?} with their `sentinel monitor`").into();
        }
        CheckRemedy::ClusterNodes => {
            "write nodes of a Cluster, or url = \"…\" where the server is none"
        }
        CheckRemedy::ClusterTopology => {
            "the server is part of a Cluster: write cluster = [\"host:port\", …] in place of url"
        }
        CheckRemedy::MasterAddress => {
            "write the address of the master, or `sentinel` so that it is found"
        }
        CheckRemedy::LongerTimeout => "put the store nearer, or write a longer timeout",
        CheckRemedy::TimeoutMargin => {
            "a timeout of several times the longest round trip leaves room for a busy moment"
        }
        CheckRemedy::SynchronizedClocks => {
            "the store's clock decides, so nothing breaks; set both by NTP so that logs agree"
        }
        CheckRemedy::OwnPrefix => "give the fleet a prefix of its own",
        CheckRemedy::NetworkPath => {
            "is it there, and does a firewall let this machine through? else write a longer connect_timeout"
        }
        CheckRemedy::ListeningServer => {
            "is it running, and does it listen at this address for others than its own machine?"
        }
        CheckRemedy::TlsSettings => {
            "compare ca_file and server_name with the server's certificate, and whether it speaks TLS at this port"
        }
        CheckRemedy::ServerKind => {
            "is this a Redis or Valkey server, without TLS if the URL is redis://?"
        }
        CheckRemedy::DirectConnection => {
            "is this a Redis or Valkey server, reached without a proxy that changes answers?"
        }
        CheckRemedy::ServerVersion => "is it Redis 6.2 or later, or Valkey?",
        CheckRemedy::FasterServer => {
            "it is too slow to be of use: look at its SLOWLOG and its machine"
        }
        CheckRemedy::KilledScript => "end the script that runs there: SCRIPT KILL",
        CheckRemedy::LoadedServer => "wait until it has loaded",
        CheckRemedy::RunningMaster => "bring its master back, or promote it",
        CheckRemedy::CoveredSlots => "bring the masters of the missing slots back",
        CheckRemedy::DiskSpace => "make room on its disk, or set stop-writes-on-bgsave-error no",
        CheckRemedy::MoreMemory => "give it more memory, or set maxmemory-policy volatile-ttl",
        CheckRemedy::MemoryBound => {
            "without maxmemory a flood of keys ends with the machine's memory: set it, with maxmemory-policy volatile-ttl"
        }
        CheckRemedy::EvictionPolicy => {
            "when it is full, counters of busy clients may be forgotten, and they may ask again: set maxmemory-policy \
             volatile-ttl, or noeviction"
        }
        CheckRemedy::AppendOnlyFile => {
            "a restart forgets what it counted, and gateways tell it again what they remember: set appendonly yes, with \
             appendfsync everysec, so that both may restart"
        }
    };
    words.into()
}
