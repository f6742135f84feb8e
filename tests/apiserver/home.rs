//! Services of the home cluster.

use std::net::SocketAddr;

use tonic::Code;

use crate::support::bed::Bed;
use crate::support::run;
use crate::support::services::{Backend, Condition, authority, slice, workload};
use crate::support::subscription::{Folded, Message, Outcome};
use crate::support::tributary::Tributary;

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn a_service_is_answered_and_followed() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "home-local";
        let both = [
            Backend::ready("web-0", "10.50.1.1"),
            Backend::ready("web-1", "10.50.1.2").zone("zb"),
        ];
        bed.home.apply(&workload(namespace, "web", &both)).await?;
        let tributary = Tributary::start(&bed.home, &[]).await?;

        let stream = tributary.get_from_node(&authority(namespace, "web"), "n0");
        let state = stream
            .wait_for_exactly(&["10.50.1.1:8080", "10.50.1.2:8080"])
            .await;
        stream.assert_one_message();
        let endpoint = state.at("10.50.1.1:8080");
        let identity = "web.home-local.serviceaccount.identity.linkerd.cluster.local";
        assert_eq!(endpoint.identity(), Some(identity));
        assert_eq!(endpoint.server_name(), Some(identity));
        assert_eq!(endpoint.protocol(), Some("h2"));
        assert_eq!(endpoint.label("service"), Some("web"));
        assert_eq!(endpoint.label("namespace"), Some(namespace));
        assert_eq!(endpoint.label("pod"), Some("web-0"));
        assert_eq!(endpoint.label("zone_locality"), Some("local"));
        let elsewhere = state.at("10.50.1.2:8080");
        assert_eq!(elsewhere.label("zone_locality"), Some("remote"));

        let mark = stream.mark();
        let one_gone = [both[0].condition(Condition::Unready), both[1]];
        bed.home.apply(&slice(namespace, "web", &one_gone)).await?;
        stream.wait_for_exactly(&["10.50.1.2:8080"]).await;
        let gone: SocketAddr = "10.50.1.1:8080".parse()?;
        assert_eq!(stream.messages_since(mark), [Message::Remove(vec![gone])]);
        Ok(())
    });
}

#[test]
#[ignore = "needs kube-apiserver: scripts/test apiserver"]
fn an_unknown_service_is_not_found_and_an_empty_one_is_empty() {
    run(async {
        let bed = Bed::shared().await?;
        let namespace = "home-empty";
        bed.home.apply(&workload(namespace, "web", &[])).await?;
        let tributary = Tributary::start(&bed.home, &[]).await?;

        let missing = tributary.get(&authority(namespace, "missing"));
        let Outcome::Failed(code, _) = missing.wait_for_end().await else {
            panic!("an error was due\n{}", missing.report());
        };
        assert_eq!(code, Code::NotFound);

        let empty = tributary.get(&authority(namespace, "web"));
        let state = empty.wait_for("an empty answer", Folded::is_empty).await;
        assert_eq!(state.no_endpoints, Some(true));
        Ok(())
    });
}
