//! Makes the JSON Schema of the configuration, for editors.
//!
//! Keys of declared tables (decision 0037) are taken from their declarations, which also read them. For the others the parser is asked: the
//! reference, conf/reference.toml, which is tested to have every key, is the specimen. Each value in it is replaced by one of every type in
//! turn, and the walk says whether it was "expected". The description of a key is the comment above it, and its example is the value. A key
//! that is added to the parser and to the reference is thereby in the schema. The readers of values note ranges, words and the forms of
//! texts meanwhile ([`super::form`]).
//!
//! # Limits
//! It does not know the range of a duration, the grammar of keys, paths and conditions, or which keys exclude each other:
//! `sluicegate check` does.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use serde_json::{Map, Value, json};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::declaration::KeyDeclaration;
use super::declared_tables::{OTHER_PLACES, declared_tables};
use super::environment::NoEnvironment;
use super::file::{forms, known_keys, parse_in, required_keys};
use super::form::{KeyConstraints, ValueConstraint, ValueKind};
use super::route_review::no_review;
use super::schema_constraints::constraints;
use super::specimen::specimen;

/// A value of each type, and how the parser calls one that it did not expect.
const PROBES: [(&str, &str, ValueKind); 6] = [
    ("\"\"", "the string", ValueKind::String),
    ("7", "the integer", ValueKind::Integer),
    ("7.5", "the float", ValueKind::Number),
    ("true", "true", ValueKind::Boolean),
    ("[]", "a list", ValueKind::Array),
    ("{}", "a table", ValueKind::Object),
];

/// The schema, of draft 2020-12.
#[must_use]
pub fn schema() -> Value {
    let (specimen, optional) = specimen();
    let known = known_keys(&specimen, &NoEnvironment);
    let (table, _) = DeTable::parse_recoverable(&specimen);
    let mut survey = SpecimenSurvey {
        specimen: &specimen,
        optional: &optional,
        known: &known,
        keys: BTreeMap::new(),
        forms: forms(&specimen, &NoEnvironment),
    };
    for table in declared_tables() {
        for key in &table.keys {
            let places = OTHER_PLACES.iter();
            let places = places.filter(|(_, first)| *first == table.path);
            for path in places.map(|(path, _)| *path).chain([table.path]) {
                survey.declare(&format!("{path}.{}", key.name), key);
            }
        }
    }
    for table in declared_tables() {
        if let Some(key) = survey.keys.get_mut(table.path) {
            key.comment = table.comment.to_owned();
        }
    }
    survey.table(table.get_ref(), "", "");
    let required = required_keys(&specimen, &NoEnvironment);
    let mut schema = Map::from_iter([
        (
            "$schema".to_owned(),
            json!("https://json-schema.org/draft/2020-12/schema"),
        ),
        (
            "title".to_owned(),
            json!(concat!("Sluicegate ", env!("CARGO_PKG_VERSION"))),
        ),
    ]);
    schema.extend(survey.object("", &required));
    Value::Object(schema)
}

/// A key as the parser answered about it.
#[derive(Debug, Default)]
struct SurveyedKey {
    /// Its type declares it, so it need not be asked about.
    is_declared: bool,
    kinds: BTreeSet<ValueKind>,
    /// The types of the elements, where it is a list.
    items: BTreeSet<ValueKind>,
    comment: String,
    example: Option<Value>,
}

/// The types that the parser takes for the value at `path` and `span`, which `put` replaces by one that holds the probe, and says where:
/// whatever else is wrong, it must not have expected another type there or at `path`.
fn taken(
    text: &str,
    span: Range<usize>,
    path: &str,
    put: impl Fn(&str) -> (String, String),
) -> BTreeSet<ValueKind> {
    let before = &text[..span.start];
    let after = &text[span.end..];
    let takes = |probe: &str, got: &str| {
        let (instead, place) = put(probe);
        let Err(problems) = parse_in(
            "",
            &format!("{before}{instead}{after}"),
            &NoEnvironment,
            no_review,
        ) else {
            return true;
        };
        let got = format!(", got {got}");
        !problems.iter().any(|problem| {
            (problem.key_path == path || problem.key_path == place)
                && problem.message.starts_with("expected ")
                && problem.message.contains(&got)
        })
    };
    PROBES
        .into_iter()
        .filter_map(|(probe, got, kind)| takes(probe, got).then_some(kind))
        .collect()
}

/// The specimen under examination.
struct SpecimenSurvey<'s> {
    specimen: &'s str,
    /// Its lines that the reference has commented out.
    optional: &'s [Range<usize>],
    /// `limit.NAME.rates`
    known: &'s BTreeSet<String>,
    keys: BTreeMap<String, SurveyedKey>,
    forms: KeyConstraints,
}

