//! Names of resources: what a client asks for, in each of the forms that clients write.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use percent_encoding::percent_decode_str;

use crate::model::{Authority, ClusterName, Host, ServiceName, Text};

/// Longest name that is looked at.
const NAME_LEN_MAX: usize = 1024;

/// What a name stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Target {
    /// The Service of the home cluster.
    pub(super) service: ServiceName,
    /// One instance of it, if not the whole.
    pub(super) instance: Option<Text>,
    /// The port asked for.
    pub(super) port: u16,
    /// The cluster whose endpoints are wanted, if not everyone's.
    pub(super) cluster: Option<ClusterName>,
    /// How clusters are preferred, if the name says.
    pub(super) preference: Option<Preference>,
}

/// Which clusters' endpoints come first.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Preference {
    /// All are alike, as in Linkerd's federated Services.
    #[default]
    None,
    /// Those of the client's own cluster; the others if it has none.
    Local,
}

/// Why a name stands for nothing.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum NameError {
    #[error("longer than {NAME_LEN_MAX} bytes")]
    Length,
    #[error("expected SERVICE.NAMESPACE.svc.{0}:PORT")]
    Authority(Arc<str>),
    #[error("the port must be a number from 1 to 65535")]
    Port,
    #[error("expected xdstp://AUTHORITY/TYPE/NAMESPACE/SERVICE/PORT")]
    Xdstp,
    #[error("unknown parameter; there are cluster=NAME and prefer=none|local")]
    Parameter,
}

// === impl Target ===

impl Target {
    /// Parses the name of a resource of any type.
    ///
    /// `web.shop.svc.cluster.local:80` as in Linkerd's `Get`; also `web.shop.svc:80` and `web.shop:80`; behind it
    /// `|cluster=NAME` and `|prefer=local`. Or `xdstp://AUTHORITY/TYPE/NAMESPACE/SERVICE/PORT?cluster=NAME`, where the
    /// part after the type may also be one of the forms above.
    pub(super) fn parse(name: &str, domain: &Arc<str>) -> Result<Self, NameError> {
        if name.len() > NAME_LEN_MAX {
            return Err(NameError::Length);
        }
        match name.strip_prefix("xdstp://") {
            Some(rest) => Self::parse_xdstp(rest, domain),
            None => Self::parse_plain(name, domain),
        }
    }

    /// The name of a cluster that a listener of this name sends to: as it is, but plain if it is in the newer form, whose
    /// names are of one type each.
    pub(super) fn cluster_name<'a>(&self, name: &'a str, domain: &str) -> Cow<'a, str> {
        if !name.starts_with("xdstp://") {
            return Cow::Borrowed(name);
        }
        let Self {
            service,
            instance,
            port,
            cluster,
            preference,
        } = self;
        let instance = instance.as_ref().map(|instance| format!("{instance}."));
        let cluster = cluster.as_ref().map(|name| format!("|cluster={name}"));
        let preference = match preference {
            None => "",
            Some(Preference::None) => "|prefer=none",
            Some(Preference::Local) => "|prefer=local",
        };
        Cow::Owned(format!(
            "{}{}.{}.svc.{domain}:{port}{}{preference}",
            instance.unwrap_or_default(),
            service.name,
            service.namespace,
            cluster.unwrap_or_default()
        ))
    }

    fn parse_plain(name: &str, domain: &Arc<str>) -> Result<Self, NameError> {
        let mut parts = name.split('|');
        let authority = parts.next().unwrap_or_default();
        let mut target = Self::parse_authority(authority, domain)?;
        for parameter in parts {
            target.set(parameter)?;
        }
        Ok(target)
    }

    fn parse_xdstp(rest: &str, domain: &Arc<str>) -> Result<Self, NameError> {
        let (path, query) = rest.split_once('?').unwrap_or((rest, ""));
        let mut parts = path.splitn(3, '/');
        let (Some(_authority), Some(_type), Some(id)) = (parts.next(), parts.next(), parts.next())
        else {
            return Err(NameError::Xdstp);
        };
        let id = percent_decoded(id).ok_or(NameError::Xdstp)?;
        // Clients that put a target into a template may take parameters for a part of it.
        let (id, of_target) = id.split_once('?').unwrap_or((&id, ""));
        let parts: Vec<&str> = id.split('/').collect();
        let mut target = match parts[..] {
            [namespace, service, port] => Self {
                service: ServiceName::new(namespace, service),
                instance: None,
                port: parse_port(port)?,
                cluster: None,
                preference: None,
            },
            [plain] => Self::parse_plain(plain, domain)?,
            _ => return Err(NameError::Xdstp),
        };
        let parameters = of_target.split('&').chain(query.split('&'));
        for parameter in parameters.filter(|parameter| !parameter.is_empty()) {
            target.set(&percent_decoded(parameter).ok_or(NameError::Xdstp)?)?;
        }
        Ok(target)
    }

    fn parse_authority(text: &str, domain: &Arc<str>) -> Result<Self, NameError> {
        let wrong = || NameError::Authority(Arc::clone(domain));
        let parsed = Authority::parse(text, domain)
            .or_else(|_| Authority::parse(&lengthened(text, domain)?, domain).map_err(|_| wrong()));
        let Authority { host, port } = parsed?;
        match host {
            Host::Service { service, instance } => Ok(Self {
                service,
                instance,
                port,
                cluster: None,
                preference: None,
            }),
            Host::Ip(_) => Err(wrong()),
        }
    }

    fn set(&mut self, parameter: &str) -> Result<(), NameError> {
        match parameter.split_once('=') {
            Some(("cluster", name)) if !name.is_empty() => {
                self.cluster = Some(ClusterName::from(name));
            }
            Some(("prefer", "none")) => self.preference = Some(Preference::None),
            Some(("prefer", "local")) => self.preference = Some(Preference::Local),
            _ => return Err(NameError::Parameter),
        }
        Ok(())
    }
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.service, self.port)
    }
}

