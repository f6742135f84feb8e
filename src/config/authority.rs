//! Service names as people have them at hand, made into what a proxy would ask for.

use std::net::SocketAddr;

/// Port of an authority that names none.
const DEFAULT_PORT: &str = "80";

/// Completes `web.shop`, `web.shop:80`, `svc/web` with a namespace, or a full name, to `SERVICE.NAMESPACE.svc.DOMAIN:PORT`.
///
/// Three labels name an instance: `web-0.web.shop`. A name with `.svc` in it is taken as it is, but for its domain if that is missing.
pub(super) fn complete(
    text: &str,
    namespace: Option<&str>,
    cluster_domain: &str,
) -> Result<String, String> {
    let name = ["svc/", "service/", "services/"]
        .iter()
        .find_map(|prefix| text.strip_prefix(prefix))
        .unwrap_or(text);
    let (host, port) = match name.rsplit_once(':') {
        Some((host, port)) => (host, port),
        None => (name, DEFAULT_PORT),
    };
    if !port.parse::<u16>().is_ok_and(|port| port > 0) {
        return Err(format!(
            "\"{port}\" is no port; write a number from 1 to 65535, such as web.shop:80"
        ));
    }
    if host.contains(['/', ':', '[', ']']) || host.parse::<std::net::IpAddr>().is_ok() {
        return Err(
            "name a Service: web.shop, web.shop:80, svc/web with -n shop, or its full DNS name"
                .to_owned(),
        );
    }
    let host = host.strip_suffix('.').unwrap_or(host);
    let labels: Vec<&str> = host.split('.').collect();
    if labels.iter().any(|label| label.is_empty()) {
        return Err("the name has an empty part; write SERVICE.NAMESPACE".to_owned());
    }
    let svc = [2, 3]
        .into_iter()
        .find(|at| labels.get(*at) == Some(&"svc"));
    let named = match (&labels[..], svc) {
        (_, Some(at)) => labels[at - 1],
        ([_], _) => {
            let namespace = namespace
                .ok_or_else(|| format!("in which namespace? write {host}.NAMESPACE or add -n"))?;
            return Ok(format!("{host}.{namespace}.svc.{cluster_domain}:{port}"));
        }
        ([_, named] | [_, _, named], _) => named,
        _ => {
            return Err(
                "too many parts; write SERVICE.NAMESPACE or INSTANCE.SERVICE.NAMESPACE".to_owned(),
            );
        }
    };
    if let Some(namespace) = namespace
        && namespace != named
    {
        return Err(format!(
            "the name says namespace {named} and -n says {namespace}; leave one of them out"
        ));
    }
    Ok(match svc {
        Some(at) if at + 1 < labels.len() => format!("{host}:{port}"),
        Some(_) => format!("{host}.{cluster_domain}:{port}"),
        None => format!("{host}.svc.{cluster_domain}:{port}"),
    })
}

/// Reads an IP address, with a port or without one, which means 80; `None` for anything else.
pub(super) fn address(text: &str) -> Option<SocketAddr> {
    text.parse()
        .ok()
        .or_else(|| Some(SocketAddr::new(text.parse().ok()?, 80)))
        .filter(|address| address.port() > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, namespace: Option<&str>, expected: &str) {
        let got = complete(text, namespace, "cluster.local");
        assert_eq!(got.as_deref().unwrap_or("error"), expected, "{text:?}");
    }

    #[test]
    fn short_forms_are_completed() {
        check("web.shop", None, "web.shop.svc.cluster.local:80");
        check("web.shop:8080", None, "web.shop.svc.cluster.local:8080");
        check("web", Some("shop"), "web.shop.svc.cluster.local:80");
        check("svc/web", Some("shop"), "web.shop.svc.cluster.local:80");
        check(
            "service/web:8080",
            Some("shop"),
            "web.shop.svc.cluster.local:8080",
        );
        check("svc/web.shop", None, "web.shop.svc.cluster.local:80");
        check("web.shop", Some("shop"), "web.shop.svc.cluster.local:80");
        check(
            "web-0.web.shop:80",
            None,
            "web-0.web.shop.svc.cluster.local:80",
        );
        check("web.shop.svc", None, "web.shop.svc.cluster.local:80");
        check("web.svc", None, "web.svc.svc.cluster.local:80");
    }

    #[test]
    fn a_full_name_stays_as_it_is() {
        for text in [
            "web.shop.svc.cluster.local:80",
            "web-0.web.shop.svc.other.domain:9",
        ] {
            check(text, None, text);
        }
        check(
            "web.shop.svc.cluster.local",
            None,
            "web.shop.svc.cluster.local:80",
        );
        check(
            "web.shop.svc.cluster.local.",
            Some("shop"),
            "web.shop.svc.cluster.local:80",
        );
    }

    #[test]
    fn addresses_have_port_80_if_they_have_none() {
        for (text, expected) in [
            ("10.0.0.1:8080", Some("10.0.0.1:8080")),
            ("10.0.0.1", Some("10.0.0.1:80")),
            ("[fd00::1]:8080", Some("[fd00::1]:8080")),
            ("fd00::1", Some("[fd00::1]:80")),
            ("10.0.0.1:0", None),
            ("web.shop:80", None),
        ] {
            let got = address(text).map(|address| address.to_string());
            assert_eq!(got.as_deref(), expected, "{text:?}");
        }
    }

    #[test]
    fn what_names_no_service_is_refused() {
        for text in [
            "",
            "web",
            "web.shop:",
            "web.shop:http",
            "web.shop:0",
            "10.0.0.1:80",
            "[fd00::1]:80",
        ] {
            check(text, None, "error");
        }
        for text in [
            "fd00::1",
            "deploy/web",
            "http://web.shop",
            "a.b.c.d",
            "web..shop",
            ".shop",
        ] {
            check(text, None, "error");
        }
        check("web.shop", Some("other"), "error");
        check("web.shop.svc.cluster.local", Some("other"), "error");
    }
}
