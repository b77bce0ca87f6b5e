//! Pinned image sets of a cluster, and what registries and the kubelet's pull secret say about their images.

use flameholder::core::pinned_images::credentials::for_image;
use flameholder::core::pinned_images::drop_in::{FoundDropIn, contents, is_right, plan};
use flameholder::core::pinned_images::image_manifest::ImageManifest;
use flameholder::core::pinned_images::image_sets::PinnedImageSets;
use flameholder::core::pinned_images::pin_state::PinState;
use flameholder::core::pinned_images::pull_space::unpacked_bytes;
use flameholder::core::values::tree::FileKind;

use crate::halves;

/// The input is a document of sets, and after the first NUL a manifest or a pull secret. Images that are taken stand in the
/// drop-in as they are, and a drop-in that was written is not written again.
pub(crate) fn pinned_images(input: &[u8]) {
    let (document, answer) = halves(input);
    if let Ok(ImageManifest::Layers(layers)) = ImageManifest::parse(answer, "x86_64") {
        assert!(unpacked_bytes(&layers) >= layers.values().copied().max().unwrap_or(0));
    }
    let Ok(sets) = serde_json::from_slice::<PinnedImageSets>(document) else { return };
    let unpulled = PinState::unpulled(&sets);
    assert_eq!(unpulled.present, 0);
    let Ok(images) = sets.images() else { return };
    let written = contents(&images);
    let text = String::from_utf8(written.clone()).expect("the drop-in is text");
    let parsed: toml::Table = text.parse().expect("the drop-in is TOML");
    let table = |name: &str, table: &toml::Table| table.get(name).and_then(toml::Value::as_table).cloned();
    let image = table("crio", &parsed).and_then(|crio| table("image", &crio));
    let pinned = image.as_ref().and_then(|image| image.get("pinned_images")).and_then(toml::Value::as_array);
    let names = pinned.into_iter().flatten().filter_map(toml::Value::as_str);
    assert!(names.eq(images.iter().map(String::as_str)), "{text}");
    if !images.is_empty() {
        let kind = Some(FileKind::File);
        let found = FoundDropIn { kind, contents: Some(written), ..FoundDropIn::default() };
        assert!(is_right(&found, &images));
        assert_eq!(plan(&found, &images), Ok(Vec::new()));
    }
    for image in &images {
        if let Some(credentials) = for_image(answer, image) {
            assert!(!credentials.username.contains(':'));
        }
    }
}
