//! Tests of rules, scopes and demands.

use super::*;

const POLICY: &str = r#"{
  "default": [{"type": "reject"}],
  "transports": {
    "docker": {
      "quay.io/org/os@sha256:1111111111111111111111111111111111111111111111111111111111111111": [{"type": "reject"}],
      "quay.io/org/os": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/etc/pki/os.gpg"}],
      "quay.io/org": [{"type": "sigstoreSigned", "keyPaths": ["/etc/pki/a.pub", "/etc/pki/b.pub"],
                       "signedIdentity": {"type": "matchRepository"}}],
      "registry.example:5000": [{"type": "sigstoreSigned", "keyData": "a2V5",
                                 "signedIdentity": {"type": "remapIdentity", "prefix": "registry.example:5000", "signedPrefix": "quay.io"}}],
      "*.example": [{"type": "insecureAcceptAnything"}],
      "": [{"type": "sigstoreSigned", "fulcio": {"caPath": "/etc/pki/fulcio.pem",
            "oidcIssuer": "https://issuer.example", "subjectEmail": "release@example"}, "rekorPublicKeyPath": "/etc/pki/rekor.pub"}]
    },
    "oci": {"/srv/images": [{"type": "insecureAcceptAnything"}]}
  }
}"#;

fn policy() -> ImagePolicy {
    ImagePolicy::parse(POLICY.as_bytes()).unwrap()
}

fn rule_of<'a>(policy: &'a ImagePolicy, image: &str) -> PolicyRule<'a> {
    policy.rule_for(&image.parse().unwrap())
}

#[test]
fn closest_scope_governs() {
    let policy = policy();
    let digest = |digit: &str| digit.repeat(64);
    for (image, expected) in [
        (format!("quay.io/org/os@sha256:{}", digest("1")), "transports.docker.\"quay.io/org/os@sha256:"),
        (format!("quay.io/org/os@sha256:{}", digest("2")), "transports.docker.\"quay.io/org/os\""),
        ("ostree-image-signed:docker://quay.io/org/os:4".to_owned(), "transports.docker.\"quay.io/org/os\""),
        ("quay.io/org/other:4".to_owned(), "transports.docker.\"quay.io/org\""),
        ("quay.io/organization/os".to_owned(), "transports.docker"),
        ("registry.example:5000/os".to_owned(), "transports.docker.\"registry.example:5000\""),
        ("registry.example/os".to_owned(), "transports.docker.\"*.example\""),
        ("a.b.example:443/os".to_owned(), "transports.docker.\"*.example\""),
        ("ostree-unverified-image:oci:/srv/images/os:4".to_owned(), "transports.oci.\"/srv/images\""),
        ("ostree-unverified-image:oci:/srv/imagesx:4".to_owned(), "default"),
        ("ostree-unverified-image:oci-archive:/srv/images/os.tar".to_owned(), "default"),
        ("ostree-unverified-image:containers-storage:localhost/os".to_owned(), "default"),
    ] {
        let found = rule_of(&policy, &image).to_string();
        assert!(
            found == expected || expected.ends_with(':') && found.starts_with(expected),
            "{image}: {found}"
        );
    }
}

#[test]
fn names_without_a_host_are_on_the_default_one() {
    let text = r#"{"default": [{"type": "reject"}], "transports": {"docker": {"docker.io/library/os:latest": [{"type": "insecureAcceptAnything"}]}}}"#;
    let policy = ImagePolicy::parse(text.as_bytes()).unwrap();
    for (image, is_accepted) in [
        ("docker://os", true),
        ("docker://os:latest", true),
        ("docker://docker.io/library/os", true),
        ("docker://os:4", false),
        ("docker://localhost/os", false),
        ("docker://org/os", false),
    ] {
        let found = rule_of(&policy, &format!("ostree-unverified-image:{image}"));
        assert_eq!(found.accepts_anything(), is_accepted, "{image}: {found}");
    }
}

#[test]
fn demand_names_keys_and_identities() {
    let policy = policy();
    for (image, is_signature, expected) in [
        ("quay.io/org/os:1", true, "a GPG signature by /etc/pki/os.gpg"),
        ("quay.io/org/x:1", true, "a sigstore signature by /etc/pki/a.pub or /etc/pki/b.pub"),
        ("registry.example:5000/os:1", true, "a sigstore signature by key data sha256:"),
        ("other.test/os:1", true, "a sigstore signature by release@example, known to https://issuer.example"),
        ("x.example/os:1", false, "nothing"),
        ("ostree-unverified-image:oci:/os", false, "what no image meets (reject)"),
    ] {
        let rule = rule_of(&policy, image);
        assert_eq!(rule.demands_signature(), is_signature, "{image}");
        assert!(rule.demand().starts_with(expected), "{image}: {}", rule.demand());
    }
}

#[test]
fn requirements_add_up() {
    let text = r#"{"default": [{"type": "insecureAcceptAnything"}, {"type": "signedBy", "keyPaths": ["/a"]}, {"type": "future", "x": 1}]}"#;
    let policy = ImagePolicy::parse(text.as_bytes()).unwrap();
    let rule = policy.default_rule();
    assert!(rule.demands_signature() && !rule.accepts_anything());
    assert_eq!(rule.demand(), "nothing, and a GPG signature by /a, and future");
}

#[test]
fn policy_that_skopeo_refuses_is_refused() {
    for (text, expected) in [
        ("", "line 1, column 0: EOF while parsing a value"),
        ("{}", "line 1, column 2: missing field `default`"),
        (r#"{"default": []}"#, "the rule for default has no requirement"),
        (
            r#"{"default": [{"type": "reject"}], "transports": {"docker": {"a.example": []}}}"#,
            "the rule for transports.docker.\"a.example\" has no requirement",
        ),
        (r#"{"default": [{"type": "reject"}], "transport": {}}"#, "unknown field `transport`"),
        (r#"{"default": [{"kind": "reject"}]}"#, "a requirement without `type`"),
        (r#"{"default": [{"type": ""}]}"#, "a requirement without `type`"),
        (r#"{"default": [{"type": "signedBy", "keyType": "GPGKeys"}]}"#, "by no key"),
        (r#"{"default": [{"type": "signedBy", "keyPath": ""}]}"#, "`keyPath` is empty"),
        (r#"{"default": [{"type": "signedBy", "keyPath": 1}]}"#, "`keyPath` is not a string"),
        (r#"{"default": [{"type": "sigstoreSigned", "fulcio": {}}]}"#, "`fulcio.oidcIssuer` is not a string"),
        (r#"{"default": [{"type": "sigstoreSigned", "pki": {}}]}"#, "neither `subjectEmail` nor"),
    ] {
        let refused = ImagePolicy::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(refused.contains(expected), "{text}: {refused}");
    }
}
