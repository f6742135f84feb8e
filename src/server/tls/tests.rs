//! Files good and bad, and what stays in force.

use std::fs;

use prometheus_client::registry::Registry;
use rcgen::{CertificateParams, KeyPair};
use tempfile::TempDir;

use super::*;

/// A certificate and its key, as they are in files.
fn pair() -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let parameters = CertificateParams::new(["localhost".to_owned()]).unwrap();
    let certificate = parameters.self_signed(&key).unwrap();
    (certificate.pem(), key.serialize_pem())
}

struct Scene {
    _folder: TempDir,
    files: TlsFiles,
}

impl Scene {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str| folder.path().join(name);
        let scene = Self {
            files: TlsFiles {
                certificate: file("tls.crt"),
                key: file("tls.key"),
                client_ca: Some(file("ca.crt")),
            },
            _folder: folder,
        };
        scene.put(&pair());
        fs::write(scene.files.client_ca.as_ref().unwrap(), pair().0).unwrap();
        scene
    }

    fn put(&self, (certificate, key): &(String, String)) {
        fs::write(&self.files.certificate, certificate).unwrap();
        fs::write(&self.files.key, key).unwrap();
    }

    async fn load(&self) -> Result<(Tls, Reload), TlsError> {
        let (mut ours, mut linkerd) = (Registry::default(), Registry::default());
        let metrics = crate::server::Metrics::register(&mut ours, &mut linkerd).unwrap();
        Tls::load(self.files.clone(), &metrics).await
    }
}

#[tokio::test]
async fn what_is_wrong_with_a_file_is_said_with_its_name() {
    type Spoil = fn(&TlsFiles);
    let cases: [(Spoil, &str); 6] = [
        (|files| fs::remove_file(&files.key).unwrap(), "reading"),
        (
            |files| fs::write(&files.certificate, "").unwrap(),
            "no certificate",
        ),
        (
            |files| fs::write(&files.key, "no key").unwrap(),
            "private key",
        ),
        (
            |files| fs::write(&files.key, pair().1).unwrap(),
            "cannot be used with",
        ),
        (
            |files| fs::write(files.client_ca.as_ref().unwrap(), "\n").unwrap(),
            "no certificate",
        ),
        (
            |files| {
                let broken = "-----BEGIN CERTIFICATE-----\n?\n-----END CERTIFICATE-----\n";
                fs::write(&files.certificate, broken).unwrap();
            },
            "list of certificates",
        ),
    ];
    for (spoil, expected) in cases {
        let scene = Scene::new();
        scene.load().await.unwrap();
        spoil(&scene.files);
        let error = scene.load().await.unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
        assert!(error.contains(".crt") || error.contains(".key"), "{error}");
    }
}

#[tokio::test]
async fn the_last_good_files_stay_in_force() {
    let scene = Scene::new();
    let (tls, mut reload) = scene.load().await.unwrap();
    let outcomes = |reload: &Reload| {
        ["ok", "failed"].map(|outcome| {
            let reloads = &reload.metrics.reloads;
            reloads.get_or_create(&Outcome { outcome }).get()
        })
    };
    let first = Arc::clone(&tls.0.borrow());
    reload.look().await;
    assert!(Arc::ptr_eq(&first, &tls.0.borrow()), "nothing has changed");

    let new = pair();
    fs::write(&scene.files.certificate, &new.0).unwrap();
    reload.look().await;
    reload.look().await;
    assert!(Arc::ptr_eq(&first, &tls.0.borrow()), "the key is another's");
    assert_eq!(outcomes(&reload), [0, 1], "said once");

    fs::write(&scene.files.key, &new.1).unwrap();
    reload.look().await;
    assert!(!Arc::ptr_eq(&first, &tls.0.borrow()));
    assert_eq!(outcomes(&reload), [1, 1]);

    let second = Arc::clone(&tls.0.borrow());
    fs::remove_file(&scene.files.key).unwrap();
    reload.look().await;
    assert!(Arc::ptr_eq(&second, &tls.0.borrow()));
    // What comes back as it was is no news, but is noticed.
    fs::write(&scene.files.key, &new.1).unwrap();
    reload.look().await;
    assert_eq!(outcomes(&reload), [2, 2]);
}

#[tokio::test]
async fn a_change_is_noticed_by_whoever_runs() {
    let scene = Scene::new();
    let (mut tls, reload) = scene.load().await.unwrap();
    let shutdown = CancellationToken::new();
    tls.0.mark_unchanged();
    let changed = async {
        // Again and again: nobody tells when the folder is watched.
        let mut changed = false;
        while !changed {
            scene.put(&pair());
            let wait = tokio::time::timeout(3 * QUIET, tls.0.changed());
            changed = wait.await.is_ok();
        }
        shutdown.cancel();
    };
    tokio::join!(reload.run(shutdown.clone()), changed);
}
