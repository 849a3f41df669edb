//! Names the remedies of a check. The program that embeds the link words them, because only it knows the names of its settings.

/// The thing that an operator has to see to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CheckRemedy {
    /// The login at the servers with keys.
    Login,
    /// The login at the Sentinels.
    SentinelLogin,
    /// The addresses of the Sentinels, and the name of the master.
    SentinelNames {
        /// The name under which the Sentinels were asked for the master.
        master: String,
    },
    /// The addresses of the nodes: none of them is part of a Cluster.
    ClusterNodes,
    /// The topology: the server is part of a Cluster.
    ClusterTopology,
    /// The address, or Sentinels that name it: the server is not the master.
    MasterAddress,
    /// The timeout of a call: half of the round trips take longer.
    LongerTimeout,
    /// The timeout of a call: it is near the longest round trip.
    TimeoutMargin,
    /// The clocks of both machines.
    SynchronizedClocks,
    /// The prefix of keys: another program uses it.
    OwnPrefix,
    /// The network between both machines, or the timeout of connections.
    NetworkPath,
    /// The server: nothing listens at the address.
    ListeningServer,
    /// The trusted certificates, the name in the certificate, or the port.
    TlsSettings,
    /// The server: it does not speak the protocol in clear text.
    ServerKind,
    /// The path to the server: something changes its answers.
    DirectConnection,
    /// The version of the server.
    ServerVersion,
    /// The load of the server.
    FasterServer,
    /// A script that does not end.
    KilledScript,
    /// Time: the server loads its data.
    LoadedServer,
    /// The master of a replica.
    RunningMaster,
    /// The masters of slots that no server has.
    CoveredSlots,
    /// The disk of the server.
    DiskSpace,
    /// The memory of the server: it is full.
    MoreMemory,
    /// The memory of the server: it has no bound.
    MemoryBound,
    /// The keys that the server evicts when its memory is full.
    EvictionPolicy,
    /// The log of writes, which the server does not keep.
    AppendOnlyFile,
}
