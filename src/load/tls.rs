//! TLS settings of a load's connections.

use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};

use super::spec::LoadError;
use crate::plan::{Address, Tls, TlsMode};

/// What a connection needs to encrypt.
#[derive(Debug, Clone)]
pub(super) struct TlsSetup {
    pub(super) config: Arc<ClientConfig>,
    pub(super) name: ServerName<'static>,
}

/// Settings for `tls`; `None` when it is disabled.
///
/// # Errors
/// [`LoadError::Tls`]: the authority's file cannot be read, or the host name is none.
pub(super) fn setup(tls: &Tls, address: &Address) -> Result<Option<TlsSetup>, LoadError> {
    if tls.mode == TlsMode::Disabled {
        return Ok(None);
    }
    let provider = Arc::new(ring::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match tls.mode {
        TlsMode::VerifyCa | TlsMode::VerifyIdentity => {
            let inner = WebPkiServerVerifier::builder_with_provider(
                Arc::new(roots(tls)?),
                Arc::clone(&provider),
            )
            .build()
            .map_err(|e| LoadError::Tls(e.to_string()))?;
            if tls.mode == TlsMode::VerifyIdentity {
                inner
            } else {
                Arc::new(AnyName(inner))
            }
        }
        _ => Arc::new(AnyCertificate(Arc::clone(&provider))),
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|e| LoadError::Tls(e.to_string()))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    let host = match address {
        Address::Tcp { host, .. } => host.clone(),
        Address::Socket(_) => "localhost".into(),
    };
    let name = ServerName::try_from(host.clone()).map_err(|_| {
        LoadError::Tls(format!(
            "`{host}` is not a name that a certificate can carry"
        ))
    })?;
    Ok(Some(TlsSetup {
        config: Arc::new(config),
        name,
    }))
}

fn roots(tls: &Tls) -> Result<RootCertStore, LoadError> {
    let mut roots = RootCertStore::empty();
    let Some(path) = &tls.ca else {
        roots.extend(webpki_roots::TLS_SERVER_ROOTS.iter().cloned());
        return Ok(roots);
    };
    let pem = fs_err::read(path).map_err(|e| LoadError::Tls(e.to_string()))?;
    for certificate in rustls_pemfile::certs(&mut pem.as_slice()) {
        let certificate = certificate
            .map_err(|e| LoadError::Tls(format!("{} is not PEM: {e}", path.display())))?;
        roots
            .add(certificate)
            .map_err(|e| LoadError::Tls(format!("{}: {e}", path.display())))?;
    }
    if roots.is_empty() {
        return Err(LoadError::Tls(format!(
            "{} holds no certificate",
            path.display()
        )));
    }
    Ok(roots)
}

/// Modes "preferred" and "required": encrypt, check nothing, as `MySQL` defines them.
#[derive(Debug)]
struct AnyCertificate(Arc<CryptoProvider>);

impl ServerCertVerifier for AnyCertificate {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(
            message,
            cert,
            dss,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

/// Mode "verify-ca": signed by a known authority, whatever its name. (The certificates that `MySQL` makes
/// for itself carry no name that could be checked.)
#[derive(Debug)]
struct AnyName(Arc<WebPkiServerVerifier>);

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        // The chain is checked before the name, so a wrong name means a right chain.
        match self
            .0
            .verify_server_cert(end_entity, intermediates, name, ocsp, now)
        {
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
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, cert, dss)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, cert, dss)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
