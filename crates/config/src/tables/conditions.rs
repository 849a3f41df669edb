//! Reads what a route asks of a request beside host, path and method: its client and its query.

use toml::de::DeValue;

use crate::cidr;
use crate::field::{KeyField, all, describe, quoted};
use crate::problem::ParseError;
use crate::rules::{ClientCondition, QueryCondition};
use crate::section::step;

/// `client = ["10.0.0.0/8", "!10.1.0.0/16"]`
pub(super) fn client(field: &KeyField<'_>) -> Option<ClientCondition> {
    let mut condition = ClientCondition::default();
    let mut sound = true;
    for element in field.list()? {
        let read = element.parsed(|text| match text.strip_prefix('!') {
            Some(text) => Ok((true, cidr::block(text.trim_start())?)),
            None => Ok((false, cidr::block(text)?)),
        });
        let Some((excepted, block)) = read else {
            sound = false;
            continue;
        };
        if condition.of.contains(&block) || condition.except.contains(&block) {
            let message = format!("{block} stands here already");
            element.refuse::<()>(message, "write it once, with or without !");
            sound = false;
        } else if excepted {
            condition.except.push(block);
        } else {
            condition.of.push(block);
        }
    }
    condition.of.sort();
    condition.except.sort();
    sound.then_some(condition)
}

/// `query = { page = "2", debug = "*" }`, in the order of the names.
pub(super) fn query(field: &KeyField<'_>) -> Option<Vec<QueryCondition>> {
    let section = field.section()?;
    if section.entries().is_empty() {
        return field.refuse(
            "no parameter is named",
            "leave the key out to take any query",
        );
    }
    let conditions = section.entries().into_iter().map(|(name, span, value)| {
        let condition = query_condition(name, value.get_ref());
        condition
            .map_err(|mistake| {
                let place = field.place.inside(&step(name), Some(span));
                let advice = mistake.advice.unwrap_or_else(|| field.advice());
                field.report.error(&place, mistake.message, advice);
            })
            .ok()
    });
    let mut conditions = all(conditions.collect::<Vec<_>>())?;
    conditions.sort_by(|a, b| a.name.cmp(&b.name));
    Some(conditions)
}

fn query_condition(name: &str, value: &DeValue<'_>) -> Result<QueryCondition, ParseError> {
    if name.is_empty() {
        return Err(ParseError::with_advice(
            "a parameter has no name",
            "write one such as page = \"2\"",
        ));
    }
    match value {
        DeValue::String(text) if text == "*" => Ok(QueryCondition {
            name: name.into(),
            value: None,
        }),
        DeValue::String(text) => Ok(QueryCondition {
            name: name.into(),
            value: Some((&**text).into()),
        }),
        other => Err(ParseError::with_advice(
            format!("expected a string, got {}", describe(other)),
            format!("write {} = \"2\", or \"*\" for any value", quoted(name)),
        )),
    }
}
