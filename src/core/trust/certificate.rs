//! Certificates of a CA bundle, in PEM form.

use pem::{EncodeConfig, LineEnding, Pem};
use x509_cert::certificate::{CertificateInner, Raw};
use x509_cert::der::Decode as _;
use x509_cert::der::oid::ObjectIdentifier;

/// Label of certificates in PEM files; other blocks are skipped, as Go's libraries do.
const LABEL: &str = "CERTIFICATE";
/// Attribute `commonName` of a subject (RFC 4519).
const COMMON_NAME: ObjectIdentifier = ObjectIdentifier::new_unwrap("2.5.4.3");

/// Certificate of a CA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CaCertificate {
    der: Vec<u8>,
    /// Common name of the subject; empty without one.
    pub common_name: String,
}

/// Unusable CA bundle. The numbers count the certificates from 1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BundleError {
    #[error("is not in PEM form: {0}")]
    Malformed(String),
    #[error("has no certificate in PEM form")]
    Empty,
    #[error("certificate {0} is not a valid X.509 certificate")]
    BadCertificate(usize),
}

impl CaCertificate {
    fn of_der(der: Vec<u8>) -> Option<Self> {
        // The raw profile takes what RFC 5280 forbids and CAs issue nevertheless, such as long serial numbers.
        let certificate = CertificateInner::<Raw>::from_der(&der).ok()?;
        let mut attributes = certificate.tbs_certificate.subject.0.iter().flat_map(|names| names.0.iter());
        let name = attributes.rfind(|attribute| attribute.oid == COMMON_NAME);
        let common_name =
            name.map(|name| String::from_utf8_lossy(name.value.value()).into_owned()).unwrap_or_default();
        Some(Self { der, common_name })
    }

    /// Encode certificates in PEM form.
    #[must_use]
    pub fn encode_all(certificates: &[Self]) -> String {
        let format = EncodeConfig::new().set_line_ending(LineEnding::LF);
        let blocks = certificates.iter().map(|certificate| Pem::new(LABEL, certificate.der.clone()));
        blocks.map(|block| pem::encode_config(&block, format)).collect()
    }

    /// Return true if `others` has this certificate.
    #[must_use]
    pub fn is_in(&self, others: &[Self]) -> bool {
        others.iter().any(|other| other.der == self.der)
    }
}

/// Parse a bundle, each of whose certificates must be valid: a program that cannot read one refuses the whole file.
pub fn parse_bundle(bytes: &[u8]) -> Result<Vec<CaCertificate>, BundleError> {
    let blocks = der_blocks(bytes)?;
    let certificates = blocks.into_iter().enumerate();
    certificates
        .map(|(index, der)| CaCertificate::of_der(der).ok_or(BundleError::BadCertificate(index + 1)))
        .collect()
}

/// Parse a bundle and leave out certificates that are not valid; also return the number of these.
pub fn parse_valid(bytes: &[u8]) -> Result<(Vec<CaCertificate>, usize), BundleError> {
    let blocks = der_blocks(bytes)?;
    let total = blocks.len();
    let valid: Vec<_> = blocks.into_iter().filter_map(CaCertificate::of_der).collect();
    if valid.is_empty() {
        return Err(BundleError::BadCertificate(1));
    }
    let invalid = total - valid.len();
    Ok((valid, invalid))
}

/// Return the certificates of a bundle in DER, unparsed.
pub fn der_blocks(bytes: &[u8]) -> Result<Vec<Vec<u8>>, BundleError> {
    let blocks = pem::parse_many(bytes).map_err(|error| BundleError::Malformed(error.to_string()))?;
    let certificates = blocks.into_iter().filter(|block| block.tag() == LABEL).map(Pem::into_contents);
    let certificates: Vec<_> = certificates.collect();
    if certificates.is_empty() { Err(BundleError::Empty) } else { Ok(certificates) }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Self-signed certificate of the tests, whose common name is `test authority`.
    pub(crate) const AUTHORITY: &str = include_str!("../../../tests/fixtures/authority.pem");

    #[test]
    fn bundle_is_parsed_and_encoded_again() {
        let twice = format!("# note\n{AUTHORITY}\n{AUTHORITY}");
        let parsed = parse_bundle(twice.as_bytes()).unwrap();
        assert_eq!(parsed.len(), 2);
        let encoded = CaCertificate::encode_all(&parsed);
        assert!(!encoded.contains('\r'));
        assert_eq!(parse_bundle(encoded.as_bytes()).unwrap(), parsed);
        assert!(parsed[0].is_in(&parsed[1..]));
    }

    #[test]
    fn unusable_bundle_is_refused_with_the_number_of_the_bad_certificate() {
        let bad = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
        for (text, expected) in [
            (String::new(), BundleError::Empty),
            ("no certificate".to_owned(), BundleError::Empty),
            (format!("{AUTHORITY}{bad}"), BundleError::BadCertificate(2)),
        ] {
            assert_eq!(parse_bundle(text.as_bytes()).unwrap_err(), expected, "{text}");
        }
        let cut = AUTHORITY.replace("-----END", "");
        assert!(parse_bundle(cut.as_bytes()).is_err());
        let (valid, invalid) = parse_valid(format!("{bad}{AUTHORITY}").as_bytes()).unwrap();
        assert_eq!((valid.len(), invalid), (1, 1));
    }
}
