//! ServiceProfiles. Their definition admits much that makes no sense; each such part costs as little as can be.

use std::sync::Arc;

use serde_json::{Map, Value};

use super::quantity::milli;
use super::{Warning, quote};
use crate::model::{
    HttpMethod, Override, ProfileFacts, RequestMatch, ResponseClass, ResponseMatch, RetryBudget,
    Route, SignedDuration, StatusRange, Text,
};

/// How deep conditions may be nested: clients refuse messages that are nested deeper than some 100 levels, and a
/// condition takes two.
const DEPTH_MAX: usize = 32;

/// Weights are sent in ten-thousandths, and counted in thousandths.
const WEIGHT_PER_MILLI: u64 = 10;

/// What makes a condition useless.
type Problem = &'static str;

/// A place within a ServiceProfile, and where to complain about it.
struct Part<'a> {
    path: String,
    warnings: &'a mut Vec<Warning>,
}

/// A kind of condition: what of it is no combination of others.
trait Condition: Sized + 'static {
    /// Fields in the order in which they are sent.
    const FIELDS: &'static [Field<Self>];

    fn all(matches: Box<[Self]>) -> Self;
    fn any(matches: Box<[Self]>) -> Self;
    fn not(one: Self) -> Self;
}

/// A field of a condition.
enum Field<C> {
    All,
    Any,
    Not,
    /// One that only this kind of condition has: its name, and how it is read.
    Own(&'static str, fn(&Value) -> Result<C, Problem>),
}

/// What the `spec` of a ServiceProfile says.
pub(super) fn facts(spec: &Value, warnings: &mut Vec<Warning>) -> ProfileFacts {
    let mut part = Part {
        path: "spec".to_owned(),
        warnings,
    };
    let Some(spec) = part.object(spec) else {
        return ProfileFacts::default();
    };
    ProfileFacts {
        routes: part.list(spec, "routes", route),
        retry_budget: spec
            .get("retryBudget")
            .filter(|budget| !budget.is_null())
            .and_then(|budget| {
                let read = retry_budget(budget);
                part.at("retryBudget").note(read)
            }),
        overrides: part.list(spec, "dstOverrides", |entry, part| {
            let read = dst_override(entry);
            part.note(read)
        }),
    }
}

fn route(entry: &Value, part: &mut Part<'_>) -> Option<Route> {
    let entry = part.object(entry)?;
    let condition = condition(entry.get("condition"), 0);
    let condition = part.at("condition").note(condition)?;
    let timeout = match entry.get("timeout") {
        None | Some(Value::Null) => None,
        Some(Value::String(text)) if text.is_empty() => None,
        Some(text) => {
            let read = text
                .as_str()
                .and_then(SignedDuration::parse)
                .ok_or("is no duration such as 1.5s, so it is left out");
            part.at("timeout").note(read)
        }
    };
    Some(Route {
        name: text(entry.get("name")),
        condition,
        classes: part.list(entry, "responseClasses", |entry, part| {
            let entry = part.object(entry)?;
            let condition = self::condition(entry.get("condition"), 0);
            Some(ResponseClass {
                condition: part.at("condition").note(condition)?,
                failure: flag(entry.get("isFailure")),
            })
        }),
        retryable: flag(entry.get("isRetryable")),
        timeout: timeout.filter(|timeout| !timeout.is_zero()),
    })
}

/// Reads a condition: its fields, of which all have to hold.
fn condition<C: Condition>(value: Option<&Value>, depth: usize) -> Result<C, Problem> {
    if depth == DEPTH_MAX {
        return Err("is nested too deeply, so what it is for is left out");
    }
    let Some(Value::Object(fields)) = value else {
        return Err("is no condition, so what it is for is left out");
    };
    let mut matches = Vec::new();
    for field in C::FIELDS {
        let name = field.name();
        let Some(value) = fields.get(name).filter(|value| is_set(value)) else {
            continue;
        };
        matches.push(match field {
            Field::All => C::all(conditions(value, depth)?),
            Field::Any => C::any(conditions(value, depth)?),
            Field::Not => C::not(negated(value, depth)?),
            Field::Own(_, read) => read(value)?,
        });
    }
    match matches.len() {
        0 => Err("has no condition that is known, so what it is for is left out"),
        1 => Ok(matches.remove(0)),
        _ => Ok(C::all(matches.into())),
    }
}

fn conditions<C: Condition>(value: &Value, depth: usize) -> Result<Box<[C]>, Problem> {
    let Value::Array(list) = value else {
        return Err("has an all or any that is no list, so what it is for is left out");
    };
    list.iter()
        .map(|entry| condition(Some(entry), depth + 1))
        .collect()
}

/// The definition asks for a list on one level and for an object on all others, and means the same.
fn negated<C: Condition>(value: &Value, depth: usize) -> Result<C, Problem> {
    match value {
        Value::Array(list) => match &list[..] {
            [one] => condition(Some(one), depth + 1),
            _ => Err("negates several conditions or none, so what it is for is left out"),
        },
        one => condition(Some(one), depth + 1),
    }
}

fn path(value: &Value) -> Result<RequestMatch, Problem> {
    let text = value.as_str().ok_or("has a pathRegex that is no text")?;
    Ok(RequestMatch::Path(text.into()))
}

fn method(value: &Value) -> Result<RequestMatch, Problem> {
    let text = value.as_str().ok_or("has a method that is no text")?;
    Ok(RequestMatch::Method(HttpMethod::new(text)))
}

fn status(value: &Value) -> Result<ResponseMatch, Problem> {
    const PROBLEM: Problem =
        "has a status range that is not within 100 to 599, so what it is for is left out";
    let Value::Object(range) = value else {
        return Err(PROBLEM);
    };
    let end = |name: &str| match range.get(name) {
        None | Some(Value::Null) => Ok(0),
        Some(code) => match code.as_u64().and_then(|code| u16::try_from(code).ok()) {
            Some(code) if code == 0 || (100..600).contains(&code) => Ok(code),
            _ => Err(PROBLEM),
        },
    };
    let (min, max) = (end("min")?, end("max")?);
    if max != 0 && max < min {
        return Err("has a status range that ends before it begins, so what it is for is left out");
    }
    Ok(ResponseMatch::Status(StatusRange { min, max }))
}

fn retry_budget(value: &Value) -> Result<RetryBudget, Problem> {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "it is sent with the precision of 32 bits"
    )]
    let ratio = match value.get("retryRatio") {
        None | Some(Value::Null) => 0.0,
        Some(ratio) => ratio
            .as_f64()
            .ok_or("has a retryRatio that is no number, so the default budget is used")?
            as f32,
    };
    let min_per_second = match value.get("minRetriesPerSecond") {
        None | Some(Value::Null) => 0,
        Some(number) => number
            .as_u64()
            .and_then(|number| u32::try_from(number).ok())
            .ok_or("has a minRetriesPerSecond out of range, so the default budget is used")?,
    };
    let ttl = value
        .get("ttl")
        .and_then(Value::as_str)
        .and_then(SignedDuration::parse)
        .ok_or("has a ttl that is no duration such as 10s, so the default budget is used")?;
    Ok(RetryBudget {
        ratio,
        min_per_second,
        ttl,
    })
}

