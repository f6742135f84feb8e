//! Logging: one line on stderr per message.
//!
//! Messages are constant, lower-case texts; what differs between two of them is in fields, which keep their names in both
//! formats.

use std::io;

use tracing::level_filters::LevelFilter;
use tracing_subscriber::filter::Targets;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};
use tracing_subscriber::{Layer, fmt};

use crate::config::{self, Colour, LogConfig, LogFormat, LogLevel};

/// Starts logging, for the rest of the process. Fails if that has been done before.
pub fn init(config: LogConfig) -> Result<(), TryInitError> {
    let lines = match config.format {
        LogFormat::Plain => fmt::layer()
            .with_writer(io::stderr)
            .with_ansi(config::colour(&io::stderr()) == Colour::Ansi)
            .boxed(),
        LogFormat::Json => fmt::layer()
            .json()
            .flatten_event(true)
            .with_span_list(false)
            .with_writer(io::stderr)
            .boxed(),
    };
    tracing_subscriber::registry()
        .with(lines.with_filter(filter(config.level)))
        .try_init()
}

/// Targets of libraries that say of every connection what is said once, or what its failure says too.
const REPETITIVE: &[&str] = &["kube_client::client::tls", "rustls_platform_verifier"];

/// Our own messages down to `level`; those of libraries a step less, since theirs are about wires and frames.
fn filter(level: LogLevel) -> Targets {
    let (ours, theirs) = match level {
        LogLevel::Panic | LogLevel::Fatal | LogLevel::Error => {
            (LevelFilter::ERROR, LevelFilter::ERROR)
        }
        LogLevel::Warn => (LevelFilter::WARN, LevelFilter::ERROR),
        LogLevel::Info => (LevelFilter::INFO, LevelFilter::WARN),
        LogLevel::Debug => (LevelFilter::DEBUG, LevelFilter::INFO),
        LogLevel::Trace => (LevelFilter::TRACE, LevelFilter::DEBUG),
    };
    let mut filter = Targets::new().with_default(theirs);
    if theirs <= LevelFilter::WARN {
        filter = filter.with_targets(REPETITIVE.iter().map(|target| (*target, LevelFilter::OFF)));
    }
    filter.with_target("tributary", ours)
}

#[cfg(test)]
mod tests {
    use tracing::Level;

    use super::*;

    #[test]
    fn our_messages_go_a_step_deeper_than_those_of_libraries() {
        let filter = filter(LogLevel::Info);
        assert!(filter.would_enable("tributary::sources", &Level::INFO));
        assert!(!filter.would_enable("tributary::sources", &Level::DEBUG));
        assert!(filter.would_enable("kube_client::client", &Level::WARN));
        assert!(!filter.would_enable("kube_client::client", &Level::INFO));
        assert!(!filter.would_enable("rustls_platform_verifier::verification", &Level::ERROR));
        assert!(!filter.would_enable("kube_client::client::tls::rustls_tls", &Level::WARN));
    }
}
