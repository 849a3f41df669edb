//! Finds the country, the city and the network operator (ASN) of an address, in databases of the MaxMind format.
//!
//! A [`GeoDatabase`] is one file, read whole and verified whole: each record that the search tree leads to is decoded once, so a damaged
//! file is refused when it is read and no request meets it. [`GeoDatabases`] are those of one configuration, and [`ClientPlace`] is the
//! answer for one client, found when it is first read and then kept.
//!
//! # Why files are read and not mapped
//! A mapped file that is cut or written over while it is in use ends the process (SIGBUS) or gives records of two files. `cp` and `rsync
//! --inplace` do so. A copy in memory is the smaller cost: docs/decisions/0029-isolation-of-failing-parts.md.

mod condition;
mod database;
mod databases;
mod place;
mod record;

pub use self::condition::{PlaceCondition, PlaceSet};
pub use self::database::{GeoDatabase, GeoError};
pub use self::databases::{ClientPlace, GeoDatabases};
pub use self::place::{CountryCode, GeoField, GeoPlace, UNKNOWN};
