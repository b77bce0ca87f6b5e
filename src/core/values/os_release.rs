//! The identity of the operating system, read from os-release(5).

/// Paths of the file, in the order in which they are read.
pub const PLACES: [&str; 2] = ["/etc/os-release", "/usr/lib/os-release"];

/// The fields of os-release that decide something, in lower case; empty if absent.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OsRelease {
    id: String,
    variant: String,
    version: String,
}

impl OsRelease {
    /// Parse the file; lines of another form are ignored.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let Ok(parsed) = text.parse::<etc_os_release::OsRelease>();
        let value = |field: Option<&str>| field.unwrap_or_default().to_lowercase();
        Self {
            id: value(Some(parsed.id())),
            variant: value(parsed.variant_id()),
            version: value(parsed.version_id()),
        }
    }

    /// The `ID` field: `rhcos`, `fedora`.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The `VERSION_ID` field.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// True for RHEL CoreOS and `CentOS` Stream CoreOS. Only these have images of extensions and of other
    /// kernels (MCD's rule).
    #[must_use]
    pub fn is_enterprise_coreos(&self) -> bool {
        let Self { id, variant, .. } = self;
        matches!(id.as_str(), "rhcos" | "scos")
            || (matches!(id.as_str(), "rhel" | "centos") && variant == "coreos")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn enterprise_coreos_is_distinguished_from_fedora_coreos() {
        for (text, expected) in [
            ("NAME=\"Red Hat Enterprise Linux CoreOS\"\nID=\"rhcos\"\nID_LIKE=\"rhel fedora\"\n", true),
            ("ID=scos\n", true),
            ("ID=\"rhel\"\nVARIANT_ID=coreos\n", true),
            ("ID=\"centos\"\nVARIANT_ID='CoreOS'\n", true),
            ("ID=fedora\nVARIANT_ID=coreos\n", false),
            ("ID=\"rhel\"\nVARIANT_ID=server\n", false),
            ("# ID=rhcos\nno line\n", false),
            ("", false),
        ] {
            assert_eq!(OsRelease::parse(text).is_enterprise_coreos(), expected, "{text}");
        }
    }
}
