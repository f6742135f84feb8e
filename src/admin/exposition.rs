//! The two text formats of metrics, and which of them a scraper wants.
//!
//! Prometheus asks for `OpenMetrics`. Whoever does not gets the format of before, in which the name of a counter's family ends in
//! `_total` as its series do; read as that, `OpenMetrics` would have counters without type and help.

use http::header::{ACCEPT, HeaderMap};

/// Whether a scraper says that it understands `OpenMetrics`.
pub(super) fn wants_open_metrics(headers: &HeaderMap) -> bool {
    let accepted = headers.get_all(ACCEPT).iter();
    accepted
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .filter_map(|range| range.split(';').next())
        .any(|kind| kind.trim() == "application/openmetrics-text")
}

/// `OpenMetrics` text in the format of before. Series are the same.
pub(super) fn classic(open_metrics: &str) -> String {
    let mut text = String::with_capacity(open_metrics.len() + open_metrics.len() / 16);
    // Help comes before the type, which decides the name.
    let mut help = None;
    for line in open_metrics.lines() {
        if line.starts_with("# HELP ") {
            help = Some(line);
        } else if let Some(kind) = line.strip_prefix("# TYPE ") {
            let suffix = if kind.ends_with(" counter") {
                "_total"
            } else {
                ""
            };
            for comment in help.take().into_iter().chain([line]) {
                push(&mut text, comment, suffix);
            }
        } else if !line.starts_with('#') {
            text.push_str(line);
            text.push('\n');
        }
    }
    text
}

/// Adds a comment of the form `# WORD NAME REST`, with `suffix` at the end of the name.
fn push(text: &mut String, comment: &str, suffix: &str) {
    let mut words = comment.splitn(4, ' ');
    let head: Vec<_> = words.by_ref().take(3).collect();
    text.push_str(&head.join(" "));
    text.push_str(suffix);
    for rest in words {
        text.push(' ');
        text.push_str(rest);
    }
    text.push('\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_named_as_their_series_and_nothing_else_changes() {
        let open_metrics = "\
# HELP looks How often it was looked at, in all.
# TYPE looks counter
looks_total{by=\"x\"} 1
# HELP age_seconds Age.
# TYPE age_seconds gauge
# UNIT age_seconds seconds
age_seconds 2.0
# HELP lag Lag.
# TYPE lag histogram
lag_sum 0.0
lag_count 0
# EOF
";
        let expected = "\
# HELP looks_total How often it was looked at, in all.
# TYPE looks_total counter
looks_total{by=\"x\"} 1
# HELP age_seconds Age.
# TYPE age_seconds gauge
age_seconds 2.0
# HELP lag Lag.
# TYPE lag histogram
lag_sum 0.0
lag_count 0
";
        assert_eq!(classic(open_metrics), expected);
    }

    #[test]
    fn open_metrics_is_for_whoever_asks_for_it() {
        let prometheus = "application/openmetrics-text;version=1.0.0;q=0.5,text/plain;version=0.0.4;q=0.3,*/*;q=0.1";
        for (accept, wanted) in [
            (Some(prometheus), true),
            (Some("text/plain, application/openmetrics-text"), true),
            (Some("*/*"), false),
            (Some("text/plain;version=0.0.4"), false),
            (None, false),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(accept.map(|accept| (ACCEPT, accept.parse().expect("a value"))));
            assert_eq!(wants_open_metrics(&headers), wanted, "{accept:?}");
        }
    }
}
