//! Preflight check of the host's signature policy: its demands on the image that is to be pulled.

use crate::core::config::settings::image::SignatureDemand;
use crate::core::image_policy::ImagePolicy;
use crate::core::plan::PreflightCheck;
use crate::core::values::causes::chain;
use crate::core::values::image::{ImageRef, ImageVerification};
use crate::core::values::paths::SIGNATURE_POLICY;
use crate::os::signature_policy;

/// Check that the policy demands of the image what its reference and the settings do.
pub(super) fn signature_check(image: &ImageRef, demand: SignatureDemand) -> PreflightCheck {
    let (ok, detail) = match signature_policy::load() {
        Ok(policy) => {
            let (ok, detail) = judge(&policy, image, demand);
            (ok, format!("{SIGNATURE_POLICY}: {detail}"))
        }
        Err(error) => (false, format!("{}; skopeo pulls no image without a usable policy", chain(&error))),
    };
    PreflightCheck { check: "image signature", ok, detail }
}

fn judge(policy: &ImagePolicy, image: &ImageRef, demand: SignatureDemand) -> (bool, String) {
    let rule = policy.rule_for(image);
    let is_named_signed = *image.verification() == ImageVerification::ContainerPolicy;
    let is_required = demand == SignatureDemand::Required;
    if is_named_signed && policy.default_rule().accepts_anything() {
        return (
            false,
            "the default rule accepts every image, which `ostree-image-signed:` does not allow".to_owned(),
        );
    }
    if !rule.demands_signature() && !rule.rejects() {
        let (detail, ok) = (format!("rule {rule} demands {}", rule.demand()), !is_required);
        return (
            ok,
            if ok { detail } else { format!("{detail}, but `image.signature` requires a signature") },
        );
    }
    let by_whom = if is_required || is_named_signed {
        "skopeo is tried before the pull"
    } else {
        "verified where the installed skopeo enforces the policy"
    };
    (!rule.rejects(), format!("rule {rule} demands {}; {by_whom}", rule.demand()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = r#"{"default": [{"type": "insecureAcceptAnything"}], "transports": {"docker": {
        "h.example/signed": [{"type": "signedBy", "keyType": "GPGKeys", "keyPath": "/k"}], "h.example/never": [{"type": "reject"}]}}}"#;

    #[test]
    fn demands_of_reference_settings_and_policy_are_compared() {
        let policy = ImagePolicy::parse(POLICY.as_bytes()).unwrap();
        let (by_reference, required) = (SignatureDemand::ByReference, SignatureDemand::Required);
        for (image, demand, ok, part) in [
            ("h.example/x", by_reference, true, "rule default demands nothing"),
            ("h.example/x", required, false, "but `image.signature` requires a signature"),
            ("h.example/signed:1", by_reference, true, "where the installed skopeo enforces the policy"),
            ("h.example/signed:1", required, true, "a GPG signature by /k; skopeo is tried before the pull"),
            ("h.example/never", by_reference, false, "what no image meets"),
            ("ostree-image-signed:docker://h.example/signed", by_reference, false, "does not allow"),
        ] {
            let (is_ok, detail) = judge(&policy, &image.parse().unwrap(), demand);
            assert_eq!(is_ok, ok, "{image}: {detail}");
            assert!(detail.contains(part), "{image}: {detail}");
        }
    }
}