impl SpecimenSurvey<'_> {
    /// Asks about every key of a table; `path` is what problems call it, `generic` what it is in every file.
    fn table(&mut self, table: &DeTable<'_>, path: &str, generic: &str) {
        for (key, value) in table {
            let name = key.get_ref();
            let path = format!("{path}{}", super::section::step(name));
            let path = path.trim_start_matches('.');
            let is_known = self.known.contains(&inside(generic, name));
            let generic = if is_known {
                inside(generic, name)
            } else if self.has_names(generic) {
                inside(generic, "NAME")
            } else {
                // A key of the operator's own.
                continue;
            };
            if is_known {
                self.key(&generic, path, key.span().start, value);
            }
            match value.get_ref() {
                DeValue::Table(table) => self.table(table, path, &generic),
                DeValue::Array(elements) => {
                    for (at, element) in elements.iter().enumerate() {
                        if let DeValue::Table(table) = element.get_ref() {
                            self.table(table, &format!("{path}[{at}]"), &format!("{generic}[]"));
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Takes over the declaration of a key, which the parser is not asked about any more. Forms that are not declared stay as noted.
    fn declare(&mut self, generic: &str, declared: &KeyDeclaration) {
        let form = &declared.form;
        let shown = DeValue::parse(declared.shown);
        let key = SurveyedKey {
            is_declared: true,
            kinds: form.kinds.iter().copied().collect(),
            items: form.items.iter().copied().collect(),
            comment: declared.comment.to_owned(),
            example: shown.ok().and_then(|shown| example(shown.get_ref())),
        };
        self.keys.insert(generic.to_owned(), key);
        for (path, forms) in [
            (generic.to_owned(), &form.forms),
            (format!("{generic}[]"), &form.item_forms),
        ] {
            if !forms.is_empty() {
                self.forms.insert(path, forms.clone());
            }
        }
    }

    fn key(&mut self, generic: &str, path: &str, at: usize, value: &Spanned<DeValue<'_>>) {
        if self.keys.get(generic).is_some_and(|key| key.is_declared) {
            return;
        }
        let mut key = self.keys.remove(generic).unwrap_or_default();
        if key.comment.is_empty() {
            key.comment = comment_above(self.specimen, at);
        }
        let written = &self.specimen[value.span()];
        match value.get_ref() {
            // Written under headers of their own, which is how all of their kind are.
            DeValue::Table(_) if !written.starts_with('{') => {
                if key.kinds.is_empty() {
                    key.kinds.insert(ValueKind::Object);
                }
            }
            DeValue::Array(elements) if is_of_tables(elements) => {
                key.kinds.insert(ValueKind::Array);
                key.items.insert(ValueKind::Object);
            }
            written => {
                let whole = |probe: &str| (probe.to_owned(), path.to_owned());
                let first = |probe: &str| (format!("[{probe}]"), format!("{path}[0]"));
                let mut text = Cow::Borrowed(self.specimen);
                let mut kinds = taken(&text, value.span(), path, whole);
                if kinds.len() == PROBES.len() {
                    // Nobody looked at it: it excludes another key of the reference.
                    text = self.without_others(at).into();
                    self.learn(&text);
                    kinds = taken(&text, value.span(), path, whole);
                }
                if kinds.contains(&ValueKind::Array) {
                    narrow(&mut key.items, taken(&text, value.span(), path, first));
                }
                narrow(&mut key.kinds, kinds);
                key.example = key.example.or_else(|| example(written));
            }
        }
        self.keys.insert(generic.to_owned(), key);
    }

    /// Takes over what is noted of forms while `text` is read.
    fn learn(&mut self, text: &str) {
        for (key, found) in forms(text, &NoEnvironment) {
            let known = self.forms.entry(key).or_default();
            let new = |form: &ValueConstraint| !known.contains(form);
            let mut found: Vec<ValueConstraint> = found.into_iter().filter(new).collect();
            known.append(&mut found);
        }
    }

    /// The specimen with blanks for what the reference has commented out, except what stands at `at`.
    fn without_others(&self, at: usize) -> String {
        let mut text = String::with_capacity(self.specimen.len());
        for line in self.optional.iter().filter(|line| !line.contains(&at)) {
            text.push_str(&self.specimen[text.len()..line.start]);
            text.extend(std::iter::repeat_n(' ', line.len()));
        }
        text.push_str(&self.specimen[text.len()..]);
        text
    }

    fn has_names(&self, generic: &str) -> bool {
        let named = format!("{}.", inside(generic, "NAME"));
        self.known.iter().any(|known| known.starts_with(&named))
    }

    /// The schema of a table. One whose keys the parser does not know takes any.
    fn object(&self, generic: &str, required: &BTreeSet<String>) -> Map<String, Value> {
        let mut schema = Map::from_iter([("type".to_owned(), json!("object"))]);
        if self.has_names(generic) {
            let named = self.object(&inside(generic, "NAME"), required);
            schema.insert("additionalProperties".to_owned(), named.into());
            return schema;
        }
        let children: Vec<(&str, String)> = self
            .known
            .iter()
            .filter_map(|known| {
                let rest = known.strip_prefix(generic)?;
                let name = if generic.is_empty() {
                    rest
                } else {
                    rest.strip_prefix('.')?
                };
                (!name.contains(['.', '['])).then(|| (name, known.clone()))
            })
            .collect();
        if children.is_empty() {
            return schema;
        }
        let properties: Map<String, Value> = children
            .iter()
            .map(|(name, generic)| ((*name).to_owned(), self.property(generic, required)))
            .collect();
        let must: Vec<&str> = children
            .iter()
            .filter(|(_, generic)| required.contains(generic))
            .map(|(name, _)| *name)
            .collect();
        schema.insert("properties".to_owned(), properties.into());
        if !must.is_empty() {
            schema.insert("required".to_owned(), json!(must));
        }
        schema.insert("additionalProperties".to_owned(), json!(false));
        schema
    }

    /// Says of which types a value is, and how it is written.
    fn restrict(
        &self,
        schema: &mut Map<String, Value>,
        kinds: &BTreeSet<ValueKind>,
        generic: &str,
    ) {
        let types: Vec<&str> = kinds.iter().map(|kind| kind.name()).collect();
        match types.as_slice() {
            [] => {}
            [one] => {
                schema.insert("type".to_owned(), json!(one));
            }
            several => {
                schema.insert("type".to_owned(), json!(several));
            }
        }
        if let Some(forms) = self.forms.get(generic) {
            schema.extend(constraints(forms, &types));
        }
    }

    fn property(&self, generic: &str, required: &BTreeSet<String>) -> Value {
        let Some(key) = self.keys.get(generic) else {
            return json!(true);
        };
        let mut schema = Map::new();
        if key.kinds.contains(&ValueKind::Object) {
            schema = self.object(generic, required);
        }
        self.restrict(&mut schema, &key.kinds, generic);
        if key.kinds.contains(&ValueKind::Array) && !key.items.is_empty() {
            let generic = format!("{generic}[]");
            let mut items = Map::new();
            if key.items.contains(&ValueKind::Object) {
                items = self.object(&generic, required);
            }
            self.restrict(&mut items, &key.items, &generic);
            schema.insert("items".to_owned(), items.into());
        }
        if !key.comment.is_empty() {
            schema.insert("description".to_owned(), json!(key.comment));
        }
        if let Some(example) = &key.example {
            schema.insert("examples".to_owned(), json!([example]));
        }
        schema.into()
    }
}

/// The lines of comment directly above, as one text.
fn comment_above(text: &str, at: usize) -> String {
    let above = &text[..at];
    let line = above.rfind('\n').map_or(0, |end| end + 1);
    let mut lines: Vec<&str> = text[..line]
        .lines()
        .rev()
        .take_while(|line| line.starts_with("# "))
        .map(|line| line[2..].trim_end())
        .collect();
    lines.reverse();
    // The headings of the reference are not about the key below them.
    lines.retain(|line| !line.contains("──"));
    lines.join("\n")
}

/// `[[route]]`, or the same written inline.
fn is_of_tables(elements: &toml::de::DeArray<'_>) -> bool {
    let is_table = |element: &Spanned<DeValue<'_>>| matches!(element.get_ref(), DeValue::Table(_));
    !elements.is_empty() && elements.iter().all(is_table)
}

/// Where a key is written several times, what each place takes: one may not have been looked at, because of what stands beside it.
fn narrow(known: &mut BTreeSet<ValueKind>, found: BTreeSet<ValueKind>) {
    if known.is_empty() {
        *known = found;
    } else {
        known.retain(|kind| found.contains(kind));
    }
}

fn example(value: &DeValue<'_>) -> Option<Value> {
    match value {
        DeValue::String(text) => Some(json!(text)),
        DeValue::Integer(integer) => integer.as_str().parse::<i64>().ok().map(|n| json!(n)),
        DeValue::Boolean(value) => Some(json!(value)),
        DeValue::Array(elements) => {
            let elements: Option<Vec<Value>> = elements
                .iter()
                .map(|element| example(element.get_ref()))
                .collect();
            elements.map(Value::from)
        }
        DeValue::Float(_) | DeValue::Datetime(_) | DeValue::Table(_) => None,
    }
}

fn inside(generic: &str, key: &str) -> String {
    if generic.is_empty() {
        key.to_owned()
    } else {
        format!("{generic}.{key}")
    }
}