/// `web.shop:80` and `web.shop.svc:80` with the domain in its place.
fn lengthened(text: &str, domain: &Arc<str>) -> Result<String, NameError> {
    let wrong = || NameError::Authority(Arc::clone(domain));
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let short = host.strip_suffix(".svc").unwrap_or(host);
    if short.split('.').count() == 2 {
        Ok(format!("{short}.svc.{domain}:{port}"))
    } else {
        Err(wrong())
    }
}

fn parse_port(text: &str) -> Result<u16, NameError> {
    match text.parse() {
        Ok(port) if port > 0 => Ok(port),
        _ => Err(NameError::Port),
    }
}

/// The text with its `%XX` replaced; `None` if the result is no text.
fn percent_decoded(text: &str) -> Option<Cow<'_, str>> {
    percent_decode_str(text).decode_utf8().ok()
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    fn check(name: &str, expected: &str) {
        let got = match Target::parse(name, &"cluster.local".into()) {
            Ok(target) => {
                let mut got = target.to_string();
                if let Some(instance) = target.instance {
                    write!(got, " instance {instance}").unwrap();
                }
                if let Some(cluster) = target.cluster {
                    write!(got, " in {cluster}").unwrap();
                }
                if let Some(preference) = target.preference {
                    write!(got, " prefer {preference:?}").unwrap();
                }
                got
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "{name:?}");
    }

    #[test]
    fn the_authority_of_get_is_a_name() {
        check("web.shop.svc.cluster.local:8080", "shop/web:8080");
        check("web.shop.svc.cluster.local", "shop/web:80");
        check(
            "web-0.web.shop.svc.cluster.local:80",
            "shop/web:80 instance web-0",
        );
    }

    #[test]
    fn short_forms_are_names_too() {
        check("web.shop.svc:80", "shop/web:80");
        check("web.shop:80", "shop/web:80");
        check(
            "shop:80",
            "expected SERVICE.NAMESPACE.svc.cluster.local:PORT",
        );
        check(
            "10.0.0.1:80",
            "expected SERVICE.NAMESPACE.svc.cluster.local:PORT",
        );
        check("", "expected SERVICE.NAMESPACE.svc.cluster.local:PORT");
        check(
            "web.shop.svc.cluster.local:0",
            "expected SERVICE.NAMESPACE.svc.cluster.local:PORT",
        );
    }

    #[test]
    fn parameters_narrow_it_down() {
        check(
            "web.shop.svc.cluster.local:80|cluster=east",
            "shop/web:80 in east",
        );
        check(
            "web.shop:80|cluster=east|prefer=local",
            "shop/web:80 in east prefer Local",
        );
        check(
            "web.shop:80|color=red",
            "unknown parameter; there are cluster=NAME and prefer=none|local",
        );
        check(
            "web.shop:80|cluster=",
            "unknown parameter; there are cluster=NAME and prefer=none|local",
        );
    }

    #[test]
    fn xdstp_names_are_aliases() {
        const TYPE: &str = "envoy.config.endpoint.v3.ClusterLoadAssignment";
        check(
            &format!("xdstp://index.example/{TYPE}/shop/web/8080"),
            "shop/web:8080",
        );
        check(
            &format!("xdstp://index.example/{TYPE}/shop/web/8080?cluster=east"),
            "shop/web:8080 in east",
        );
        check(
            "xdstp://index.example/envoy.config.listener.v3.Listener/web.shop.svc.cluster.local%3A80",
            "shop/web:80",
        );
        check("xdstp://index.example/x/web.shop:80", "shop/web:80");
        let expected = "expected xdstp://AUTHORITY/TYPE/NAMESPACE/SERVICE/PORT";
        check("xdstp://index.example", expected);
        check("xdstp://index.example/x/a/b", expected);
        check("xdstp://index.example/x/%ff%fe", expected);
        check(
            "xdstp://index.example/x/shop/web/http",
            "the port must be a number from 1 to 65535",
        );
    }

    #[test]
    fn what_is_too_long_is_not_looked_at() {
        check(&"a".repeat(2000), "longer than 1024 bytes");
    }

    #[test]
    fn listeners_of_the_newer_form_send_to_clusters_of_the_older() {
        let domain: Arc<str> = "cluster.local".into();
        let plain = |name: &str| {
            let target = Target::parse(name, &domain).unwrap();
            let plain = target.cluster_name(name, &domain).into_owned();
            assert_eq!(Target::parse(&plain, &domain).unwrap(), target);
            plain
        };
        assert_eq!(plain("web.shop:80"), "web.shop:80");
        let listener = "xdstp://index.example/envoy.config.listener.v3.Listener";
        for (id, expected) in [
            ("shop/web/80", "web.shop.svc.cluster.local:80"),
            ("web.shop%3A8080", "web.shop.svc.cluster.local:8080"),
            (
                "shop/web/80?cluster=east&prefer=local",
                "web.shop.svc.cluster.local:80|cluster=east|prefer=local",
            ),
            (
                "shop/web/80%3Fprefer%3Dlocal",
                "web.shop.svc.cluster.local:80|prefer=local",
            ),
            (
                "web-0.web.shop.svc.cluster.local:80",
                "web-0.web.shop.svc.cluster.local:80",
            ),
        ] {
            assert_eq!(plain(&format!("{listener}/{id}")), expected);
        }
    }
}
