//! Decides the health that a listener with `protocol = "rls"` reports by `grpc.health.v1`: of itself and of its services.

use prost::Message;
use sluicegate_decide::response::GrpcStatus;

use super::grpc::CallEnd;

/// The services of the listener; the empty name is that of the whole server.
const SERVICES: [&str; 3] = [
    "",
    "envoy.service.ratelimit.v3.RateLimitService",
    "grpc.health.v1.Health",
];

/// `HealthCheckRequest`
#[derive(Clone, PartialEq, Message)]
struct HealthQuestion {
    #[prost(string, tag = "1")]
    service: String,
}

/// A value of `HealthCheckResponse.ServingStatus`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ServingStatus {
    Serving = 1,
    NotServing = 2,
    /// Only `Watch` reports it: the service might be added.
    ServiceUnknown = 3,
}

impl ServingStatus {
    /// Returns the status of the service that `message` names, while the process runs.
    ///
    /// # Errors
    /// The message is malformed.
    pub(super) fn read(message: &[u8]) -> Result<Self, CallEnd> {
        let question = HealthQuestion::decode(message).map_err(|_| {
            CallEnd::new(
                GrpcStatus::INVALID_ARGUMENT,
                "the message is no HealthCheckRequest",
            )
        })?;
        Ok(match SERVICES.contains(&&*question.service) {
            true => Self::Serving,
            false => Self::ServiceUnknown,
        })
    }

    /// Returns the status once the process shuts down.
    pub(super) fn at_shutdown(self) -> Self {
        match self {
            Self::Serving | Self::NotServing => Self::NotServing,
            Self::ServiceUnknown => Self::ServiceUnknown,
        }
    }

    /// Returns the answer to `Check`.
    ///
    /// # Errors
    /// The service is unknown.
    pub(super) fn checked(self) -> Result<[u8; 2], CallEnd> {
        match self {
            Self::ServiceUnknown => Err(CallEnd::new(
                GrpcStatus::NOT_FOUND,
                "this listener has no service of this name",
            )),
            Self::Serving | Self::NotServing => Ok(self.encoded()),
        }
    }

    /// Returns it as `HealthCheckResponse`.
    pub(super) fn encoded(self) -> [u8; 2] {
        [0x08, self as u8]
    }
}
