//! What clients ask for: `name:port`, in the forms that proxies and people write.

use std::net::IpAddr;

use super::{ServiceName, Text};

/// Port of an authority that has none.
const DEFAULT_PORT: u16 = 80;

/// A parsed authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Authority {
    /// Who is asked for.
    pub host: Host,
    /// The port asked for; never zero.
    pub port: u16,
}

/// The host part of an authority.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// An IP address; an IPv4-mapped IPv6 address counts as IPv4.
    Ip(IpAddr),
    /// A Service, or one instance of it.
    Service {
        /// The Service.
        service: ServiceName,
        /// Endpoint hostname, such as a `StatefulSet` Pod's; `None` if absent or empty.
        instance: Option<Text>,
    },
}

/// Why a text is no authority.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AuthorityError {
    /// Host and port cannot be told apart.
    #[error("expected HOST:PORT, with an IPv6 address in brackets")]
    Split,
    /// The port is no decimal number from 1 to 65535.
    #[error("the port must be a number from 1 to 65535")]
    Port,
    /// The name does not end in the cluster's domain.
    #[error("expected SERVICE.NAMESPACE.svc.{domain} or INSTANCE.SERVICE.NAMESPACE.svc.{domain}")]
    Name {
        /// The domain names must end in.
        domain: String,
    },
}

// === impl Authority ===

impl Authority {
    /// Parses `HOST[:PORT]` where HOST is an IP address or a Service name in the cluster's domain.
    ///
    /// Names are compared label for label and case-sensitively; a trailing dot does not match. Labels themselves are
    /// not checked: an odd one is a Service that nobody has.
    pub fn parse(text: &str, cluster_domain: &str) -> Result<Self, AuthorityError> {
        let (host, port) = split(text)?;
        let host = match parse_ip(host) {
            Some(ip) => Host::Ip(ip),
            None => parse_name(host, cluster_domain).ok_or_else(|| AuthorityError::Name {
                domain: cluster_domain.to_owned(),
            })?,
        };
        Ok(Self { host, port })
    }
}

fn split(text: &str) -> Result<(&str, u16), AuthorityError> {
    let Some((before, port)) = text.rsplit_once(':') else {
        return Ok((text, DEFAULT_PORT));
    };
    let host = match before.strip_prefix('[') {
        Some(bracketed) => bracketed.strip_suffix(']').ok_or(AuthorityError::Split)?,
        None if before.contains(':') => return Err(AuthorityError::Split),
        None => before,
    };
    if host.contains(['[', ']']) {
        return Err(AuthorityError::Split);
    }
    match port.parse::<u16>() {
        Ok(port) if port > 0 => Ok((host, port)),
        _ => Err(AuthorityError::Port),
    }
}

fn parse_ip(host: &str) -> Option<IpAddr> {
    host.parse::<IpAddr>().ok().map(|ip| ip.to_canonical())
}

fn parse_name(host: &str, cluster_domain: &str) -> Option<Host> {
    let rest = host
        .strip_suffix(cluster_domain)?
        .strip_suffix('.')?
        .strip_suffix("svc")?
        .strip_suffix('.')?;
    let labels: Vec<&str> = rest.split('.').collect();
    let (instance, service, namespace) = match labels[..] {
        [service, namespace] => ("", service, namespace),
        [instance, service, namespace] => (instance, service, namespace),
        _ => return None,
    };
    Some(Host::Service {
        service: ServiceName::new(namespace, service),
        instance: (!instance.is_empty()).then(|| Text::from(instance)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let got = match Authority::parse(text, "cluster.local") {
            Ok(Authority {
                host: Host::Ip(ip),
                port,
            }) => format!("ip {ip} {port}"),
            Ok(Authority {
                host: Host::Service { service, instance },
                port,
            }) => match instance {
                None => format!("service {service} {port}"),
                Some(instance) => format!("instance {instance} of {service} {port}"),
            },
            Err(AuthorityError::Split) => "bad split".to_owned(),
            Err(AuthorityError::Port) => "bad port".to_owned(),
            Err(AuthorityError::Name { .. }) => "bad name".to_owned(),
        };
        assert_eq!(got, expected, "{text:?}");
    }

    #[test]
    fn names_have_two_or_three_labels_before_the_domain() {
        check("web.shop.svc.cluster.local:8080", "service shop/web 8080");
        check("web.shop.svc.cluster.local", "service shop/web 80");
        check(
            "web-0.web.shop.svc.cluster.local:80",
            "instance web-0 of shop/web 80",
        );
        check(".web.shop.svc.cluster.local:80", "service shop/web 80");
        check("WEB.shop.svc.cluster.local:80", "service shop/WEB 80");
        check("web.shop.svc.cluster.local.:80", "bad name");
        check("web.shop.svc.Cluster.local:80", "bad name");
        check("web.shop.svccluster.local:80", "bad name");
        check("web.shop.svc.xcluster.local:80", "bad name");
        check("web.svc.cluster.local:80", "bad name");
        check("svc.cluster.local:80", "bad name");
        check("a.b.c.d.svc.cluster.local:80", "bad name");
        check("10-0-0-1.shop.pod.cluster.local:80", "bad name");
        check("example.com:80", "bad name");
        check("", "bad name");
    }

    #[test]
    fn ports_are_decimal_numbers_in_range() {
        check("web.shop.svc.cluster.local:+80", "service shop/web 80");
        check("web.shop.svc.cluster.local:0080", "service shop/web 80");
        for port in [
            "", "0", "65536", "http", "0x50", "80.0", " 80", "8_0", "-80", "٨٠",
        ] {
            check(&format!("web.shop.svc.cluster.local:{port}"), "bad port");
        }
    }

    #[test]
    fn brackets_belong_around_a_host_that_has_a_port() {
        check("[fd00::1]:80", "ip fd00::1 80");
        check("[10.0.0.1]:80", "ip 10.0.0.1 80");
        check("[web.shop.svc.cluster.local]:80", "service shop/web 80");
        check("[web.shop.svc.cluster.local]", "bad name");
        check("fd00::1", "bad split");
        check("[fd00::1]", "bad split");
        check("http://web.shop.svc.cluster.local:80", "bad split");
        check("we]b.shop.svc.cluster.local:80", "bad split");
        check("[[fd00::1]]:80", "bad split");
    }

    #[test]
    fn addresses_are_canonical() {
        check("10.0.0.1:80", "ip 10.0.0.1 80");
        check("[::ffff:10.0.0.1]:80", "ip 10.0.0.1 80");
        check("[FD00:0:0:0::1]:80", "ip fd00::1 80");
        check("010.0.0.1:80", "bad name");
        check("[fe80::1%eth0]:80", "bad name");
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_an_answer_or_an_error(text in "\\PC{0,80}") {
            drop(Authority::parse(&text, "cluster.local"));
        }
    }
}
