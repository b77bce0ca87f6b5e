//! CA, certificates and keys of a test, as files.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use time::OffsetDateTime;

/// Certificate of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerCertificate {
    /// For 127.0.0.1 and localhost.
    Valid,
    Expired,
    NotYetValid,
    /// Without subject alternative names, as config servers of clusters born before 4.10 have.
    OnlyCommonName,
    /// For another host.
    OtherName,
    /// From a CA that the test's files do not have.
    OtherAuthority,
}

/// CA and the files that it made.
pub struct Authority {
    directory: PathBuf,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Create a CA, whose files are in `directory`.
    pub fn create(directory: &Path) -> Self {
        let authority = Self { directory: directory.to_owned(), issuer: issuer("authority").0 };
        authority.renew()
    }

    /// Create another CA in place of this one.
    pub fn renew(&self) -> Self {
        let (issuer, certificate) = issuer("authority");
        fs::write(self.directory.join("ca.pem"), certificate).unwrap();
        Self { directory: self.directory.clone(), issuer }
    }

    /// File of the CA.
    pub fn ca(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// Create a certificate for the server, and return the chain and its key in DER.
    pub(super) fn server(&self, kind: ServerCertificate) -> (Vec<u8>, Vec<u8>) {
        let names = match kind {
            ServerCertificate::OnlyCommonName => Vec::new(),
            ServerCertificate::OtherName => vec!["api-int.example.com".to_owned()],
            _ => vec!["127.0.0.1".to_owned(), "localhost".to_owned()],
        };
        let mut params = CertificateParams::new(names).unwrap();
        params.distinguished_name.push(DnType::CommonName, "127.0.0.1");
        let now = OffsetDateTime::now_utc();
        let day = time::Duration::DAY;
        (params.not_before, params.not_after) = match kind {
            ServerCertificate::Expired => (now - 2 * day, now - day),
            ServerCertificate::NotYetValid => (now + day, now + 2 * day),
            _ => (now - day, now + day),
        };
        let key = KeyPair::generate().unwrap();
        let other = issuer("another").0;
        let by = if kind == ServerCertificate::OtherAuthority { &other } else { &self.issuer };
        (params.signed_by(&key, by).unwrap().der().to_vec(), key.serialize_der())
    }

    /// Create a client certificate, and return the files of certificate and key.
    pub fn client(&self) -> (PathBuf, PathBuf) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["client".to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.issuer).unwrap();
        let at = |name: &str| self.directory.join(name);
        let (certificate_file, key_file) = (at("client.pem"), at("client.key"));
        fs::write(&certificate_file, certificate.pem()).unwrap();
        fs::write(&key_file, key.serialize_pem()).unwrap();
        fs::set_permissions(&key_file, fs::Permissions::from_mode(0o600)).unwrap();
        (certificate_file, key_file)
    }
}

/// Create a CA, and return it with its certificate in PEM.
fn issuer(name: &str) -> (Issuer<'static, KeyPair>, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let certificate = params.self_signed(&key).unwrap().pem();
    (Issuer::new(params, key), certificate)
}
