//! Errors: one HEADERS frame with the status, and nothing before it.

use anyhow::{Result, bail};
use tonic::Code;

use super::raw::{Answer, GET, Raw, Refusal, question};
use crate::support::manifests::{Manifests, WEB, shop};
use crate::support::services::{authority, flat_mirror, service};
use crate::support::subscription::{Folded, Outcome};
use crate::support::tributary::Tributary;
use crate::support::{run, wait_for};

async fn refused(raw: &Raw, method: &str, authority: &str) -> Result<Refusal> {
    match raw.ask(method, question(authority, "")).await? {
        Answer::Refused(refusal) => Ok(refusal),
        Answer::Began(bytes) => bail!("{authority} was answered with {} bytes", bytes.len()),
    }
}

#[test]
fn errors_are_trailers_only() {
    run(async {
        let (manifests, _other) = shop().await?;
        let name = |name: &str| authority("shop", name);
        let external = service("shop", "external").replace(
            "  selector: {app: external}\n",
            "  type: ExternalName\n  externalName: example.com\n",
        );
        manifests.write("home/external.yaml", &external)?;
        let unlinked = flat_mirror("shop", "web", "nowhere");
        manifests.write("home/unlinked.yaml", &unlinked)?;
        let nameless = "    multicluster.linkerd.io/remote-service: web\n";
        let nameless = unlinked
            .replace(nameless, "")
            .replace("web-nowhere", "nameless");
        manifests.write("home/nameless.yaml", &nameless)?;
        let tributary = Tributary::serve_manifests(manifests.path(), &[]).await?;
        let raw = Raw::connect(tributary.address()).await?;

        let profile = GET.replace("/Get", "/GetProfile");
        for (method, authority, code) in [
            (GET, name("missing"), Code::NotFound),
            (GET, name("external"), Code::InvalidArgument),
            (GET, name("web-nowhere"), Code::NotFound),
            (GET, name("nameless"), Code::FailedPrecondition),
            (GET, "web".to_owned(), Code::InvalidArgument),
            (GET, "10.1.0.1:80".to_owned(), Code::InvalidArgument),
            (&profile, name("missing"), Code::NotFound),
            (&profile, "web".to_owned(), Code::InvalidArgument),
            (
                &profile,
                "web-0.missing.shop.svc.cluster.local:80".to_owned(),
                Code::NotFound,
            ),
            ("/no.such.Service/Method", name("web"), Code::Unimplemented),
        ] {
            let refusal = refused(&raw, method, &authority).await?;
            assert_eq!(refusal.code, code, "{method} {authority}: {refusal:?}");
            assert!(refusal.trailers_only, "{method} {authority}: {refusal:?}");
        }
        let Answer::Began(bytes) = raw.ask(GET, question(&name("web"), "")).await? else {
            bail!("the same connection serves who asks well");
        };
        assert_eq!(bytes[0], 0, "a message that is not compressed");
        Ok(())
    });
}

#[test]
fn headers_are_held_until_there_is_something_to_say() {
    run(async {
        let manifests = Manifests::new()?;
        // A Secret links the cluster; without a folder nothing is known of it.
        let secret = "
apiVersion: v1
kind: Secret
type: mirror.linkerd.io/remote-kubeconfig
metadata:
  name: cluster-credentials-west
  namespace: linkerd
  labels: {multicluster.linkerd.io/cluster-name: west}
  annotations: {multicluster.linkerd.io/trust-domain: cluster.local, multicluster.linkerd.io/cluster-domain: cluster.local}
data: {kubeconfig: e30=}
---
";
        let mirror = flat_mirror("shop", "web", "west");
        manifests.write("home/all.yaml", &format!("{secret}{mirror}"))?;
        let arguments = ["--startup-grace", "300ms"];
        let tributary = Tributary::serve_manifests(manifests.path(), &arguments).await?;
        let raw = Raw::connect(tributary.address()).await?;
        let name = authority("shop", "web-west");
        // Had headers gone out first, the status would come in a second frame.
        let refusal = refused(&raw, GET, &name).await?;
        assert_eq!(refusal.code, Code::Unavailable, "{refusal:?}");
        assert!(refusal.trailers_only, "{refusal:?}");

        manifests.write("west/web.yaml", &service("shop", "web"))?;
        let stream = crate::support::wait_for("west to be read", || async {
            let stream = tributary.get(&name);
            stream.begun().await;
            stream.outcome().is_none().then_some(stream)
        })
        .await?;
        assert_eq!(stream.now().no_endpoints, Some(true));
        Ok(())
    });
}

#[test]
fn an_empty_service_exists_and_a_missing_one_is_not_found() {
    run(async {
        let (_manifests, tributary) = shop().await?;
        let idle = tributary.get(&authority("shop", "idle"));
        let state = idle.wait_for("an empty answer", Folded::is_empty).await;
        assert_eq!(state.no_endpoints, Some(true));
        idle.assert_one_message();
        let raw = Raw::connect(tributary.address()).await?;
        let refusal = refused(&raw, GET, &authority("shop", "missing")).await?;
        assert_eq!(refusal.code, Code::NotFound);
        assert!(refusal.message.contains("missing"), "{refusal:?}");
        Ok(())
    });
}

#[test]
fn one_stream_more_than_the_limit_is_refused_until_another_ends() {
    run(async {
        let (manifests, _other) = shop().await?;
        let limit = ["--max-streams", "2"];
        let tributary = Tributary::serve_manifests(manifests.path(), &limit).await?;
        let web = authority("shop", "web");
        let endpoints = tributary.get(&web);
        endpoints.wait_for_exactly(&WEB).await;
        let profile = tributary.get_profile(&web, "");
        profile.wait_for("a profile", |_| true).await;

        let refused = tributary.get(&web);
        let Outcome::Failed(code, message) = refused.wait_for_end().await else {
            panic!("an error was due\n{}", refused.report());
        };
        assert_eq!(code, Code::ResourceExhausted, "{message}");
        assert!(message.contains('2'), "{message}");
        assert_eq!(profile.outcome(), None);

        drop(endpoints);
        wait_for("room for one more", || async {
            let stream = tributary.get(&web);
            stream.until_answered().await.then_some(())
        })
        .await
    });
}
