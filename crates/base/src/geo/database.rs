//! Owns one database: its bytes, verified, and the fields that its records have.

use std::collections::HashSet;
use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;

use maxminddb::{MaxMindDbError, Reader};
use memchr::memmem;

use super::place::{GeoField, GeoPlace};
use super::record::GeoRecord;
use crate::bounds::GEO_DATABASE_BYTES;

/// The bytes before the metadata, which end the file: MaxMind DB format 2.0, "Database Metadata".
const METADATA_MARKER: &[u8] = b"\xab\xcd\xefMaxMind.com";

/// A database of the MaxMind format, whole in memory.
pub struct GeoDatabase {
    bytes: Arc<[u8]>,
    reader: Reader<Arc<[u8]>>,
    fields: Vec<GeoField>,
}

/// The reason for which bytes are no database that can be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GeoError {
    /// The file is larger than may be kept in memory.
    TooLarge {
        /// Its size.
        bytes: u64,
    },
    /// There is no metadata at its end: a file of another kind, or one that is half written.
    NoMetadata,
    /// Its metadata, its search tree or a record is damaged; with the reason of the reader.
    Damaged(String),
    /// It is sound, and has neither country, city nor ASN; with the type that its publisher gives it.
    NoField(String),
}

impl GeoDatabase {
    /// Reads a database, and verifies all of it: tree, records, and the values of each record.
    ///
    /// # Errors
    /// The reason why it cannot be used.
    pub fn parse(bytes: Vec<u8>) -> Result<Self, GeoError> {
        if bytes.len() > GEO_DATABASE_BYTES {
            return Err(GeoError::TooLarge {
                bytes: bytes.len() as u64,
            });
        }
        if memmem::find(&bytes, METADATA_MARKER).is_none() {
            return Err(GeoError::NoMetadata);
        }
        let bytes: Arc<[u8]> = bytes.into();
        let reader = Reader::from_source(Arc::clone(&bytes)).map_err(|error| damaged(&error))?;
        reader.verify().map_err(|error| damaged(&error))?;
        let fields = fields(&reader).map_err(|error| damaged(&error))?;
        if fields.is_empty() {
            return Err(GeoError::NoField(kind(&reader)));
        }
        Ok(Self {
            bytes,
            reader,
            fields,
        })
    }

    /// Returns what it says of `address` in `fields`; nothing for an address that it does not have, such as an IPv6 address in a database
    /// of IPv4.
    #[must_use]
    pub fn find(&self, address: IpAddr, fields: &[GeoField]) -> GeoPlace {
        let found = self.reader.lookup(address.to_canonical());
        let record = found.and_then(|found| found.decode::<GeoRecord<'_>>());
        // Each record was decoded when the file was read, so that an error here is an address of the other family.
        let record = record.ok().flatten();
        record.map_or_else(GeoPlace::default, |record| record.place(fields))
    }

    /// Returns the fields that some of its records have.
    #[must_use]
    pub fn fields(&self) -> &[GeoField] {
        &self.fields
    }

    /// Returns the type that its publisher gives it, such as `GeoLite2-City`.
    #[must_use]
    pub fn kind(&self) -> String {
        kind(&self.reader)
    }

    /// Returns the time at which it was built, in seconds since 1970.
    #[must_use]
    pub fn built_at(&self) -> u64 {
        self.reader.metadata().build_epoch
    }

    /// Returns its size in bytes, all of which are in memory.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether it has no bytes, which no database is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns whether it was read from these bytes.
    #[must_use]
    pub fn is_of(&self, bytes: &[u8]) -> bool {
        *self.bytes == *bytes
    }
}

/// Returns the publisher's type, without characters that a terminal would obey.
fn kind(reader: &Reader<Arc<[u8]>>) -> String {
    let kind = reader.metadata().database_type.chars();
    kind.filter(|character| !character.is_control())
        .take(64)
        .collect()
}

/// Decodes each record once, as a look-up does, and returns the fields that some of them have.
fn fields(reader: &Reader<Arc<[u8]>>) -> Result<Vec<GeoField>, MaxMindDbError> {
    let mut seen = HashSet::new();
    let mut fields = Vec::new();
    for found in reader.networks(maxminddb::WithinOptions::default())? {
        let found = found?;
        if found.offset().is_none_or(|offset| !seen.insert(offset)) {
            continue;
        }
        let Some(record) = found.decode::<GeoRecord<'_>>()? else {
            continue;
        };
        let place = record.place(&GeoField::ALL);
        for field in GeoField::ALL {
            if place.has(field) && !fields.contains(&field) {
                fields.push(field);
            }
        }
    }
    fields.sort();
    Ok(fields)
}

fn damaged(error: &MaxMindDbError) -> GeoError {
    let text = error.to_string();
    let plain = text.chars().filter(|character| !character.is_control());
    GeoError::Damaged(plain.take(200).collect())
}

impl PartialEq for GeoDatabase {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.bytes, &other.bytes) || self.bytes == other.bytes
    }
}

