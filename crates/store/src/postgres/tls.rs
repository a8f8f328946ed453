//! TLS to the database, as libpq does it: `sslmode` says what is verified.

use std::{path::Path, sync::Arc};

use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
    client::{
        WebPkiServerVerifier,
        danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier},
    },
    crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature},
    pki_types::{CertificateDer, ServerName, UnixTime, pem::PemObject},
};
use rustls_platform_verifier::Verifier;
use tokio_postgres_rustls::MakeRustlsConnect;

use crate::StoreError;

pub(super) type Tls = MakeRustlsConnect;

/// What is verified of the server's certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verify {
    /// Nothing: protects from listeners only.
    Nothing,
    /// Who signed it.
    Chain,
    /// And that it is for this host.
    Name,
}

/// TLS with the roots in this file, or with those of the system.
pub(super) fn with(verify: Verify, roots: Option<&Path>) -> Result<Tls, StoreError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match (verify, roots) {
        (Verify::Nothing, _) => Arc::new(Lenient { inner: None, provider: provider.clone() }),
        (_, None) => lenient(verify, Arc::new(system(&provider)?), &provider),
        (_, Some(path)) => lenient(verify, file(path, &provider)?, &provider),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| unusable(&error))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn system(provider: &Arc<CryptoProvider>) -> Result<Verifier, StoreError> {
    Verifier::new(provider.clone()).map_err(|error| unusable(&error))
}

fn file(path: &Path, provider: &Arc<CryptoProvider>) -> Result<Arc<WebPkiServerVerifier>, StoreError> {
    let wrong = |what: String| StoreError::Unusable {
        what: format!("sslrootcert {}: {what}", path.display()),
        hint: "name a file with certificates in PEM format".into(),
    };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(|error| wrong(error.to_string()))? {
        let certificate = certificate.map_err(|error| wrong(error.to_string()))?;
        roots.add(certificate).map_err(|error| wrong(error.to_string()))?;
    }
    WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider.clone())
        .build()
        .map_err(|error| wrong(error.to_string()))
}

fn lenient(
    verify: Verify,
    inner: Arc<dyn ServerCertVerifier>,
    provider: &Arc<CryptoProvider>,
) -> Arc<dyn ServerCertVerifier> {
    match verify {
        Verify::Name => inner,
        _ => Arc::new(Lenient { inner: Some(inner), provider: provider.clone() }),
    }
}

fn unusable(error: &Error) -> StoreError {
    StoreError::Unusable {
        what: format!("TLS to the database: {error}"),
        hint: "name the certificates to trust: sslrootcert=FILE".into(),
    }
}

/// Verifies the chain at most, never the name.
#[derive(Debug)]
struct Lenient {
    inner: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else { return Ok(ServerCertVerified::assertion()) };
        match inner.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The name is checked last.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, cert, signature, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
