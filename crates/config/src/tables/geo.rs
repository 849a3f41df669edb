//! Declares `[geo]`: the databases that say country, city and ASN of a client, and how conditions name such values.
//!
//! A file is read whole when it is read, and is watched with the configuration. A broken one is a warning where the database that is in
//! force came from the same file, which then stays; else it is an error: a gateway that starts without its database would limit nobody
//! as meant.

use std::path::PathBuf;
use std::sync::Arc;

use sluicegate_base::bounds::{GEO_DATABASES, GEO_VALUES};
use sluicegate_base::geo::{CountryCode, GeoDatabase, GeoField, PlaceSet, UNKNOWN};
use sluicegate_config_derive::Table;
use toml::de::DeValue;

use crate::declaration::{ListBy, TEXT};
use crate::field::{KeyField, all, quoted};
use crate::problem::ParseError;
use crate::report::ProblemReport;
use crate::rules::FileState;

pub(crate) const EXAMPLE: &str = "{ databases = [\"/var/lib/GeoIP/GeoLite2-Country.mmdb\"] }";

/// Databases of places and networks, for `client.country`, `client.city` and `client.asn` in keys, and for `countries`, `cities` and `asns`
/// of routes and lists. docs/geo.md says what they can decide.
#[derive(Clone, Debug, PartialEq, Eq, Table)]
#[table(path = "geo")]
pub struct GeoRules {
    /// Files in the MaxMind format (.mmdb), at most 8 of 1GiB: GeoLite2, GeoIP2, DB-IP, IPinfo or your own. The first file with a value for
    /// an address decides. Files are read into memory, and again when they change; a broken file keeps the previous content, and is an
    /// error at the start. Default: none.
    #[key(
        example = "[\"/var/lib/GeoIP/GeoLite2-Country.mmdb\"]",
        shown = "[\"city.mmdb\", \"asn.mmdb\"]",
        default = Vec::new(),
        reader = ListBy(databases, TEXT)
    )]
    pub databases: Vec<GeoFile>,
}

/// The file of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GeoFile {
    /// Its path; it is watched.
    pub path: PathBuf,
    /// The state of its content.
    pub state: FileState,
    /// That content.
    pub database: Arc<GeoDatabase>,
}

fn databases(field: &KeyField<'_>) -> Option<Vec<GeoFile>> {
    let elements = field.elements()?;
    if elements.len() > GEO_DATABASES {
        let message = format!("{} databases are too many", elements.len());
        return field.refuse(message, format!("keep at most {GEO_DATABASES}"));
    }
    if field.report.environment.is_offline() {
        // No file is read, so there is nothing to make rules of.
        all(elements.iter().map(KeyField::path))?;
        return Some(Vec::new());
    }
    all(elements.iter().map(database).collect::<Vec<_>>())
}

fn database(field: &KeyField<'_>) -> Option<GeoFile> {
    let path = field.path()?;
    let shown = quoted(&path.display().to_string());
    let known = field.report.environment.database_in_force(&path);
    let read = field.report.read_bytes(&path);
    let (message, advice) = match read {
        Ok(bytes) => {
            // A reload that is about other files must not verify a large database again.
            if let Some(database) = known.as_ref().filter(|known| known.is_of(&bytes)) {
                return Some(GeoFile {
                    path,
                    state: FileState::Read,
                    database: Arc::clone(database),
                });
            }
            match GeoDatabase::parse(bytes) {
                Ok(database) => {
                    return Some(GeoFile {
                        path,
                        state: FileState::Read,
                        database: Arc::new(database),
                    });
                }
                Err(error) => (
                    format!("{shown} {error}"),
                    "put a whole .mmdb file there that has countries, cities or ASNs, such as GeoLite2-Country.mmdb, by renaming it \
                     (geoipupdate does)",
                ),
            }
        }
        Err(error) => (
            format!("{shown} cannot be read: {error}"),
            "write the path of a .mmdb file that the user who runs the gateway may read; geoipupdate puts those of MaxMind into \
             /var/lib/GeoIP",
        ),
    };
    let Some(database) = known else {
        return field.refuse(message, advice);
    };
    field.warn(
        message,
        "correct the file; until then its content in force stays",
    );
    Some(GeoFile {
        path,
        state: FileState::Kept,
        database,
    })
}

/// The values of one field that a route or a list names, and those behind `!`.
#[derive(Default)]
pub(super) struct NamedPlaces {
    pub(super) of: PlaceSet,
    pub(super) except: PlaceSet,
}

/// Reads the values that a route or a list names in `geo`; `!` before one excepts it.
pub(super) fn places(field: &KeyField<'_>, geo: GeoField) -> Option<NamedPlaces> {
    let elements = field.elements()?;
    if elements.len() > GEO_VALUES {
        let message = format!("{} values are too many here", elements.len());
        return field.refuse(message, format!("keep at most {GEO_VALUES}"));
    }
    let mut named = NamedPlaces::default();
    let mut sound = true;
    for element in &elements {
        let Some((is_excepted, value)) = place(element, geo) else {
            sound = false;
            continue;
        };
        let (into, other) = match is_excepted {
            true => (&mut named.except, &named.of),
            false => (&mut named.of, &named.except),
        };
        if !other.is_empty() {
            element.refuse::<()>(
                "values and exceptions cannot stand together: whatever is not named is excepted already",
                "write all of them with !, or none",
            );
            sound = false;
        } else if !add(into, value) {
            element.refuse::<()>("the value stands here already", "write it once");
            sound = false;
        }
    }
    sort(&mut named.of);
    sort(&mut named.except);
    sound.then_some(named)
}

/// One value of a field; `None` inside stands for an unknown one.
enum PlaceValue {
    Country(Option<CountryCode>),
    City(Option<Arc<str>>),
    Asn(Option<u32>),
}

