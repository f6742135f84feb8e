//! Commands about what the writer of EndpointSlices does.

use std::time::Duration;

use super::args::WriterCommand;
use super::usage::{Origins, UsageError};
use super::{Command, Config, slices};
use crate::model::ServiceName;

/// What of the EndpointSlice writer's plans is to be shown.
#[derive(Clone, Debug)]
pub struct WriterPlan {
    /// Where, and by which settings.
    pub config: Config,
    /// How long linked clusters are waited for.
    pub patience: Duration,
    /// The only Service to look at, and to account for in full.
    pub service: Option<ServiceName>,
}

/// Which cluster is to be cleaned of the writer's EndpointSlices.
#[derive(Clone, Debug)]
pub struct Cleanup {
    /// The cluster.
    pub config: Config,
    /// Whether to ask first.
    pub confirmation: Confirmation,
}

/// Whether to ask before something is done that cannot be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Confirmation {
    /// Ask.
    Ask,
    /// The user has said yes already.
    Given,
}

pub(super) fn command(command: WriterCommand, origins: Origins<'_>) -> Result<Command, UsageError> {
    match command {
        WriterCommand::Plan(args) => {
            let config = Config::looking(args.home, args.choice, args.log, origins)?;
            slices::check_name(&config.cluster_name, origins)?;
            Ok(Command::WriterPlan(Box::new(WriterPlan {
                config,
                patience: args.wait,
                service: args.service,
            })))
        }
        WriterCommand::Cleanup(args) => Ok(Command::WriterCleanup(Box::new(Cleanup {
            config: Config::looking(args.home, args.choice, args.log, origins)?,
            confirmation: if args.yes {
                Confirmation::Given
            } else {
                Confirmation::Ask
            },
        }))),
    }
}
