//! A certificate authority of a test.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};

pub(crate) struct Authority {
    certificate: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Self {
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.self_signed(&key).expect("it is one");
        Self {
            certificate: certificate.pem(),
            issuer: Issuer::new(params, key),
        }
    }

    /// The certificate that clients trust.
    pub(crate) fn pem(&self) -> &str {
        &self.certificate
    }

    /// The same in a file.
    pub(crate) fn file(&self, directory: &Path) -> PathBuf {
        let file = directory.join("ca.pem");
        fs::write(&file, &self.certificate).expect("there is room");
        file
    }

    /// The files of a certificate for this name, and of its key.
    pub(crate) fn issue(&self, name: &str, directory: &Path) -> (PathBuf, PathBuf) {
        let params = CertificateParams::new([name.to_owned()]).expect("it is a name");
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.signed_by(&key, &self.issuer).expect("it is one");
        let files = (directory.join("server.pem"), directory.join("server.key"));
        fs::write(&files.0, certificate.pem()).expect("there is room");
        fs::write(&files.1, key.serialize_pem()).expect("there is room");
        let private = fs::Permissions::from_mode(0o600);
        fs::set_permissions(&files.1, private).expect("it is our file");
        files
    }
}
