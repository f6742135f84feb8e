//! Commands about what the writer of EndpointSlices does.

use std::time::Duration;

use clap::{Args, Subcommand as ClapSubcommand};

use super::{ChoiceOnly, HomeArgs, QuietLogArgs};
use crate::config::duration::parse_duration;
use crate::model::ServiceName;

#[derive(Debug, ClapSubcommand)]
pub(in crate::config) enum WriterCommand {
    /// Print what would be written now and why not, as a difference to what is there
    ///
    /// Reads the clusters as `serve` does, writes nothing, and has the API server check each write (a dry run, for which it wants
    /// the right to write).
    ///
    /// Exit codes: 0 nothing would be written; 1 something would; 2 the home cluster could not be read; 64 the command line is
    /// wrong.
    #[command(after_help = "\
Example:
  tributary writer plan --kubeconfig ~/.kube/config --cluster-name hub
  tributary writer plan --cluster-name hub --service shop/web-federated")]
    Plan(PlanArgs),

    /// Delete every EndpointSlice that the writer has made, and nothing else
    ///
    /// Says how many there are and asks first. Turn the writer off before, or it makes them again.
    ///
    /// Exit codes: 0 none is left; 1 some are; 64 the command line is wrong.
    #[command(after_help = "\
Example:
  tributary writer cleanup --kubeconfig ~/.kube/config")]
    Cleanup(CleanupArgs),
}

#[derive(Args, Debug)]
pub(in crate::config) struct PlanArgs {
    #[command(flatten)]
    pub(in crate::config) home: HomeArgs,

    /// How long to wait for linked clusters to be read
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = parse_duration)]
    pub(in crate::config) wait: Duration,

    /// Look at this Service only, and account for everything: members, slices and their copies, endpoints that are not written
    #[arg(long, value_name = "NAMESPACE/NAME", value_parser = parse_service)]
    pub(in crate::config) service: Option<ServiceName>,

    #[command(flatten)]
    pub(in crate::config) choice: ChoiceOnly,

    #[command(flatten)]
    pub(in crate::config) log: QuietLogArgs,
}

fn parse_service(text: &str) -> Result<ServiceName, String> {
    match text.split_once('/') {
        Some((namespace, name)) if !namespace.is_empty() && !name.is_empty() => {
            Ok(ServiceName::new(namespace, name))
        }
        _ => Err("expected NAMESPACE/NAME, such as shop/web-federated".to_owned()),
    }
}

#[derive(Args, Debug)]
pub(in crate::config) struct CleanupArgs {
    #[command(flatten)]
    pub(in crate::config) home: HomeArgs,

    /// Do not ask
    #[arg(short, long)]
    pub(in crate::config) yes: bool,

    #[command(flatten)]
    pub(in crate::config) choice: ChoiceOnly,

    #[command(flatten)]
    pub(in crate::config) log: QuietLogArgs,
}