fn place(field: &KeyField<'_>, geo: GeoField) -> Option<(bool, PlaceValue)> {
    if let (GeoField::Asn, DeValue::Integer(_)) = (geo, field.value) {
        let asn = field.integer(1..=u32::MAX.into())?;
        return Some((false, PlaceValue::Asn(u32::try_from(asn).ok())));
    }
    field.parsed(|text| match text.strip_prefix('!') {
        Some(text) => Ok((true, value(text.trim_start(), geo)?)),
        None => Ok((false, value(text, geo)?)),
    })
}

fn value(text: &str, geo: GeoField) -> Result<PlaceValue, ParseError> {
    let is_unknown = text == UNKNOWN;
    Ok(match geo {
        GeoField::Country if is_unknown => PlaceValue::Country(None),
        GeoField::City if is_unknown => PlaceValue::City(None),
        GeoField::Asn if is_unknown => PlaceValue::Asn(None),
        GeoField::Country => PlaceValue::Country(Some(country(text)?)),
        GeoField::City => PlaceValue::City(Some(city(text)?)),
        GeoField::Asn => PlaceValue::Asn(Some(asn(text)?)),
    })
}

/// Returns the bytes by which a key counts a value, as a row of overrides or an operator names it.
pub(crate) fn counted_by(text: &str, geo: GeoField) -> Result<Vec<u8>, ParseError> {
    let text = match value(text, geo)? {
        PlaceValue::Country(Some(country)) => country.to_string(),
        PlaceValue::City(Some(city)) => city.to_string(),
        PlaceValue::Asn(Some(asn)) => asn.to_string(),
        PlaceValue::Country(None) | PlaceValue::City(None) | PlaceValue::Asn(None) => {
            UNKNOWN.to_owned()
        }
    };
    Ok(text.into_bytes())
}

fn country(text: &str) -> Result<CountryCode, ParseError> {
    // Codes that are written for others more often than meant, ISO 3166-1.
    let meant = match text.to_ascii_uppercase().as_str() {
        "UK" => Some("GB"),
        "EL" => Some("GR"),
        "EN" => Some("GB"),
        _ => None,
    };
    if let Some(meant) = meant {
        return Err(ParseError::with_advice(
            format!("{} is the code of no country", quoted(text)),
            format!("write \"{meant}\""),
        ));
    }
    let is_upper = !text.bytes().any(|byte| byte.is_ascii_lowercase());
    match CountryCode::new(text) {
        Some(code) if is_upper => Ok(code),
        Some(code) => Err(ParseError::with_advice(
            format!(
                "{} is not in upper case, as countries are written",
                quoted(text)
            ),
            format!("write \"{code}\""),
        )),
        None => Err(ParseError::with_advice(
            format!("{} is not the code of a country", quoted(text)),
            "write two letters of ISO 3166-1 such as \"DE\", or \"unknown\"",
        )),
    }
}

fn city(text: &str) -> Result<Arc<str>, ParseError> {
    let is_city = text
        .split_once('/')
        .is_some_and(|(_, name)| !name.is_empty() && !text.contains(char::is_control));
    if is_city {
        return Ok(text.into());
    }
    Err(ParseError::with_advice(
        format!("{} does not say which country the city is in", quoted(text)),
        "write it as `sluicegate explain --client ADDRESS` shows it, such as \"DE-BE/Berlin\", or \"unknown\"",
    ))
}

fn asn(text: &str) -> Result<u32, ParseError> {
    let digits = text.strip_prefix("AS").unwrap_or(text);
    let is_plain = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = digits
        .parse()
        .ok()
        .filter(|number| *number != 0 && is_plain);
    number.ok_or_else(|| {
        ParseError::with_advice(
            format!("{} is not the number of a network", quoted(text)),
            "write one such as 64496 or \"AS64496\", or \"unknown\"",
        )
    })
}

/// Adds a value; returns false where it is there already.
fn add(into: &mut PlaceSet, value: PlaceValue) -> bool {
    fn push<T: PartialEq>(values: &mut Vec<T>, value: T) -> bool {
        let is_new = !values.contains(&value);
        if is_new {
            values.push(value);
        }
        is_new
    }
    match value {
        PlaceValue::Country(country) => push(&mut into.countries, country),
        PlaceValue::City(city) => push(&mut into.cities, city),
        PlaceValue::Asn(asn) => push(&mut into.asns, asn),
    }
}

fn sort(places: &mut PlaceSet) {
    places.countries.sort_unstable();
    places.cities.sort_unstable();
    places.asns.sort_unstable();
}

/// Checks that some database has each field that the configuration reads, `reads` in the order of the file.
pub(crate) fn check<'p>(
    geo: &GeoRules,
    reads: impl IntoIterator<Item = (GeoField, &'p crate::report::KeyPlace)>,
    report: &ProblemReport<'_>,
) {
    if report.environment.is_offline() {
        return;
    }
    let has = |field: GeoField| {
        let mut databases = geo.databases.iter();
        databases.any(|file| file.database.fields().contains(&field))
    };
    for (field, place) in reads {
        if has(field) {
            continue;
        }
        let usual = match field {
            GeoField::Country => "GeoLite2-Country.mmdb",
            GeoField::City => "GeoLite2-City.mmdb",
            GeoField::Asn => "GeoLite2-ASN.mmdb",
        };
        let message = if geo.databases.is_empty() {
            format!("\"{field}\" is read here, and no database is there to say it")
        } else {
            format!("\"{field}\" is read here, and none of the databases of [geo] has it")
        };
        report.absent(
            place,
            message,
            format!("write [geo] with databases = [\"/var/lib/GeoIP/{usual}\"]"),
        );
    }
}
