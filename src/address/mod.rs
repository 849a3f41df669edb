//! Compares and groups IP addresses: sets of CIDR blocks, and the network that stands for a client.

mod cidrs;
mod prefix;

pub use self::cidrs::{CidrSet, PrefixLength};
pub use self::prefix::{AddressPrefix, PrefixBits, prefix};
