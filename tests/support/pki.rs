//! Certificates and keys of one cluster.

use std::path::{Path, PathBuf};

use anyhow::Result;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    KeyUsagePurpose,
};

/// Names under which an API server of the bed can be reached; `tls-server-name` in a kubeconfig may ask for the last one.
pub const SERVER_NAMES: [&str; 3] = ["127.0.0.1", "localhost", "apiserver.bed.test"];

/// A certificate authority, and the serving certificate that it made.
pub struct Pki {
    /// The authority's certificate, for kubeconfigs.
    pub ca_pem: String,
    /// File of the authority's certificate.
    pub ca_file: PathBuf,
    /// File of the serving certificate.
    pub certificate_file: PathBuf,
    /// File of the serving certificate's key.
    pub key_file: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate with its key.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate.
    pub certificate_pem: String,
    /// The private key.
    pub key_pem: String,
}

// === impl Pki ===

impl Pki {
    /// Makes a new authority and a serving certificate, in files in `folder`.
    pub fn create(folder: &Path) -> Result<Self> {
        std::fs::create_dir_all(folder)?;
        let mut parameters = CertificateParams::default();
        parameters
            .distinguished_name
            .push(DnType::CommonName, "test bed");
        parameters.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        parameters.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate()?;
        let ca_pem = parameters.self_signed(&key)?.pem();
        let pki = Self {
            ca_file: write(folder, "ca.crt", &ca_pem)?,
            certificate_file: folder.join("apiserver.crt"),
            key_file: folder.join("apiserver.key"),
            ca_pem,
            issuer: Issuer::new(parameters, key),
        };

        let names: Vec<_> = SERVER_NAMES.map(str::to_owned).into();
        let mut serving = CertificateParams::new(names)?;
        serving.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let identity = pki.sign(&serving)?;
        write(folder, "apiserver.crt", &identity.certificate_pem)?;
        write(folder, "apiserver.key", &identity.key_pem)?;
        Ok(pki)
    }

    /// A client certificate for a user, as the API server understands it: the common name is the user's.
    pub fn client_identity(&self, user: &str) -> Result<Identity> {
        let mut parameters = CertificateParams::default();
        parameters.distinguished_name.push(DnType::CommonName, user);
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        self.sign(&parameters)
    }

    /// A certificate for a server that is known by one name.
    pub fn serving_identity(&self, name: &str) -> Result<Identity> {
        let mut parameters = CertificateParams::new([name.to_owned()])?;
        parameters.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        self.sign(&parameters)
    }

    fn sign(&self, parameters: &CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate()?;
        Ok(Identity {
            certificate_pem: parameters.signed_by(&key, &self.issuer)?.pem(),
            key_pem: key.serialize_pem(),
        })
    }
}

/// Makes the pair of keys that signs and checks service account tokens, in files in `folder`; returns (private, public).
pub fn create_token_keys(folder: &Path) -> Result<(PathBuf, PathBuf)> {
    let key = KeyPair::generate()?;
    Ok((
        write(folder, "service-accounts.key", &key.serialize_pem())?,
        write(folder, "service-accounts.pub", &key.public_key_pem())?,
    ))
}

fn write(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let file = folder.join(name);
    std::fs::write(&file, text)?;
    Ok(file)
}
