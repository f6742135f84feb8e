//! Flags of xDS.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use super::args::{MaybeListen, parse_listen, parse_path};
use super::duration::parse_duration;
use super::listen::ListenAddr;
use super::usage::{Origins, UsageError};

/// Settings of xDS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdsConfig {
    /// Where clients are answered; `None` turns the listener off.
    pub addr: Option<ListenAddr>,
    /// Files that secure the listener; `None` leaves it in plain text.
    pub tls: Option<XdsTls>,
    /// How long a connection may be open; `None` is for ever.
    pub connection_age_max: Option<Duration>,
    /// Streams that one client address may have open at once.
    pub peer_streams_max: usize,
    /// Names that all streams of one client address may subscribe to, taken together.
    pub peer_names_max: usize,
}

/// Files of TLS, all of them PEM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XdsTls {
    /// The certificate, and those between it and the authority that clients know.
    pub certificate: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Authorities whose clients are let in; with none, clients need no certificate.
    pub client_ca: Option<PathBuf>,
}

#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "xDS")]
#[expect(
    clippy::struct_field_names,
    reason = "clap makes the flags' names of them"
)]
pub(super) struct XdsArgs {
    /// Where Envoy-style gateways and proxyless gRPC are answered (xDS v3); empty turns it off
    ///
    /// Whoever can connect can read every endpoint: give it TLS and a CA for clients, or keep it where only they reach it.
    #[arg(long, value_name = "[IP]:PORT", env = "TRIBUTARY_XDS_ADDR", default_value = "", hide_default_value = true, value_parser = parse_listen)]
    xds_addr: MaybeListen,

    /// Certificate of the xDS listener, in PEM, with those that lead to its CA; needs --xds-tls-key
    ///
    /// The files are read again when they change. If the new ones are of no use, the last good ones stay in force.
    #[arg(long, value_name = "FILE", env = "TRIBUTARY_XDS_TLS_CERT", default_value = "", hide_default_value = true, value_parser = parse_path)]
    xds_tls_cert: PathBuf,

    /// Private key of that certificate, in PEM
    #[arg(long, value_name = "FILE", env = "TRIBUTARY_XDS_TLS_KEY", default_value = "", hide_default_value = true, value_parser = parse_path)]
    xds_tls_key: PathBuf,

    /// Let only clients in whose certificates come from a CA in this file, in PEM
    #[arg(long, value_name = "FILE", env = "TRIBUTARY_XDS_TLS_CLIENT_CA", default_value = "", hide_default_value = true, value_parser = parse_path)]
    xds_tls_client_ca: PathBuf,

    /// End connections of xDS that are this old, give or take a tenth, so that clients spread over replicas; 0 means never
    ///
    /// Clients connect again and go on with what they have meanwhile.
    #[arg(long, value_name = "DURATION", env = "TRIBUTARY_XDS_MAX_CONNECTION_AGE", default_value = "30m", value_parser = parse_duration)]
    xds_max_connection_age: Duration,

    /// Streams of xDS that one client address may have open at once; more are refused
    #[arg(long, value_name = "NUMBER", env = "TRIBUTARY_XDS_MAX_STREAMS_PER_PEER", default_value = "10000", value_parser = parse_limit)]
    xds_max_streams_per_peer: usize,

    /// Names that the streams of one client address may subscribe to, all together
    #[arg(long, value_name = "NUMBER", env = "TRIBUTARY_XDS_MAX_NAMES_PER_PEER", default_value = "200000", value_parser = parse_limit)]
    xds_max_names_per_peer: usize,
}

// === impl XdsConfig ===

impl XdsConfig {
    /// xDS is not served.
    pub(crate) fn off() -> Self {
        Self {
            addr: None,
            tls: None,
            connection_age_max: None,
            peer_streams_max: usize::MAX,
            peer_names_max: usize::MAX,
        }
    }

    /// xDS in plain text, for whoever is on this machine.
    pub fn plain(addr: Option<ListenAddr>) -> Self {
        Self {
            addr,
            ..Self::off()
        }
    }

    pub(super) fn new(args: XdsArgs, origins: Origins<'_>) -> Result<Self, UsageError> {
        Ok(Self {
            addr: args.xds_addr.0,
            connection_age_max: Some(args.xds_max_connection_age).filter(|age| !age.is_zero()),
            peer_streams_max: args.xds_max_streams_per_peer,
            peer_names_max: args.xds_max_names_per_peer,
            tls: XdsTls::new(
                args.xds_tls_cert,
                args.xds_tls_key,
                args.xds_tls_client_ca,
                origins,
            )?,
        })
    }
}

// === impl XdsTls ===

impl XdsTls {
    fn new(
        certificate: PathBuf,
        key: PathBuf,
        client_ca: PathBuf,
        origins: Origins<'_>,
    ) -> Result<Option<Self>, UsageError> {
        let given = |file: &PathBuf| !file.as_os_str().is_empty();
        match (given(&certificate), given(&key)) {
            (true, true) => Ok(Some(Self {
                certificate,
                key,
                client_ca: Some(client_ca).filter(given),
            })),
            (true, false) => Err(origins.refuse(
                "--xds-tls-cert",
                "a certificate takes a key; name its file with --xds-tls-key",
            )),
            (false, true) => Err(origins.refuse(
                "--xds-tls-key",
                "a key takes a certificate; name its file with --xds-tls-cert",
            )),
            (false, false) if given(&client_ca) => Err(origins.refuse(
                "--xds-tls-client-ca",
                "clients show certificates only where there is TLS; give --xds-tls-cert and --xds-tls-key too",
            )),
            (false, false) => Ok(None),
        }
    }
}

fn parse_limit(text: &str) -> Result<usize, String> {
    let number = text.parse().ok();
    number
        .filter(|&number| number > 0)
        .ok_or_else(|| "expected a whole number from 1".to_owned())
}
