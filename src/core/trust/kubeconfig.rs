//! CA of the API server in a kubeconfig: replaced where certificates of the cluster's bundle are missing.

use k8s_openapi::ByteString;
use serde_json::Value;

use super::certificate;
use super::certificate::CaCertificate;
use super::document::from_base64;
use crate::core::config::document;

/// Member of a cluster that holds the certificates.
const AUTHORITY: &str = "certificate-authority-data";

/// Kubeconfig with another CA.
#[derive(PartialEq, Eq)]
pub struct RotatedKubeconfig {
    pub contents: Vec<u8>,
    /// Certificates that the kubeconfig did not have.
    pub added: Vec<CaCertificate>,
}

/// Shows the added certificates only: a kubeconfig holds credentials.
impl std::fmt::Debug for RotatedKubeconfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RotatedKubeconfig").field("added", &self.added).finish_non_exhaustive()
    }
}

/// Kubeconfig whose CA cannot be replaced. No message quotes the file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KubeconfigFault {
    #[error("is not a kubeconfig in YAML")]
    Malformed,
    #[error("has no cluster in `clusters`")]
    NoCluster,
    #[error("`certificate-authority-data` of its cluster is not base64")]
    NotBase64,
}

/// Return the kubeconfig with `authority` as the CA of its current cluster; `None` if it has all of these
/// certificates. As with MCD, one that has more certificates stays as it is.
pub fn rotated(
    kubeconfig: &[u8],
    authority: &[CaCertificate],
) -> Result<Option<RotatedKubeconfig>, KubeconfigFault> {
    let parsed = document::parse(kubeconfig).map_err(|_| KubeconfigFault::Malformed)?;
    let index = current_cluster(&parsed).ok_or(KubeconfigFault::NoCluster)?;
    let pointer = format!("/clusters/{index}/cluster");
    let cluster = parsed.pointer(&pointer).and_then(Value::as_object).ok_or(KubeconfigFault::NoCluster)?;
    let before = cluster.get(AUTHORITY).and_then(Value::as_str).unwrap_or_default();
    let present = certificates(before)?;
    let added: Vec<_> =
        authority.iter().filter(|certificate| !certificate.is_in(&present)).cloned().collect();
    if added.is_empty() {
        return Ok(None);
    }
    let after = ByteString(CaCertificate::encode_all(authority).into_bytes());
    let after = serde_json::to_value(after).expect("bytes are a JSON string");
    let mut intended = parsed.clone();
    if let Some(cluster) = intended.pointer_mut(&pointer).and_then(Value::as_object_mut) {
        cluster.insert(AUTHORITY.to_owned(), after.clone());
    }
    let contents = replaced_text(kubeconfig, before, after.as_str().unwrap_or_default(), &intended);
    // JSON is YAML.
    let contents = contents.unwrap_or_else(|| intended.to_string().into_bytes());
    Ok(Some(RotatedKubeconfig { contents, added }))
}

/// Return the index of the current context's cluster, or else of the first one.
fn current_cluster(kubeconfig: &Value) -> Option<usize> {
    let named = |list: &str, name: &str| {
        let found = kubeconfig.get(list)?.as_array()?;
        found.iter().position(|item| item.get("name").and_then(Value::as_str) == Some(name))
    };
    let context = kubeconfig.get("current-context").and_then(Value::as_str);
    let context = context.and_then(|name| named("contexts", name));
    let cluster = context.and_then(|index| {
        kubeconfig.pointer(&format!("/contexts/{index}/context/cluster")).and_then(Value::as_str)
    });
    let is_any = kubeconfig.get("clusters")?.as_array().is_some_and(|clusters| !clusters.is_empty());
    cluster.and_then(|name| named("clusters", name)).or_else(|| is_any.then_some(0))
}

/// Decode the certificates that a kubeconfig has. Those that are not valid count as missing.
fn certificates(base64: &str) -> Result<Vec<CaCertificate>, KubeconfigFault> {
    let bytes = from_base64(base64).ok_or(KubeconfigFault::NotBase64)?;
    Ok(certificate::parse_valid(&bytes.0).map(|(valid, _)| valid).unwrap_or_default())
}

