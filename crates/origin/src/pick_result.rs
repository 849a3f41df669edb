//! Names the results that a pick of a server can have.

/// The result of a pick, with a permit of the type `P`.
#[derive(Debug)]
pub enum PickResult<P> {
    /// A permit at a server.
    Server(P),
    /// Servers are in service, but at their bound on requests.
    Full,
    /// No server is in service.
    None,
}
