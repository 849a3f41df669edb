//! What is spoken with origins and, by HTTP/2, with clients: certificates, versions, gRPC, and what a client may not do.

mod advisories;
mod authority;
mod bounded;
mod direct;
mod direct_cache;
mod direct_http2;
mod direct_routes;
mod early;
mod echo;
mod fallback;
mod floods;
mod grpc;
mod h2_advisories;
mod h2_conformance;
mod loops;
mod request_line;
mod response_fields;
mod secure;
mod strangers;
mod streams;
mod tunnels;
mod uploads;
mod versions;
