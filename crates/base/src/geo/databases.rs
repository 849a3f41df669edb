//! Owns the databases of one configuration, and answers for the client of one request.
//!
//! Of several databases that have a field, the first in the order of the configuration that has a value for the address decides.

use std::cell::OnceCell;
use std::net::IpAddr;
use std::sync::Arc;

use super::database::GeoDatabase;
use super::place::{GeoField, GeoPlace};

/// The databases of a configuration, in its order; none where it names none.
#[derive(Clone, Debug, Default)]
pub struct GeoDatabases {
    databases: Vec<Arc<GeoDatabase>>,
    fields: Vec<GeoField>,
}

/// The place of one client. It is looked up when it is read first, once, so that a request on a route that does not read it costs
/// nothing.
#[derive(Clone, Debug)]
pub struct ClientPlace<'d> {
    databases: &'d GeoDatabases,
    address: IpAddr,
    found: OnceCell<GeoPlace>,
}

impl GeoDatabases {
    /// Returns a set that answers for `fields` alone; databases without any of them are left out.
    #[must_use]
    pub fn new<'d>(
        databases: impl IntoIterator<Item = &'d Arc<GeoDatabase>>,
        fields: &[GeoField],
    ) -> Self {
        let has_some =
            |database: &&Arc<GeoDatabase>| database.fields().iter().any(|has| fields.contains(has));
        Self {
            databases: databases
                .into_iter()
                .filter(has_some)
                .map(Arc::clone)
                .collect(),
            fields: fields.to_vec(),
        }
    }

    /// Returns whether no database has any of the fields.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.databases.is_empty()
    }

    /// Returns the fields that it answers for.
    #[must_use]
    pub fn fields(&self) -> &[GeoField] {
        &self.fields
    }

    /// Returns what the databases say of `address`.
    #[must_use]
    pub fn find(&self, address: IpAddr) -> GeoPlace {
        let mut place = GeoPlace::default();
        for database in &self.databases {
            let found = database.find(address, &self.fields);
            place = GeoPlace {
                country: place.country.or(found.country),
                asn: place.asn.or(found.asn),
                city: place.city.or(found.city),
            };
        }
        place
    }

    /// Returns the database that decides about `field` of `address`; `None` where none has a value.
    #[must_use]
    pub fn source(&self, address: IpAddr, field: GeoField) -> Option<&Arc<GeoDatabase>> {
        let mut databases = self.databases.iter();
        databases.find(|database| database.find(address, &[field]).has(field))
    }
}

impl<'d> ClientPlace<'d> {
    /// Returns the place of a client with this address, which is not looked up yet.
    #[must_use]
    pub fn new(databases: &'d GeoDatabases, address: IpAddr) -> Self {
        Self {
            databases,
            address,
            found: OnceCell::new(),
        }
    }

    /// Returns it with a place that is known already.
    #[must_use]
    pub fn with(self, place: Option<GeoPlace>) -> Self {
        Self {
            found: place.map_or_else(OnceCell::new, OnceCell::from),
            ..self
        }
    }

    /// Returns the place.
    pub fn get(&self) -> &GeoPlace {
        self.found.get_or_init(|| self.databases.find(self.address))
    }

    /// Returns the place where it was looked up; `None` where nothing has read it.
    #[must_use]
    pub fn known(&self) -> Option<&GeoPlace> {
        self.found.get()
    }
}