/// Replace the old value in the text, which keeps its form for people and scripts; `None` if that does not lead to
/// the intended document.
fn replaced_text(kubeconfig: &[u8], before: &str, after: &str, intended: &Value) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(kubeconfig).ok()?;
    if before.is_empty() || text.matches(before).count() != 1 {
        return None;
    }
    let replaced = text.replacen(before, after, 1).into_bytes();
    (document::parse(&replaced).ok()? == *intended).then_some(replaced)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Certificates of `tests/fixtures/trust`.
    pub(crate) fn fixture(name: &str) -> Vec<CaCertificate> {
        let text = match name {
            "server-1" => include_str!("../../../tests/fixtures/trust/server-1.pem"),
            "server-2" => include_str!("../../../tests/fixtures/trust/server-2.pem"),
            "lb" => include_str!("../../../tests/fixtures/trust/lb.pem"),
            "localhost" => include_str!("../../../tests/fixtures/trust/localhost.pem"),
            other => panic!("no fixture {other}"),
        };
        certificate::parse_bundle(text.as_bytes()).unwrap()
    }

    fn base64(authority: &[CaCertificate]) -> String {
        let value = serde_json::to_value(ByteString(CaCertificate::encode_all(authority).into_bytes()));
        value.unwrap().as_str().unwrap().to_owned()
    }

    /// Kubeconfig as the installer writes it.
    pub(crate) fn kubeconfig(authority: &[CaCertificate]) -> String {
        format!(
            "# of the installer\napiVersion: v1\nclusters:\n- cluster:\n    certificate-authority-data: {}\n    \
             server: https://api-int.example:6443\n  name: local\ncontexts:\n- context:\n    cluster: local\n    \
             user: kubelet\n  name: kubelet\ncurrent-context: kubelet\nkind: Config\npreferences: {{}}\nusers:\n\
             - name: kubelet\n  user:\n    token: very-secret\n",
            base64(authority)
        )
    }

    #[test]
    fn missing_certificates_are_added_in_place() {
        let (old, new) = (fixture("server-1"), fixture("server-2"));
        let both = [old.clone(), new.clone()].concat();
        let rotated = rotated(kubeconfig(&old).as_bytes(), &both).unwrap().unwrap();
        assert_eq!(String::from_utf8(rotated.contents).unwrap(), kubeconfig(&both));
        assert_eq!(rotated.added, new);
        assert!(!format!("{:?}", rotated.added).is_empty());
    }

    #[test]
    fn kubeconfig_with_all_certificates_stays() {
        let (old, new) = (fixture("server-1"), fixture("server-2"));
        let both = [old.clone(), new.clone()].concat();
        assert_eq!(rotated(kubeconfig(&both).as_bytes(), &both), Ok(None));
        assert_eq!(rotated(kubeconfig(&both).as_bytes(), &new), Ok(None), "MCD keeps old certificates too");
    }

    #[test]
    fn other_forms_are_written_as_json() {
        let new = fixture("server-2");
        for text in [
            "clusters: [{name: c, cluster: {server: 'https://x', certificate-authority: /a}}]\n".to_owned(),
            format!(
                "clusters: [{{name: other, cluster: {{certificate-authority-data: {0}}}}}, {{name: c, cluster: \
                 {{certificate-authority-data: {0}}}}}]\ncontexts: [{{name: x, context: {{cluster: c}}}}]\n\
                 current-context: x\n",
                base64(&fixture("server-1"))
            ),
        ] {
            let rotated = rotated(text.as_bytes(), &new).unwrap().unwrap();
            let value: Value = serde_json::from_slice(&rotated.contents).unwrap();
            let clusters = value["clusters"].as_array().unwrap();
            let last = clusters.last().unwrap();
            assert_eq!(last["cluster"][AUTHORITY].as_str(), Some(base64(&new).as_str()));
            let (before, after) = (document::parse(text.as_bytes()).unwrap(), &value);
            assert_eq!(before.get("contexts"), after.get("contexts"));
            assert!(clusters.len() == 1 || clusters[0] == before["clusters"][0], "the other cluster stays");
        }
    }

    #[test]
    fn certificates_over_several_lines_are_read() {
        let (old, new) = (fixture("server-1"), fixture("server-2"));
        let encoded = base64(&old);
        let (first, second) = encoded.split_at(64);
        let text = format!(
            "clusters:\n- name: c\n  cluster:\n    certificate-authority-data: |\n      {first}\n      {second}\n"
        );
        assert_eq!(rotated(text.as_bytes(), &old), Ok(None));
        assert_eq!(rotated(text.as_bytes(), &new).unwrap().unwrap().added, new);
    }

    #[test]
    fn unusable_kubeconfig_is_named_without_quoting_it() {
        for (text, expected) in [
            ("{", KubeconfigFault::Malformed),
            ("very-secret", KubeconfigFault::NoCluster),
            ("clusters: []", KubeconfigFault::NoCluster),
            ("clusters: [{name: c}]", KubeconfigFault::NoCluster),
            ("clusters: [{cluster: {certificate-authority-data: '*'}}]", KubeconfigFault::NotBase64),
        ] {
            assert_eq!(rotated(text.as_bytes(), &fixture("lb")), Err(expected), "{text}");
        }
    }
}
