//! `tributary explain`: why the answer for a Service is what it is.

mod tree;

use std::io::{self, Write};

use tokio::time::timeout;

use super::Verdict;
use super::document::{self, Format};
use super::server::{ANSWER_BYTES_MAX, ANSWER_TIMEOUT, AskError, connect, failed, refused};
use crate::config::{Colour, ExplainQuery, OutputFormat};
use crate::proto::tributary_v1::ExplainRequest;
use crate::proto::tributary_v1::introspection_client::IntrospectionClient;
use crate::report::explanation::Explanation;

/// Asks a server, and prints why its answer is what it is.
///
/// `colour` is how `out` may be coloured. Fails only if `out` or `err` cannot be written.
pub async fn explain(
    query: &ExplainQuery,
    colour: Colour,
    out: &mut dyn Write,
    err: &mut dyn Write,
) -> io::Result<Verdict> {
    let explanation = match ask(query).await {
        Ok(explanation) => explanation,
        Err(error) => return failed(&error, &query.authority, err),
    };
    match query.output {
        OutputFormat::Json => document::write(out, Format::Json, &explanation)?,
        OutputFormat::Yaml => document::write(out, Format::Yaml, &explanation)?,
        OutputFormat::Table | OutputFormat::Wide => {
            let detail = tree::Detail {
                rules: query.output == OutputFormat::Wide || query.ip.is_some(),
                shortened: query.output == OutputFormat::Table,
            };
            let text = tree::tree(&explanation, detail, colour);
            out.write_all(text.as_bytes())?;
            out.flush()?;
        }
    }
    Ok(Verdict::of(explanation.fine))
}

async fn ask(query: &ExplainQuery) -> Result<Explanation, AskError> {
    let server = &query.server;
    let channel = connect(server).await?;
    let mut client = IntrospectionClient::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
    let request = ExplainRequest {
        authority: query.authority.clone(),
        context_token: query.context_token.clone(),
        zone: query.zone.clone(),
        ip: query.ip.clone().unwrap_or_default(),
    };
    match timeout(ANSWER_TIMEOUT, client.explain(request)).await {
        Ok(Ok(explanation)) => Ok(explanation.into_inner().into()),
        Ok(Err(status)) => Err(refused(server, status)),
        Err(_) => Err(AskError::Silent {
            server: server.clone(),
        }),
    }
}
