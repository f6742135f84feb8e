//! The `tributary` binary: arguments → logging → work → exit code.

use std::io::{self, ErrorKind, Write};
use std::process::ExitCode;

use tracing::info;
use tributary::cli::{self, Verdict};
use tributary::config::{self, Command, Stop, UsageError};
use tributary::{app, demo, telemetry};

/// Streams come and go by the thousand, and each message of a connection is put together in a buffer of its own.
#[cfg(feature = "jemalloc")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let outcome = match config::read(std::env::args_os()) {
        Ok(command) => run(command),
        Err(Stop::Answer(text)) => io::stdout()
            .write_all(text.as_bytes())
            .map(|()| ExitCode::SUCCESS)
            .map_err(anyhow::Error::from),
        Err(Stop::Usage(error)) => Err(error.into()),
    };
    outcome.unwrap_or_else(|error| explain(&error))
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()?;
    let outcome = runtime.block_on(async {
        match command {
            Command::Serve(config) => {
                telemetry::init(config.log)?;
                info!(version = env!("CARGO_PKG_VERSION"), "starting");
                for notice in &config.notices {
                    notice.log();
                }
                app::run(*config).await?;
                Ok(ExitCode::SUCCESS)
            }
            Command::Endpoints(query) => {
                let colour = config::colour(&io::stdout());
                let (mut out, mut err) = (io::stdout(), io::stderr());
                let verdict = cli::endpoints(&query, colour, &mut out, &mut err).await?;
                Ok(verdict.into())
            }
            Command::Explain(query) => {
                let colour = config::colour(&io::stdout());
                let (mut out, mut err) = (io::stdout(), io::stderr());
                let verdict = cli::explain(&query, colour, &mut out, &mut err).await?;
                Ok(verdict.into())
            }
            Command::Check(query) => {
                let colour = config::colour(&io::stdout());
                let (mut out, mut err) = (io::stdout(), io::stderr());
                let verdict = cli::check(&query, colour, &mut out, &mut err).await?;
                Ok(verdict.into())
            }
            Command::Diff(query) => {
                let colour = config::colour(&io::stdout());
                let (mut out, mut err) = (io::stdout(), io::stderr());
                let verdict = cli::diff(&query, colour, &mut out, &mut err).await?;
                Ok(verdict.into())
            }
            Command::Top(query) => {
                let colour = config::colour(&io::stdout());
                let (mut out, mut err) = (io::stdout(), io::stderr());
                let verdict = cli::top(&query, colour, &mut out, &mut err).await?;
                Ok(verdict.into())
            }
            Command::Clusters(query) => {
                let colour = config::colour(&io::stdout());
                let (mut out, mut err) = (io::stdout(), io::stderr());
                let verdict = cli::clusters(&query, colour, &mut out, &mut err).await?;
                Ok(verdict.into())
            }
            Command::Profile(query) => {
                let (mut out, mut err) = (io::stdout(), io::stderr());
                let verdict = cli::profile(&query, &mut out, &mut err).await?;
                Ok(verdict.into())
            }
            Command::Demo(config) => {
                telemetry::init(config.log)?;
                demo::run(config).await?;
                Ok(ExitCode::SUCCESS)
            }
            Command::WriterPlan(plan) => {
                telemetry::init(plan.config.log)?;
                let verdict = app::slices::plan(*plan, &mut io::stdout()).await?;
                Ok(verdict.into())
            }
            Command::WriterCleanup(cleanup) => {
                telemetry::init(cleanup.config.log)?;
                let mut input = io::BufReader::new(io::stdin());
                let verdict = app::slices::cleanup(&cleanup, &mut input, &mut io::stdout()).await?;
                Ok(verdict.into())
            }
            Command::Completions(shell) => {
                cli::completions(shell, &mut io::stdout())?;
                Ok(Verdict::Fine.into())
            }
        }
    });
    // Whoever is asked twice to end does not wait for a thread that still reads.
    runtime.shutdown_background();
    outcome
}

/// Says in one line what went wrong, and how the process ends.
fn explain(error: &anyhow::Error) -> ExitCode {
    let reader_left = error
        .downcast_ref::<io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe);
    if reader_left {
        return ExitCode::SUCCESS;
    }
    // Nobody is left to tell if stderr cannot be written.
    writeln!(io::stderr(), "tributary: {error:#}").ok();
    if error.is::<UsageError>() {
        ExitCode::from(UsageError::EXIT_CODE)
    } else {
        ExitCode::FAILURE
    }
}
