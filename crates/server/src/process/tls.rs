//! The certificate, read again when its files change: renewals need no restart.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Instant,
};

use anyhow::Context as _;
use parking_lot::Mutex;
use tokio_rustls::{
    TlsAcceptor,
    rustls::{
        ServerConfig,
        crypto::aws_lc_rs,
        pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject},
        server::{ClientHello, ResolvesServerCert},
        sign::CertifiedKey,
    },
};

use crate::stamp::{LOOK, Stamp, stamp};

/// Where a certificate and its key are, both as PEM.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// The certificate, followed by its intermediate certificates.
    pub cert: PathBuf,
    /// The private key of the certificate.
    pub key: PathBuf,
}

impl TlsFiles {
    /// Accepts TLS connections with this certificate.
    pub(super) fn acceptor(&self) -> anyhow::Result<TlsAcceptor> {
        let (stamps, key) = (self.stamps(), self.read()?);
        let current = Mutex::new(Current { key, stamps, looked: Instant::now() });
        let certificate = Arc::new(Certificate { files: self.clone(), current });
        let provider = Arc::new(aws_lc_rs::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_cert_resolver(certificate);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }

    fn read(&self) -> anyhow::Result<Arc<CertifiedKey>> {
        let named = |path: &Path| format!("cannot use {}", path.display());
        let chain: Vec<_> = CertificateDer::pem_file_iter(&self.cert)
            .and_then(Iterator::collect)
            .with_context(|| named(&self.cert))?;
        anyhow::ensure!(!chain.is_empty(), "{} has no certificate", self.cert.display());
        let key = PrivateKeyDer::from_pem_file(&self.key).with_context(|| named(&self.key))?;
        let key = CertifiedKey::from_der(chain, key, &aws_lc_rs::default_provider()).with_context(|| {
            format!("{} and {} do not go together", self.cert.display(), self.key.display())
        })?;
        Ok(Arc::new(key))
    }

    fn stamps(&self) -> [Stamp; 2] {
        [&self.cert, &self.key].map(|path| stamp(path))
    }
}

#[derive(Debug)]
struct Certificate {
    files: TlsFiles,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    key: Arc<CertifiedKey>,
    stamps: [Stamp; 2],
    looked: Instant,
}

impl Certificate {
    fn now(&self) -> Arc<CertifiedKey> {
        let mut current = self.current.lock();
        if current.looked.elapsed() >= LOOK {
            current.looked = Instant::now();
            let stamps = self.files.stamps();
            if stamps != current.stamps {
                match self.files.read() {
                    Ok(key) => {
                        tracing::info!(cert = %self.files.cert.display(), "the certificate changed");
                        (current.key, current.stamps) = (key, stamps);
                    }
                    // One of the two files is not there yet: the current certificate stays in use.
                    Err(error) => {
                        tracing::warn!(error = format!("{error:#}"), "the new certificate cannot be used")
                    }
                }
            }
        }
        Arc::clone(&current.key)
    }
}

impl ResolvesServerCert for Certificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.now())
    }
}
