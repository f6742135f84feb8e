//! `tributary writer plan` and `tributary writer cleanup`: what the EndpointSlice writer would do, and how to be rid of what it did.

use std::collections::BTreeSet;
use std::io::{BufRead, Write};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;

use super::{App, WriterAccess, options_of, source};
use crate::cli::Verdict;
use crate::config::{Cleanup, Config, Confirmation, Source, WriterPlan};
use crate::sources::k8s::HomeAccess;
use crate::writer::{self, Mode, Outlook};

/// How long the home cluster may take to be read.
const HOME_PATIENCE: Duration = Duration::from_secs(30);
/// Copies that may be there: deleting them is tried this often, since they may change meanwhile.
const ROUNDS: usize = 3;

/// Prints what would be written now, as a difference to what is there.
pub async fn plan(plan: WriterPlan, out: &mut dyn Write) -> anyhow::Result<Verdict> {
    let WriterPlan {
        config,
        patience,
        service,
    } = plan;
    let options = options_of(&config, Mode::DryRun);
    let access = access(&config)?;
    let app = App::start(&config, |context, registry| {
        source(&config, context, registry)
    })
    .await?;
    let catalog = app.catalog.clone();
    let look = async {
        if tokio::time::timeout(HOME_PATIENCE, catalog.home_synced())
            .await
            .is_err()
        {
            let status = catalog.board().status(&config.cluster_name);
            let reason = status.and_then(|status| status.waits_for());
            anyhow::bail!(
                "the home cluster could not be read within {HOME_PATIENCE:?}: {}",
                reason.unwrap_or_else(|| "no reason is known".to_owned())
            );
        }
        let outlook =
            writer::look_ahead(&catalog, &options, access, patience, service.as_ref()).await;
        outlook.context("the EndpointSlices that are there could not be read")
    };
    let outlook = look.await;
    app.run_until(std::future::ready("done")).await?;
    match outlook {
        Ok(outlook) => print(&outlook, service.is_some(), out),
        Err(error) => {
            writeln!(out, "{error:#}")?;
            Ok(Verdict::CouldNotAsk)
        }
    }
}

fn print(outlook: &Outlook, in_full: bool, out: &mut dyn Write) -> anyhow::Result<Verdict> {
    let mut requests = 0;
    for planned in &outlook.services {
        let remarks = planned.remarks();
        if planned.lines.is_empty() && remarks.is_empty() && !in_full {
            continue;
        }
        requests += planned.plan.len();
        writeln!(out, "{}", planned.service)?;
        for line in planned.account.iter().filter(|_| in_full) {
            writeln!(out, "  {line}")?;
        }
        for line in &planned.lines {
            writeln!(out, "  {line}")?;
        }
        for remark in remarks {
            writeln!(out, "  ! {remark}")?;
        }
    }
    for cluster in &outlook.unread {
        writeln!(
            out,
            "! cluster {cluster} has not been read: what is there of it would stay"
        )?;
    }
    if outlook.stock_destination {
        writeln!(
            out,
            "! Linkerd's own destination controller runs here, or may: hostnames of linked clusters are left out unless \
             --endpoint-slices-hostnames says otherwise"
        )?;
    }
    writeln!(
        out,
        "{} Services looked at, {requests} requests",
        outlook.services.len()
    )?;
    Ok(if requests == 0 {
        Verdict::Fine
    } else {
        Verdict::Findings
    })
}

/// Deletes every EndpointSlice that the writer has ever made, after asking.
pub async fn cleanup(
    cleanup: &Cleanup,
    input: &mut dyn BufRead,
    out: &mut dyn Write,
) -> anyhow::Result<Verdict> {
    let options = options_of(&cleanup.config, Mode::Remove);
    let access = access(&cleanup.config)?;
    let (mut copies, writer) = writer::inventory(Arc::clone(&access), &options)
        .await
        .context("the EndpointSlices that are there could not be read")?;
    if copies.is_empty() {
        writeln!(out, "There are no EndpointSlices of the writer.")?;
        return Ok(Verdict::Fine);
    }
    let namespaces: BTreeSet<_> = copies.iter().map(|copy| &copy.name.namespace).collect();
    writeln!(
        out,
        "There are {} EndpointSlices of the writer in {} namespaces.",
        copies.len(),
        namespaces.len()
    )?;
    if let Some(writer) = writer {
        writeln!(
            out,
            "{writer} is writing now, and would write them again: turn it off first (--endpoint-slices=off)."
        )?;
    }
    if cleanup.confirmation == Confirmation::Ask {
        write!(
            out,
            "Delete them? Gateways that read them lose the endpoints. [y/N] "
        )?;
        out.flush()?;
        let mut answer = String::new();
        input.read_line(&mut answer)?;
        if !matches!(answer.trim(), "y" | "Y" | "yes") {
            writeln!(out, "Nothing was deleted.")?;
            return Ok(Verdict::Findings);
        }
    }
    let total = copies.len();
    let mut failed = Vec::new();
    for _ in 0..ROUNDS {
        failed = writer::delete_all(Arc::clone(&access), &options, &copies).await;
        if failed.is_empty() {
            break;
        }
        // What has changed meanwhile is looked at again.
        copies = writer::inventory(Arc::clone(&access), &options).await?.0;
    }
    for (name, refusal) in &failed {
        writeln!(out, "{name}: {refusal}")?;
    }
    writeln!(
        out,
        "{} of {total} were deleted.",
        total.saturating_sub(failed.len())
    )?;
    Ok(if failed.is_empty() {
        Verdict::Fine
    } else {
        Verdict::Findings
    })
}

fn access(config: &Config) -> anyhow::Result<Arc<dyn writer::Access>> {
    let Source::Kubernetes { kubeconfig } = &config.source else {
        anyhow::bail!("EndpointSlices are written to API servers only");
    };
    Ok(Arc::new(WriterAccess(HomeAccess::new(kubeconfig.clone()))))
}
