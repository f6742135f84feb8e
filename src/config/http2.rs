//! HTTP/2 settings that proxies are told to use towards meshed workloads.

use prost_types::Duration;
use serde_json::{Map, Value};

use crate::proto::destination::Http2ClientParams;
use crate::proto::destination::http2_client_params::{FlowControl, Internals, KeepAlive};

/// An object whose members are found whatever the case of their names; `null` counts as absent.
struct Fields<'a> {
    path: &'a str,
    fields: &'a Map<String, Value>,
}

/// Reads the JSON form of [`Http2ClientParams`]; an empty text sets nothing.
///
/// Names are those of the proto file, in any case; others are ignored; durations are `{"seconds": 10, "nanos": 0}`. `{}` is
/// not nothing: it is a message without fields, and is sent.
pub(super) fn parse(text: &str) -> Result<Option<Http2ClientParams>, String> {
    if text.trim().is_empty() {
        return Ok(None);
    }
    let value: Value = serde_json::from_str(text).map_err(|error| format!("not JSON: {error}"))?;
    if value.is_null() {
        return Ok(Some(Http2ClientParams::default()));
    }
    let top = Fields::new("the value", &value)?;
    Ok(Some(Http2ClientParams {
        flow_control: top.object("flow_control", |fields| {
            Ok(FlowControl {
                initial_connection_window_size: fields.number("initial_connection_window_size")?,
                initial_stream_window_size: fields.number("initial_stream_window_size")?,
                adaptive_flow_control: fields.switch("adaptive_flow_control")?,
            })
        })?,
        keep_alive: top.object("keep_alive", |fields| {
            Ok(KeepAlive {
                interval: fields.object("interval", Fields::duration)?,
                timeout: fields.object("timeout", Fields::duration)?,
                while_idle: fields.switch("while_idle")?,
            })
        })?,
        internals: top.object("internals", |fields| {
            Ok(Internals {
                max_concurrent_reset_streams: fields.number("max_concurrent_reset_streams")?,
                max_frame_size: fields.number("max_frame_size")?,
                max_send_buf_size: fields.number("max_send_buf_size")?,
            })
        })?,
    }))
}

// === impl Fields ===

impl<'a> Fields<'a> {
    fn new(path: &'a str, value: &'a Value) -> Result<Self, String> {
        match value {
            Value::Object(fields) => Ok(Self { path, fields }),
            Value::String(_) if matches!(path, "interval" | "timeout") => Err(format!(
                "{path} must be an object such as {{\"seconds\": 10}}, not text"
            )),
            _ => Err(format!("{path} must be a JSON object")),
        }
    }

    fn find(&self, name: &str) -> Option<&'a Value> {
        self.fields
            .iter()
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| value)
            .filter(|value| !value.is_null())
    }

    fn object<T>(
        &self,
        name: &'a str,
        read: impl FnOnce(&Fields<'a>) -> Result<T, String>,
    ) -> Result<Option<T>, String> {
        self.find(name)
            .map(|value| read(&Fields::new(name, value)?))
            .transpose()
    }

    fn number<T: TryFrom<u64> + Default>(&self, name: &str) -> Result<T, String> {
        self.find(name).map_or(Ok(T::default()), |value| {
            value
                .as_u64()
                .and_then(|number| T::try_from(number).ok())
                .ok_or_else(|| format!("{name} of {} must be a whole number, 0 or more", self.path))
        })
    }

    fn switch(&self, name: &str) -> Result<bool, String> {
        self.find(name).map_or(Ok(false), |value| {
            value
                .as_bool()
                .ok_or_else(|| format!("{name} of {} must be true or false", self.path))
        })
    }

    fn duration(&self) -> Result<Duration, String> {
        let nanos: i32 = self.number("nanos")?;
        if nanos > 999_999_999 {
            return Err(format!("nanos of {} must be below 1000000000", self.path));
        }
        Ok(Duration {
            seconds: self.number("seconds")?,
            nanos,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the stock chart passes.
    const STOCK: &str =
        r#"{"keep_alive":{"interval":{"seconds":10},"timeout":{"seconds":3},"while_idle":true}}"#;

    #[test]
    fn the_stock_value_is_read() {
        let keep_alive = parse(STOCK).unwrap().unwrap().keep_alive.unwrap();
        assert_eq!(keep_alive.interval.unwrap().seconds, 10);
        assert_eq!(keep_alive.timeout.unwrap().seconds, 3);
        assert!(keep_alive.while_idle);
    }

    #[test]
    fn nothing_and_an_empty_object_differ() {
        assert_eq!(parse(""), Ok(None));
        assert_eq!(parse(" \n"), Ok(None));
        for text in [
            "{}",
            "null",
            r#"{"keepAlive":{"whileIdle":true}}"#,
            r#"{"internals":null}"#,
        ] {
            assert_eq!(
                parse(text),
                Ok(Some(Http2ClientParams::default())),
                "{text}"
            );
        }
    }

    #[test]
    fn the_case_of_names_does_not_matter() {
        let params = parse(r#"{"Flow_Control":{"INITIAL_STREAM_WINDOW_SIZE":7}}"#);
        let flow_control = params.unwrap().unwrap().flow_control.unwrap();
        assert_eq!(flow_control.initial_stream_window_size, 7);
    }

    #[test]
    fn values_of_another_kind_are_refused() {
        for text in [
            "[]",
            "10",
            "{",
            r#"{"keep_alive":[]}"#,
            r#"{"keep_alive":{"interval":"10s"}}"#,
            r#"{"keep_alive":{"interval":{"seconds":-1}}}"#,
            r#"{"keep_alive":{"interval":{"nanos":1000000000}}}"#,
            r#"{"keep_alive":{"while_idle":"yes"}}"#,
            r#"{"internals":{"max_frame_size":-1}}"#,
            r#"{"internals":{"max_frame_size":4294967296}}"#,
            r#"{"internals":{"max_frame_size":1.5}}"#,
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