impl Eq for GeoDatabase {}

impl fmt::Debug for GeoDatabase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeoDatabase")
            .field("kind", &self.kind())
            .field("built_at", &self.built_at())
            .field("fields", &self.fields)
            .finish_non_exhaustive()
    }
}

impl fmt::Display for GeoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TooLarge { bytes } => write!(
                f,
                "has {bytes} bytes, more than the {GEO_DATABASE_BYTES} that may be kept in memory"
            ),
            Self::NoMetadata => {
                f.write_str("is no MaxMind database, or one that is written only in part")
            }
            Self::Damaged(why) => write!(f, "is a damaged MaxMind database: {why}"),
            Self::NoField(kind) => write!(
                f,
                "is a database of type {kind:?}, which has neither country, city nor ASN"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use proptest::sample::Index;

    use super::*;

    fn bytes(name: &str) -> Vec<u8> {
        let path = format!("{}/../../tests/geo/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read(path).unwrap()
    }

    fn city() -> Vec<u8> {
        bytes("GeoLite2-City-Test.mmdb")
    }

    fn texts(database: &GeoDatabase, address: &str) -> [String; 3] {
        let place = database.find(address.parse().unwrap(), &GeoField::ALL);
        GeoField::ALL.map(|field| place.text(field).into_owned())
    }

    /// Goal: a record gives the values that its publisher means, and an address without a record none. Method: records that the publisher's
    /// own reader prints so, in IPv4, IPv6 and IPv4 in IPv6.
    #[test]
    fn values_are_those_of_the_record() {
        let database = GeoDatabase::parse(city()).unwrap();
        assert_eq!(database.fields(), [GeoField::Country, GeoField::City]);
        for (address, country, city) in [
            ("89.160.20.112", "SE", "SE-E/Link\u{f6}ping"),
            ("81.2.69.142", "GB", "GB-ENG/London"),
            ("::ffff:81.2.69.142", "GB", "GB-ENG/London"),
            ("2001:218::", "JP", "unknown"),
            ("10.0.0.1", "unknown", "unknown"),
            ("::1", "unknown", "unknown"),
        ] {
            assert_eq!(
                texts(&database, address),
                [country, city, "unknown"],
                "{address}"
            );
        }
        let networks = GeoDatabase::parse(bytes("GeoLite2-ASN-Test.mmdb")).unwrap();
        assert_eq!(
            texts(&networks, "1.128.0.0"),
            ["unknown", "unknown", "1221"]
        );
    }

    /// Goal: a file that is damaged or of another kind is refused with its reason. Method: the damaged files that the publisher keeps for
    /// readers, and one of domains.
    #[test]
    fn damaged_files_are_refused() {
        for name in [
            "GeoIP2-City-Test-Broken-Double-Format.mmdb",
            "GeoIP2-City-Test-Invalid-Node-Count.mmdb",
            "libmaxminddb-corrupt-search-tree.mmdb",
            "libmaxminddb-deep-nesting.mmdb",
            "cyclic-data-structure.mmdb",
        ] {
            let error = GeoDatabase::parse(bytes(name)).unwrap_err();
            assert!(
                !matches!(error, GeoError::TooLarge { .. }),
                "{name}: {error}"
            );
        }
        let domains = GeoDatabase::parse(bytes("GeoIP2-Domain-Test.mmdb"));
        assert_eq!(
            domains.unwrap_err(),
            GeoError::NoField("GeoIP2-Domain".to_owned())
        );
        let half = GeoDatabase::parse(city()[..12_000].to_vec());
        assert_eq!(half.unwrap_err(), GeoError::NoMetadata);
        assert_eq!(
            GeoDatabase::parse(Vec::new()).unwrap_err(),
            GeoError::NoMetadata
        );
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        /// Goal: no file stops the process or keeps it busy without end, and what is accepted answers. Method: a sound database with some
        /// bytes changed, anywhere or in the metadata at its end, and cut or not.
        #[test]
        fn damaged_bytes_are_refused_or_answer(
            changes in prop::collection::vec((any::<Index>(), any::<u8>(), any::<bool>()), 0..8),
            cut in prop::option::weighted(0.2, any::<Index>()),
            addresses: [u32; 8],
            v6: [u128; 4],
        ) {
            let mut bytes = city();
            let metadata = bytes.len() - 300;
            for (at, value, is_metadata) in changes {
                let at = match is_metadata {
                    true => metadata + at.index(300),
                    false => at.index(bytes.len()),
                };
                bytes[at] = value;
            }
            if let Some(cut) = cut {
                let length = cut.index(bytes.len());
                bytes.truncate(length);
            }
            if let Ok(database) = GeoDatabase::parse(bytes) {
                let v4 = addresses.map(|bits| IpAddr::V4(bits.into()));
                for address in v4.into_iter().chain(v6.map(|bits| IpAddr::V6(bits.into()))) {
                    let place = database.find(address, &GeoField::ALL);
                    prop_assert!(place.text(GeoField::City).len() < 300);
                }
            }
        }
    }
}
