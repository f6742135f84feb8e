//! What credentials say of themselves that may be told: which version they are, and when they end.
//!
//! Pure, and never fails: what cannot be read is not known, and the API server has the last word on it anyway.

use std::fmt::Write as _;
use std::time::{Duration, SystemTime};

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use secrecy::ExposeSecret;
use serde::Deserialize;
use x509_parser::certificate::X509Certificate;
use x509_parser::pem::Pem;
use x509_parser::prelude::FromDer as _;

use crate::publish::{LinkInfo, Proof};

/// Bytes of the digest that are shown.
const FINGERPRINT_BYTES: usize = 6;

/// What of a JSON web token is looked at.
#[derive(Deserialize)]
struct Claims {
    /// Seconds since the epoch.
    exp: Option<u64>,
}

/// What may be told of a link: `config` is made from `kubeconfig`, the text in the Secret.
pub(super) fn describe(secret: &str, config: &kube::Config, kubeconfig: &str) -> LinkInfo {
    let user = &config.auth_info;
    let token = user.token.as_ref().map(ExposeSecret::expose_secret);
    let certificate = user.client_certificate_data.as_deref();
    // Where there are both, the token is what the API server hears of first.
    let (proof, expires) = match (token, certificate) {
        (None, Some(certificate)) => (Proof::Certificate, end_of_certificate(certificate)),
        (token, _) => (Proof::Token, token.and_then(end_of_token)),
    };
    let authorities = config.root_cert.iter().flatten();
    LinkInfo {
        secret: secret.to_owned(),
        server: config.cluster_url.to_string(),
        proof,
        fingerprint: fingerprint(kubeconfig),
        expires,
        authority_expires: authorities.filter_map(|der| end_of_der(der)).max(),
        is_verified: !config.accept_invalid_certs,
    }
}

/// The beginning of a digest of the text. A token has far too many possible values to be found by trying.
fn fingerprint(kubeconfig: &str) -> String {
    let digest = ring::digest::digest(&ring::digest::SHA256, kubeconfig.as_bytes());
    let mut text = String::new();
    for byte in digest.as_ref().iter().take(FINGERPRINT_BYTES) {
        // Writing to a String cannot fail.
        write!(text, "{byte:02x}").ok();
    }
    text
}

/// When a token ends, if it is a JSON web token that says so.
fn end_of_token(token: &str) -> Option<SystemTime> {
    let claims = token.split('.').nth(1)?;
    let claims = URL_SAFE_NO_PAD.decode(claims).ok()?;
    let claims: Claims = serde_json::from_slice(&claims).ok()?;
    since_epoch(claims.exp?)
}

/// When a certificate ends that is given as the base64 of PEM; the first one counts, which is the client's own.
fn end_of_certificate(data: &str) -> Option<SystemTime> {
    let pem = STANDARD.decode(data).ok()?;
    let first = Pem::iter_from_buffer(&pem).next()?.ok()?;
    end_of_der(&first.contents)
}

fn end_of_der(der: &[u8]) -> Option<SystemTime> {
    let (_, certificate) = X509Certificate::from_der(der).ok()?;
    let end = certificate.validity().not_after.timestamp();
    since_epoch(u64::try_from(end).ok()?)
}

fn since_epoch(seconds: u64) -> Option<SystemTime> {
    SystemTime::UNIX_EPOCH.checked_add(Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_say_when_they_end_or_do_not() {
        let token = |claims: &str| format!("e30.{}.sig", URL_SAFE_NO_PAD.encode(claims));
        let end = end_of_token(&token(r#"{"exp": 1700000000, "iss": "x"}"#));
        assert_eq!(end, since_epoch(1_700_000_000));
        for odd in [
            "opaque",
            "a.%.c",
            "",
            &token("{}"),
            &token("[]"),
            &token(r#"{"exp": -1}"#),
            &token(r#"{"exp": 18446744073709551615}"#),
        ] {
            assert_eq!(end_of_token(odd), None, "{odd}");
        }
    }

    #[test]
    fn certificates_say_when_they_end() {
        let mut params = rcgen::CertificateParams::default();
        params.not_after = rcgen::date_time_ymd(2031, 2, 3);
        let key = rcgen::KeyPair::generate().expect("a key");
        let certificate = params.self_signed(&key).expect("a certificate");
        let end = since_epoch(1_927_843_200);
        assert_eq!(end_of_der(certificate.der()), end);
        assert_eq!(end_of_certificate(&STANDARD.encode(certificate.pem())), end);
        for odd in ["", "%", &STANDARD.encode("no certificate")] {
            assert_eq!(end_of_certificate(odd), None);
        }
    }

    #[test]
    fn a_fingerprint_tells_versions_apart_and_nothing_else() {
        let (one, two) = (fingerprint("token: a"), fingerprint("token: b"));
        assert_ne!(one, two);
        assert_eq!(one, fingerprint("token: a"));
        assert_eq!(one.len(), 2 * FINGERPRINT_BYTES);
    }
}