fn dst_override(entry: &Value) -> Result<Override, Problem> {
    let authority = match entry.get("authority").and_then(Value::as_str) {
        None | Some("") => return Err("has no authority, so it is left out"),
        Some(authority) => authority,
    };
    let weight = match entry.get("weight") {
        None | Some(Value::Null) => Some(0),
        Some(Value::String(text)) => milli(text),
        Some(Value::Number(number)) => milli(&number.to_string()),
        Some(_) => None,
    };
    let weight = weight.ok_or("has a weight that is no quantity, so it is left out")?;
    let weight = weight.saturating_mul(WEIGHT_PER_MILLI);
    Ok(Override {
        authority: authority.into(),
        weight: u32::try_from(weight).unwrap_or(u32::MAX),
    })
}

fn is_set(value: &Value) -> bool {
    !value.is_null() && value.as_str() != Some("")
}

fn text(value: Option<&Value>) -> Text {
    value.and_then(Value::as_str).unwrap_or_default().into()
}

fn flag(value: Option<&Value>) -> bool {
    value.and_then(Value::as_bool).unwrap_or_default()
}

// === impl Part ===

impl Part<'_> {
    /// A part of this part.
    fn at(&mut self, name: &str) -> Part<'_> {
        Part {
            path: format!("{}.{name}", self.path),
            warnings: self.warnings,
        }
    }

    /// What was read; a problem becomes a warning.
    fn note<T>(&mut self, read: Result<T, Problem>) -> Option<T> {
        read.map_err(|problem| {
            self.warnings.push(Warning::ProfilePart {
                part: quote(&self.path),
                problem,
            });
        })
        .ok()
    }

    /// The value as an object; an absent one is an empty one.
    fn object<'v>(&mut self, value: &'v Value) -> Option<&'v Map<String, Value>> {
        match value {
            Value::Object(object) => Some(object),
            Value::Null => None,
            _ => self.note(Err("is no object, so it is left out")),
        }
    }

    /// The usable entries of a list; an absent one is empty.
    fn list<T>(
        &mut self,
        object: &Map<String, Value>,
        name: &str,
        mut read: impl FnMut(&Value, &mut Part<'_>) -> Option<T>,
    ) -> Box<[T]> {
        match object.get(name) {
            None | Some(Value::Null) => Box::default(),
            Some(Value::Array(list)) => list
                .iter()
                .enumerate()
                .filter_map(|(place, entry)| read(entry, &mut self.at(&format!("{name}[{place}]"))))
                .collect(),
            Some(_) => self
                .at(name)
                .note(Err("is no list, so it is left out"))
                .unwrap_or_default(),
        }
    }
}

// === impl Condition ===

impl Condition for RequestMatch {
    const FIELDS: &'static [Field<Self>] = &[
        Field::All,
        Field::Any,
        Field::Own("method", method),
        Field::Not,
        Field::Own("pathRegex", path),
    ];

    fn all(matches: Box<[Self]>) -> Self {
        Self::All(matches)
    }

    fn any(matches: Box<[Self]>) -> Self {
        Self::Any(matches)
    }

    fn not(one: Self) -> Self {
        Self::Not(Arc::new(one))
    }
}

impl Condition for ResponseMatch {
    const FIELDS: &'static [Field<Self>] = &[
        Field::All,
        Field::Any,
        Field::Own("status", status),
        Field::Not,
    ];

    fn all(matches: Box<[Self]>) -> Self {
        Self::All(matches)
    }

    fn any(matches: Box<[Self]>) -> Self {
        Self::Any(matches)
    }

    fn not(one: Self) -> Self {
        Self::Not(Arc::new(one))
    }
}

// === impl Field ===

impl<C> Field<C> {
    fn name(&self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Any => "any",
            Self::Not => "not",
            Self::Own(name, _) => name,
        }
    }
}

#[cfg(test)]
pub(super) mod tests;
