//! Reflection in its present version; `tests/grpcurl.rs` uses the one before.

use anyhow::Context;
use tonic_reflection::pb::v1::ServerReflectionRequest;
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;

use crate::support::manifests::shop;
use crate::support::run;

#[test]
fn services_are_listed_by_reflection_v1() {
    run(async {
        let (_manifests, tributary) = shop().await?;
        let mut client = ServerReflectionClient::new(tributary.connect_lazy());
        let request = ServerReflectionRequest {
            host: String::new(),
            message_request: Some(MessageRequest::ListServices(String::new())),
        };
        let answers = client.server_reflection_info(tokio_stream::once(request));
        let answer = answers.await?.into_inner().message().await?;
        let answer = answer.and_then(|answer| answer.message_response);
        let Some(MessageResponse::ListServicesResponse(list)) = answer else {
            panic!("{answer:?}");
        };
        let names: Vec<_> = list
            .service
            .into_iter()
            .map(|service| service.name)
            .collect();
        let destination = "io.linkerd.proxy.destination.Destination";
        names
            .iter()
            .find(|name| *name == destination)
            .with_context(|| format!("{names:?}"))?;
        Ok(())
    });
}
