//! Image references: accepted notations, canonical text, refusals, and redaction.

use super::*;

const DIGEST: &str = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

fn image(text: &str) -> ImageRef {
    text.parse().unwrap()
}

#[test]
fn reference_is_printed_in_ostree_ext_notation() {
    for (text, canonical) in [
        ("quay.io/x/y", "ostree-unverified-registry:quay.io/x/y"),
        ("docker://quay.io/x/y:1", "ostree-unverified-registry:quay.io/x/y:1"),
        ("localhost:5000/os:v1", "ostree-unverified-registry:localhost:5000/os:v1"),
        ("ostree-unverified-registry:h/y", "ostree-unverified-registry:h/y"),
        ("ostree-unverified-image:docker://h/y", "ostree-unverified-registry:h/y"),
        ("ostree-unverified-image:registry:h/y", "ostree-unverified-registry:h/y"),
        ("ostree-unverified-image:oci:/d:t", "ostree-unverified-image:oci:/d:t"),
        ("ostree-unverified-image:oci-archive:/a.tar", "ostree-unverified-image:oci-archive:/a.tar"),
        ("ostree-image-signed:docker://h/y", "ostree-image-signed:docker://h/y"),
        ("ostree-image-signed:registry:h/y", "ostree-image-signed:docker://h/y"),
        ("ostree-remote-registry:fedora:h/y:1", "ostree-remote-registry:fedora:h/y:1"),
        ("ostree-remote-image:fedora:docker://h/y", "ostree-remote-registry:fedora:h/y"),
        ("ostree-remote-image:fedora:oci:/d", "ostree-remote-image:fedora:oci:/d"),
        (
            "ostree-unverified-image:containers-storage:localhost/os",
            "ostree-unverified-image:containers-storage:localhost/os",
        ),
    ] {
        assert_eq!(image(text).to_string(), canonical, "{text}");
        assert_eq!(image(canonical), image(text), "{canonical}");
    }
}

#[test]
fn bad_reference_is_refused_with_the_expected_form() {
    for (text, expected) in [
        ("", "no image named"),
        ("ostree-unverified-registry:", "no image named"),
        ("ostree-unverified-image:quay.io/x/y", "expected a transport"),
        ("ostree-image-signed:", "expected a transport"),
        ("ostree-remote-registry:h", "name of an OSTree remote"),
        ("ostree-remote-image::oci:/d", "name of an OSTree remote"),
        ("oci:/d", "expected ostree-unverified-image:oci:/d"),
        ("https://quay.io/x/y", "expected REGISTRY/NAME"),
        ("quay.io/x y", "white space"),
        ("quay.io/x@sha256:beef", "64 lower-case hexadecimal"),
        ("quay.io/x@latest", "64 lower-case hexadecimal"),
    ] {
        let error = text.parse::<ImageRef>().unwrap_err().to_string();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(error.contains(&format!("{text:?}")) || text.contains('@'), "{error}");
    }
}

#[test]
fn credentials_are_refused_and_not_repeated() {
    for text in ["u:secret@quay.io/x/y", "docker://u:secret@quay.io/x"] {
        let error = text.parse::<ImageRef>().unwrap_err().to_string();
        assert!(error.contains("credentials") && error.contains("quay.io/x"), "{error}");
        assert!(!error.contains("secret"), "{error}");
    }
}

#[test]
fn pinned_references_are_compared_by_digest() {
    let pinned = image(&format!("quay.io/x/y@{DIGEST}"));
    assert_eq!(pinned.digest(), Some(DIGEST));
    assert!(pinned.is_same_image(&image(&format!("ostree-image-signed:docker://mirror/y@{DIGEST}"))));
    let other = DIGEST.replace("sha256:0", "sha256:f");
    assert!(!pinned.is_same_image(&image(&format!("quay.io/x/y@{other}"))));
    let tagged = image("quay.io/x/y:1");
    assert_eq!(tagged.digest(), None);
    assert!(!pinned.is_same_image(&tagged));
    assert!(tagged.is_same_image(&image("ostree-image-signed:docker://quay.io/x/y:1")));
    assert!(!tagged.is_same_image(&image("ostree-unverified-image:containers-storage:quay.io/x/y:1")));
    assert_eq!(image(&format!("ostree-unverified-image:dir:/a@{DIGEST}")).digest(), None);
}

#[test]
fn reference_serializes_as_its_text() {
    let text = "\"ostree-unverified-image:oci:/d:t\"";
    let image: ImageRef = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&image).unwrap(), text);
}
