//! The fields that objects have, and JSON that is made after them: mostly what belongs there, often enough not.

use serde_json::{Map, Value};

use crate::testing::Dice;

/// What belongs in a place.
#[derive(Debug)]
pub(super) enum Shape {
    /// One of these, or a text that nobody should write.
    Text(&'static [&'static str]),
    Number(&'static [i64]),
    Flag,
    /// Some of these fields.
    Fields(&'static [(&'static str, Shape)]),
    List(&'static Shape),
    /// Either of two.
    Either(&'static Shape, &'static Shape),
    /// A condition of a ServiceProfile, which may have others in it; these are what it has besides.
    Condition(&'static [(&'static str, Shape)]),
}

/// Texts that find mistakes.
const TEXTS: &[&str] = &[
    "",
    " ",
    "\n",
    "\0",
    ".",
    "..",
    ":",
    "::",
    "@",
    "@@",
    ",",
    ",,",
    "-",
    "--",
    "/",
    "[",
    "]",
    "%",
    "%%",
    "0",
    "-0",
    "+1",
    "65535",
    "65536",
    "99999999999999999999",
    "0x10",
    "1e9",
    "1e-400",
    "9e999",
    ".5",
    "5.",
    "1-",
    "-1-",
    "1-65535",
    "65535-1",
    "0-0",
    "http,80-90,bad,,443",
    "None",
    "null",
    "true",
    "ä",
    "ß.ß",
    "\u{212a}",
    "İ",
    "\u{feff}",
    "\u{202e}x",
    "💥",
    "a\u{301}",
    "::ffff:10.0.0.1",
    "fe80::1%eth0",
    "10.0.0.1%",
    "010.0.0.1",
    "256.1.1.1",
    "1.2.3.4.5",
    "[::1]:80",
    "0.0.0.0:4143",
    "[::]:0",
    "localhost:80",
    "web@east",
    "web@east@west",
    " web @ east ,",
    "a.b.c.svc.cluster.local",
    "9223372036854775807ns",
    "-9223372036854775808ns",
    "106751.9d",
    "1h1m1s1ms1us1ns",
    "0.1234567890123456789s",
    "-.s",
    "1Ei",
    "1E",
    "1e+60",
    "1u",
    "nan",
    "inf",
    "../../etc/passwd",
    "{}",
    "[]",
    "\"",
    "\\",
    "---\n- a",
];

const NUMBERS: &[i64] = &[
    0,
    1,
    -1,
    80,
    100,
    255,
    256,
    599,
    600,
    65535,
    65536,
    -65536,
    i32::MAX as i64,
    i32::MIN as i64,
    u32::MAX as i64,
    u32::MAX as i64 + 1,
    i64::MAX,
    i64::MIN,
];

/// How deep anything is nested; the deepest that people can write is far less.
const DEPTH_MAX: usize = 40;

// === impl Shape ===

impl Shape {
    /// Something of this shape.
    pub(super) fn make(&self, dice: &mut Dice<'_>) -> Value {
        self.at(dice, 0)
    }

    fn at(&self, dice: &mut Dice<'_>, depth: usize) -> Value {
        match dice.below(40) {
            38 => return Value::Null,
            39 => return anything(dice, depth),
            _ => {}
        }
        match self {
            Self::Text(usual) => text(dice, usual).into(),
            Self::Number(usual) => match dice.below(8) {
                6 => number(dice),
                7 if dice.percent(20) => text(dice, &[]).into(),
                _ => dice.one(usual).into(),
            },
            Self::Flag => dice.percent(50).into(),
            Self::Fields(fields) => Value::Object(made(fields, dice, depth)),
            Self::List(entry) => {
                let entries = dice.list(0..4, |dice| entry.at(dice, depth + 1));
                Value::Array(entries)
            }
            Self::Either(one, other) => {
                if dice.percent(50) {
                    other.at(dice, depth)
                } else {
                    one.at(dice, depth)
                }
            }
            Self::Condition(own) => self.condition(own, dice, depth),
        }
    }

    fn condition(&self, own: &[(&str, Self)], dice: &mut Dice<'_>, depth: usize) -> Value {
        let mut fields = Map::new();
        if depth < DEPTH_MAX {
            match dice.below(8) {
                0..3 => fields = made(own, dice, depth),
                3 => {
                    let all = dice.list(0..3, |dice| self.at(dice, depth + 1));
                    fields.insert("all".to_owned(), Value::Array(all));
                }
                4 => {
                    let any = dice.list(0..3, |dice| self.at(dice, depth + 1));
                    fields.insert("any".to_owned(), Value::Array(any));
                }
                5 | 6 => {
                    fields.insert("not".to_owned(), self.at(dice, depth + 1));
                }
                _ => {
                    let not = vec![self.at(dice, depth + 1)];
                    fields.insert("not".to_owned(), Value::Array(not));
                }
            }
        }
        Value::Object(fields)
    }
}

fn made(fields: &[(&str, Shape)], dice: &mut Dice<'_>, depth: usize) -> Map<String, Value> {
    let mut made = Map::new();
    for (name, shape) in fields {
        if !dice.percent(15) {
            made.insert((*name).to_owned(), shape.at(dice, depth + 1));
        }
    }
    made
}

/// A text that belongs somewhere, or one that belongs nowhere.
pub(super) fn text(dice: &mut Dice<'_>, usual: &[&str]) -> String {
    match dice.below(16) {
        0..10 if !usual.is_empty() => dice.pick(usual).to_owned(),
        15 => {
            let letters = dice.list(0..12, |dice| {
                let code = u32::try_from(dice.below(0x11_0000)).unwrap_or_default();
                char::from_u32(code).unwrap_or('\u{fffd}')
            });
            letters.into_iter().collect()
        }
        14 => dice.pick(TEXTS).repeat(dice.one(&[1, 2, 40, 300])),
        13 => format!("{}{}", dice.pick(TEXTS), dice.pick(TEXTS)),
        _ => dice.pick(TEXTS).to_owned(),
    }
}

fn number(dice: &mut Dice<'_>) -> Value {
    match dice.below(4) {
        0 => dice.number().into(),
        1 => dice
            .one(&[0.0, -0.0, 0.5, 1e300, f64::MIN_POSITIVE, f64::MAX, f64::NAN])
            .into(),
        _ => dice.one(NUMBERS).into(),
    }
}

/// What belongs nowhere.
fn anything(dice: &mut Dice<'_>, depth: usize) -> Value {
    match dice.below(7) {
        0 => Value::Null,
        1 => dice.percent(50).into(),
        2 => number(dice),
        3 | 4 => text(dice, &[]).into(),
        5 if depth < DEPTH_MAX => dice.list(0..3, |dice| anything(dice, depth + 1)).into(),
        6 if depth < DEPTH_MAX => {
            let entries = dice.list(0..3, |dice| (text(dice, &[]), anything(dice, depth + 1)));
            Value::Object(entries.into_iter().collect())
        }
        _ => Value::Array(Vec::new()),
    }
}
