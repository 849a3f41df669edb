//! Compares, groups and writes IP addresses: sets of CIDR blocks, the network that stands for a client, and their text.

mod cidrs;
mod prefix;
mod text;

pub use self::cidrs::{CidrSet, PrefixLength, folded_block};
pub use self::prefix::{AddressPrefix, PrefixBits, prefix};
pub use self::text::address_text;
