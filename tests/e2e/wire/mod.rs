//! What is spoken with origins and, by HTTP/2, with clients: certificates, versions, gRPC, and what a client may not do.

mod advisories;
mod authority;
mod bodiless;
mod bounded;
mod cached_routes;
mod early;
mod echo;
mod fallback;
mod floods;
mod grpc;
mod h2_advisories;
mod h2_conformance;
mod hop_by_hop;
mod http1;
mod http2_origins;
mod loops;
mod request_line;
mod resource_advisories;
mod response_fields;
mod secure;
mod special_routes;
mod strangers;
mod streams;
mod tunnels;
mod uploads;
mod versions;
